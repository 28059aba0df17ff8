//! `/v1/responses`.

use super::Drawing;
use super::bodies::body;
use super::openai::with_job_headers;
use super::operation::{Operation, json_of, named};
use crate::http::v1::openai::responses::request::{FIELDS, ResponsesRequest};
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    drawing.component("ResponsesRequest", request());
    drawing.component("Response", response());
    let mut answers = json_of(named("Response"));
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    let create = Operation::new("POST", "/v1/responses", "Asks a model: OpenAI's responses, as a job");
    let create = with_job_headers(create).takes(json_of(named("ResponsesRequest")));
    drawing.add(create.says(200, "The response, or with 'stream' its numbered events", answers.clone()));
    let include = json!({"type": "string", "description": "Accepted and unused"});
    let show = Operation::new("GET", "/v1/responses/{id}", "A stored response, whole or as a stream")
        .query("stream", json!({"type": "boolean"}))
        .query("starting_after", json!({"type": "integer", "minimum": 0}))
        .query("include", include.clone())
        .query("include[]", include.clone())
        .query("include_obfuscation", include.clone())
        .header("Last-Event-ID", json!({"type": "string", "pattern": "^[0-9]+$"}));
    drawing.add(show.says(200, "The response, or its events behind the given number", answers));
    let cancel = Operation::new("POST", "/v1/responses/{id}/cancel", "Cancels a response");
    drawing.add(cancel.says(200, "Cancelled, or ended before", json_of(named("Response"))));
    let delete = Operation::new("DELETE", "/v1/responses/{id}", "Deletes an ended response and its job");
    drawing.add(delete.says(200, "It is gone", json_of(json!({"type": "object"}))));
    let items = Operation::new("GET", "/v1/responses/{id}/input_items", "The input of a response")
        .query("after", json!({"type": "string"}))
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
        .query("order", json!({"enum": ["asc", "desc"]}))
        .query("include", include.clone())
        .query("include[]", include);
    drawing.add(items.says(200, "Newest first, unless asked otherwise", json_of(json!({"type": "object"}))));
    for (path, summary) in [
        ("/v1/responses/input_tokens", "Estimates the tokens of a request"),
        ("/v1/responses/compact", "Asks the model for a summary that stands for the input"),
    ] {
        let operation = Operation::new("POST", path, summary).takes(json_of(named("ResponsesRequest")));
        drawing.add(operation.says(200, "Done", json_of(json!({"type": "object"}))));
    }
}

fn response() -> Value {
    json!({
        "type": "object",
        "description": "A Response of OpenAI's API, with every field of Open Responses' ResponseResource",
        "properties": {
            "id": {"type": "string", "description": "`resp_` and the id of the job"},
            "object": {"const": "response"},
            "created_at": {"type": "integer"},
            "status": {
                "enum": ["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"],
            },
            "model": {"type": "string"},
            "output": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["id", "object", "created_at", "status", "model", "output"],
    })
}

fn request() -> Value {
    let number = |least: f64, most: f64| json!({"type": "number", "minimum": least, "maximum": most});
    let item =
        json!({"type": "object", "properties": {"type": {"type": "string"}, "role": {"type": "string"}}});
    let special = [
        ("input", json!({"anyOf": [{"type": "string"}, {"type": "array", "items": item}]})),
        ("model", named("Model")),
        ("metadata", named("Metadata")),
        ("conversation", json!({"anyOf": [{"type": "string"}, {"type": "object"}]})),
        ("include", json!({"type": "array", "items": {"type": "string"}})),
        ("tools", json!({"type": "array", "maxItems": 128, "items": {"type": "object"}})),
        ("tool_choice", json!({"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}]})),
        ("text", json!({"type": "object"})),
        ("reasoning", json!({"type": "object"})),
        ("stream_options", json!({"type": "object"})),
        ("truncation", json!({"enum": ["auto", "disabled"]})),
        ("top_p", number(0.0, 1.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
    ];
    let mut drawn = body::<ResponsesRequest>(&special, &[]);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}
