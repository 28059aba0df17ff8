//! `/v1/tools`: the tools that models may call, and a call by an operator.

pub(crate) mod operator_call;

use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::tool::{ToolGroup, ToolOrigin};
use crate::http::blocking::{CancelOnDrop, on_own_thread};
use crate::http::context::{ServerContext, TRIALS};
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::{body as request_body, json, project};
use crate::http::response::{self, HandlerResult};
use crate::http::server::shutdown::ShutdownStage;
use crate::http::v1::page::ListResponse;
use crate::ports::{ApprovedCalls, CancelReason, CancelToken, ToolInfo};
use hyper::StatusCode;
use operator_call::OperatorToolCall;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// `Retry-After` when too many calls run, seconds.
const RETRY_AFTER_S: u64 = 1;
const PROJECT: &str = "project_id";

/// A tool as clients see it.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Tool"))]
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct ToolResponse {
    object: &'static str,
    name: String,
    description: String,
    parameters: Value,
    origin: ToolOrigin,
    needs_approval: bool,
    /// The group that requests may name instead.
    group: Option<&'static str>,
    /// Whether a job that names no tools is offered it.
    is_default: bool,
    /// Why it cannot be used at present; null if it can.
    unavailable: Option<String>,
    idempotent: bool,
    cacheable: bool,
}

impl ToolResponse {
    /// Builds the object from what the toolbox reports.
    pub fn of(info: ToolInfo) -> Self {
        Self {
            object: "tool",
            name: info.spec.name.into_owned(),
            description: info.spec.description.into_owned(),
            parameters: info.spec.parameters,
            origin: info.origin,
            needs_approval: info.needs_approval,
            group: info.group.map(ToolGroup::name),
            is_default: info.is_default,
            unavailable: info.unavailable,
            idempotent: info.traits.idempotent,
            cacheable: info.traits.cacheable,
        }
    }
}

/// `GET /v1/tools`: all tools, in the order in which models get them.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let toolbox = Arc::clone(&context.app.toolbox);
    // This may read tool files that have just changed.
    let infos = context.read(request.user, move |_| Ok(toolbox.tool_infos())).await?;
    let data = infos.into_iter().map(ToolResponse::of).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::<ToolResponse, String>::new(data, None)))
}

/// `POST /v1/tools/{name}/call`: the body holds the arguments, the response the result as a model would get
/// it.
pub(crate) async fn call(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let query = &request.query;
    let asked = query.text(PROJECT).map(project::parse_id).transpose()?;
    let whole = request_body::read_up_to(
        context,
        &request.headers,
        body,
        context.app.limits.tool_arguments_bytes.min(context.app.limits.body_bytes),
    );
    let whole = whole.await?;
    let arguments = json::object(&whole.bytes, json::most_values(&context.app.limits))?;
    let (user, name) = (request.user, request.segment("name").to_owned());
    let work = OperatorRequest { user, name, arguments, project: own_project(context, user, asked).await? };
    let turn = Arc::clone(&context.trials).try_acquire_owned().map_err(|_| ApiError::TooMany {
        message: format!("{TRIALS} calls of tools are under way, as many as may be; try again in a moment"),
        retry_after_s: RETRY_AFTER_S,
    })?;
    let stop = CancelToken::new(Arc::clone(&context.app.clock));
    let _when_nobody_waits = CancelOnDrop(stop.clone());
    let working = on_own_thread("tool call", {
        let (context, stop) = (Arc::clone(context), stop.clone());
        move || {
            let _turn = turn; // held until the tool has ended, even if the client leaves
            work.perform(&context, stop)
        }
    });
    let mut shutdown = context.shutdown.clone();
    tokio::pin!(working);
    let result = tokio::select! {
        result = &mut working => result,
        // A shutdown does not wait for tools: the tool is cancelled, and its result is the response.
        () = shutdown.reached(ShutdownStage::Draining) => {
            stop.cancel(CancelReason::Shutdown);
            working.await
        }
    };
    Ok(response::json(StatusCode::OK, &result?))
}

/// The requested project, which must be the caller's.
async fn own_project(
    context: &Arc<ServerContext>,
    user: UserId,
    requested: Option<ProjectId>,
) -> Result<Option<ProjectId>, ApiError> {
    let Some(id) = requested else { return Ok(None) };
    let projects = Arc::clone(&context.app.projects);
    let found = context.read(user, move |_| projects.project(user, id)).await?;
    Ok(Some(found.ok_or(ApiError::NotFound("project"))?.id))
}

struct OperatorRequest {
    user: UserId,
    name: String,
    arguments: Map<String, Value>,
    project: Option<ProjectId>,
}

impl OperatorRequest {
    fn perform(self, context: &ServerContext, cancel: CancelToken) -> Value {
        let app = &context.app;
        let job: JobId = app.job_id(app.clock.now_ms());
        let trial = OperatorToolCall {
            user: self.user,
            job,
            project: self.project,
            model: app.default_model.clone(),
            time: Duration::from_secs(app.limits.job_timeout_s),
            approved: ApprovedCalls::All,
            cancel,
        };
        trial.call(app.toolbox.as_ref(), &self.name, self.arguments)
    }
}
