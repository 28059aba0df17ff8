//! `GET /api/tools`: tools in the form that models receive.

use super::envelope;
use crate::domain::tool::ToolSpec;
use crate::http::context::ServerContext;
use crate::http::request::context::RequestContext;
use crate::http::response::HttpResponse;
use crate::ports::ToolScope;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ToolList"))]
#[derive(Serialize)]
pub(crate) struct ToolListResponse {
    tools: Vec<ToolEntry>,
    total: usize,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiTool"))]
#[derive(Serialize)]
pub(crate) struct ToolEntry {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolSpec,
}

/// All of them.
pub(crate) fn tools(context: &ServerContext, _: &RequestContext) -> HttpResponse {
    let specs = context.app.toolbox.offered(&ToolScope::EVERY);
    let tools: Vec<ToolEntry> =
        specs.iter().map(|tool| ToolEntry { kind: "function", function: ToolSpec::clone(tool) }).collect();
    envelope::data(ToolListResponse { total: tools.len(), tools })
}
