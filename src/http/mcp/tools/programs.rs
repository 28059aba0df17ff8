//! Tools that run programs in the sandbox, through the executor of jobs: with its limits, deadlines, audit
//! lines and shortened results. They work in a project: the one that the call names, else one of the user's
//! own that is made for it.

use super::definition::{ToolHints, definition};
use super::result;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::ProjectName;
use crate::domain::tool::FileAccess;
use crate::http::api::projects::create;
use crate::http::blocking::CancelOnDrop;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::mcp::progress::reported;
use crate::http::request::project;
use crate::http::server::shutdown::ShutdownStage;
use crate::http::v1::tools::operator_call::OperatorToolCall;
use crate::ports::{ApprovedCalls, CancelReason, CancelToken, McpOffer, ToolInfo};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The project of calls that name none.
const OWN_PROJECT: &str = "mcp";
const OWN_PROJECT_ABOUT: &str = "Files of programs that MCP clients run.";
const PROJECT: &str = "project_id";
const STOPPING: &str = "the server stops, so the program was ended: call it again later";

/// A tool of the toolbox that MCP clients are offered.
pub(super) struct OfferedProgram {
    info: ToolInfo,
    offer: McpOffer,
}

impl OfferedProgram {
    fn of(info: ToolInfo) -> Option<Self> {
        info.mcp.map(|offer| Self { info, offer })
    }

    /// Why nobody can call it now.
    fn refusal(&self) -> Option<String> {
        let Self { info, offer } = self;
        if info.needs_approval {
            return Some(format!(
                "{} needs approval on this server (the key 'approval'), and nobody can be asked here: submit_job waits for it",
                offer.name
            ));
        }
        info.unavailable.as_ref().map(|reason| format!("{} cannot be used: {reason}", offer.name))
    }

    /// A message about arguments, with the name that the client knows.
    fn renamed(&self, message: &str) -> String {
        let Self { info, offer } = self;
        let about_arguments = format!("Invalid parameters for tool '{}'", info.spec.name);
        match message.strip_prefix(&about_arguments) {
            Some(rest) => {
                let rest = rest
                    .replace(&format!("call of {}:", info.spec.name), &format!("call of {}:", offer.name));
                format!("Invalid parameters for tool '{}'{rest}", offer.name)
            }
            None => message.to_owned(),
        }
    }

    /// Whether it uses the files of a project.
    fn has_files(&self) -> bool {
        self.info.traits.files != FileAccess::None
    }

    fn definition(self) -> Value {
        let has_files = self.has_files();
        let Self { info, offer } = self;
        let mut input = info.spec.parameters;
        if let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) {
            if has_files {
                let about = format!("Project whose files it uses. Default: your project '{OWN_PROJECT}'");
                properties.insert(PROJECT.to_owned(), json!({"type": "string", "description": about}));
            }
            // No job calls it.
            if let Some(strictness) = properties.get_mut("strictness").and_then(Value::as_object_mut) {
                strictness.insert("description".to_owned(), json!("Default: the server's"));
            }
        }
        let hints =
            ToolHints { only_reads: !has_files, destroys: has_files, is_idempotent: info.traits.idempotent };
        definition([offer.name, offer.title, offer.description], &input, &output_schema(), hints)
    }
}

fn output_schema() -> Value {
    json!({"type": "object", "properties": {
        "output": {"type": "string", "description": "Standard output"},
        "stderr": {"type": "string", "description": "Standard error, if there is any"},
        "status": {"type": "string"},
        "exit_code": {"type": ["integer", "null"]},
        "duration_ms": {"type": "integer"},
        "execution_time": {"type": "number", "description": "Seconds, waiting for a free slot included"},
    }})
}

/// The programs that can be called now.
pub(super) async fn offered(request: &McpClientRequest) -> Result<Vec<Value>, ApiError> {
    let usable = all(request).await?.into_iter().filter(|program| program.refusal().is_none());
    Ok(usable.map(OfferedProgram::definition).collect())
}

/// The program of this name, whether it can be called or not.
pub(super) async fn find(request: &McpClientRequest, name: &str) -> Result<Option<OfferedProgram>, ApiError> {
    Ok(all(request).await?.into_iter().find(|program| program.offer.name == name))
}

async fn all(request: &McpClientRequest) -> Result<Vec<OfferedProgram>, ApiError> {
    let toolbox = Arc::clone(&request.context.app.toolbox);
    // This may read tool files that have just changed.
    let infos = request.context.app.blocking(request.caller.user, move || toolbox.tool_infos()).await?;
    Ok(infos.into_iter().filter_map(OfferedProgram::of).collect())
}

/// Runs a program. It is killed when the request is dropped.
pub(super) async fn run(
    request: &McpClientRequest,
    program: OfferedProgram,
    mut arguments: Map<String, Value>,
) -> Result<Value, ApiError> {
    if let Some(refusal) = program.refusal() {
        return Err(ApiError::Conflict(refusal));
    }
    let app = &request.context.app;
    let project = if program.has_files() {
        let wanted = arguments.shift_remove(PROJECT).filter(|id| !id.is_null());
        Some(workspace(request, wanted.as_ref()).await?)
    } else {
        None
    };
    check_size(&arguments, app)?;
    let cancel = CancelToken::new(Arc::clone(&app.clock));
    let call = OperatorToolCall {
        user: request.caller.user,
        job: app.job_id(app.clock.now_ms()),
        project,
        model: app.default_model.clone(),
        time: Duration::from_secs(app.limits.job_timeout_s),
        // The tool may need an approval by now.
        approved: ApprovedCalls::None,
        cancel: cancel.clone(),
    };
    let _when_nobody_waits = CancelOnDrop(cancel.clone());
    let (toolbox, name) = (Arc::clone(&app.toolbox), program.info.spec.name.clone());
    let work = move || call.call(toolbox.as_ref(), &name, arguments);
    let mut running = std::pin::pin!(request.context.mcp_programs.of(request.owner).run(work));
    let mut shutdown = request.context.shutdown.clone();
    let ended = async {
        tokio::select! {
            result = &mut running => result.map(|result| tool_result(&result, |text| program.renamed(text))),
            // A shutdown does not wait for programs.
            () = shutdown.reached(ShutdownStage::Draining) => {
                cancel.cancel(CancelReason::Shutdown);
                running.await.map(|_| result::failure(STOPPING, Map::new()))
            }
        }
    };
    let report = |seconds| (seconds, format!("running for {seconds} s"));
    reported(request.progress.as_ref(), report, ended).await
}

fn check_size(arguments: &Map<String, Value>, app: &AppDependencies) -> Result<(), ApiError> {
    let most = app.limits.tool_arguments_bytes;
    let bytes: usize =
        arguments.iter().map(|(name, value)| name.len().saturating_add(value.to_string().len())).sum();
    if bytes > most {
        let rule = format!("the arguments are larger than limits.tool_arguments_bytes = {most} bytes");
        return Err(ApiError::value("arguments", rule));
    }
    Ok(())
}

/// The result of the executor as MCP shows it.
fn tool_result(result: &Value, renamed: impl Fn(&str) -> String) -> Value {
    let field = |name: &str| result.get(name).cloned().unwrap_or_default();
    let mut structured = match field("data") {
        Value::Object(data) => data,
        Value::Null => Map::new(),
        // A long result became one text.
        other => Map::from_iter([("output".to_owned(), other)]),
    };
    if field("success") == Value::Bool(true) {
        structured.insert("execution_time".to_owned(), field("execution_time"));
        return result::done(structured);
    }
    let error = field("error");
    result::failure(&renamed(error.as_str().unwrap_or("the program failed")), structured)
}

/// The project that a call works in.
async fn workspace(request: &McpClientRequest, wanted: Option<&Value>) -> Result<ProjectId, ApiError> {
    let wanted = wanted.map(|id| project::parse_id(id.as_str().unwrap_or_default())).transpose()?;
    let (app, user) = (Arc::clone(&request.context.app), request.caller.user);
    let find = move || match wanted {
        Some(id) => project::owned(&app, user, id).map(|project| project.id),
        None => own_project(&app, user),
    };
    request.context.app.blocking(user, find).await?
}

/// The user's project for programs; it is made on first use.
fn own_project(app: &Arc<AppDependencies>, user: UserId) -> Result<ProjectId, ApiError> {
    app.workspaces.check_access()?;
    let name = ProjectName::try_from(OWN_PROJECT.to_owned()).map_err(|_| ApiError::Internal)?;
    let find = || -> Result<Option<ProjectId>, ApiError> {
        let mut projects = app.projects.all_projects(user)?.into_iter();
        Ok(projects.find(|project| project.name == name).map(|project| project.id))
    };
    if let Some(id) = find()? {
        return Ok(id);
    }
    match create::make(app, user, name.clone(), OWN_PROJECT_ABOUT.to_owned()) {
        Ok(project) => Ok(project.id),
        // Another call may have made it in the meantime.
        Err(error) => find()?.ok_or(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_the_executor_becomes_structured_content() {
        let told = json!({"success": true, "data": {"output": "7\n"}, "error": null, "execution_time": 0.5});
        let result = tool_result(&told, str::to_owned);
        let expected = json!({"output": "7\n", "execution_time": 0.5});
        assert_eq!((&result["structuredContent"], &result["isError"]), (&expected, &json!(false)));
        let told = json!({"success": false, "data": {"output": "x"}, "error": "Exit code 1"});
        let result = tool_result(&told, str::to_owned);
        assert_eq!(
            (&result["content"][0]["text"], &result["isError"]),
            (&json!("Exit code 1"), &json!(true))
        );
        assert_eq!(result["structuredContent"], json!({"output": "x"}));
        let long =
            tool_result(&json!({"success": true, "data": "cut …", "execution_time": 1.0}), str::to_owned);
        assert_eq!(long["structuredContent"]["output"], "cut …");
    }
}
