//! `GET /api/tools`: what models may call, in the form that models are told.

use super::envelope;
use crate::domain::tool::{ToolChoice, ToolSpec};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ToolList"))]
#[derive(Serialize)]
pub(crate) struct View {
    tools: Vec<Tool>,
    total: usize,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiTool"))]
#[derive(Serialize)]
pub(crate) struct Tool {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolSpec,
}

/// All of them.
pub(crate) fn tools(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let specs = door.room.toolbox.offered(&ToolChoice::All(true), true);
    let tools: Vec<Tool> =
        specs.iter().map(|tool| Tool { kind: "function", function: ToolSpec::clone(tool) }).collect();
    Ok(envelope::data(View { total: tools.len(), tools }))
}
