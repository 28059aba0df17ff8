//! Export and import of runs.

use super::Drawing;
use super::operation::Operation;
use crate::http::v1::jobs::import::ImportResponse;
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing) {
    let export =
        Operation::new("GET", "/v1/jobs/{id}/export", "An ended job with its log, for another server");
    let shape = "A header, a line for each record of the log and each file, and an end line";
    drawing.add(export.says(200, shape, lines()));
    let import = Operation::new("POST", "/v1/jobs/import", "Stores a run that another server has exported");
    let import = import
        .takes(lines())
        .answers::<ImportResponse>(drawing, 200, "You have this run already")
        .answers::<ImportResponse>(drawing, 201, "The run is stored; nothing runs");
    drawing.add(import);
}

fn lines() -> Value {
    json!({"application/jsonl": {"schema": {"type": "string"}}})
}
