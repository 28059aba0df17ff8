//! The tools of the MCP server: programs in the sandbox, which need no model, and jobs. The programs are the
//! tools of the toolbox that have an [`McpOffer`](crate::ports::McpOffer); no name of one stands here (P6).

mod definition;
mod jobs;
mod programs;
mod result;

use super::client_request::McpClientRequest;
use super::message::RpcError;
use crate::http::auth::RouteAccess;
use crate::http::request::quoted::quoted;
use crate::http::request::typed;
use hyper::Method;
use jobs::JobTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct ListParams {
    cursor: Option<String>,
}

/// `tools/list`: the tools that this caller may call now, on one page.
pub(super) async fn list(request: &McpClientRequest, params: Map<String, Value>) -> Result<Value, RpcError> {
    let params: ListParams = typed::from_map(params)?;
    if params.cursor.is_some() {
        return Err(RpcError::Params("'cursor' is of no list: the tools are on one page".to_owned()));
    }
    let mut tools = Vec::new();
    let may_write = may_write(request).is_ok();
    if may_write {
        tools.extend(programs::offered(request).await?);
    }
    let limits = &request.context.app.limits;
    let jobs = JobTool::ALL.into_iter().filter(|tool| may_write || tool.only_reads());
    tools.extend(jobs.map(|tool| tool.definition(limits)));
    Ok(json!({"tools": tools}))
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    arguments: Option<Map<String, Value>>,
}

/// `tools/call`. What goes wrong in the tool is a result with `isError`, so that a model can read it.
pub(super) async fn call(request: &McpClientRequest, params: Map<String, Value>) -> Result<Value, RpcError> {
    let CallParams { name, arguments } = typed::from_map(params)?;
    let arguments = arguments.unwrap_or_default();
    let result = if let Some(tool) = JobTool::named(&name) {
        let allowed = if tool.only_reads() { Ok(()) } else { may_write(request) };
        match allowed {
            Ok(()) => tool.call(request, arguments).await,
            Err(error) => Err(error),
        }
    } else {
        let Some(program) = programs::find(request, &name).await? else {
            return Err(RpcError::Params(format!("there is no tool {}", quoted(&name))));
        };
        match may_write(request) {
            Ok(()) => programs::run(request, program, arguments).await,
            Err(error) => Err(error),
        }
    };
    Ok(result.unwrap_or_else(|error| result::failed(&error)))
}

/// Whether the caller may change anything, as on routes with `POST`.
fn may_write(request: &McpClientRequest) -> Result<(), crate::http::error::ApiError> {
    request.caller.may(&Method::POST, RouteAccess::User)
}
