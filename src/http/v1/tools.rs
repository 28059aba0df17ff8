//! `/v1/tools`: what models may call, and a call of an operator's own. Owns both shapes; refuses to know any tool by name.

use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::tool::ToolOrigin;
use crate::http::arriving::Arriving;
use crate::http::blocking::blocking;
use crate::http::body as request_body;
use crate::http::door::{Door, TRIALS};
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::shutdown::Stage;
use crate::http::v1::page::List;
use crate::http::v1::trial::Trial;
use crate::http::{json, project};
use crate::ports::{CancelReason, CancelToken, ToolInfo};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When to come back where too many calls are under way, seconds.
const RETRY_AFTER_S: u64 = 1;
/// The project that a call works in.
const PROJECT: &str = "project_id";

/// A tool.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Tool"))]
#[derive(Serialize)]
pub struct ToolView {
    object: &'static str,
    name: String,
    description: String,
    parameters: Value,
    origin: ToolOrigin,
    needs_approval: bool,
    idempotent: bool,
    cacheable: bool,
}

impl ToolView {
    /// As the API shows it.
    pub fn of(info: ToolInfo) -> Self {
        Self {
            object: "tool",
            name: info.spec.name.into_owned(),
            description: info.spec.description.into_owned(),
            parameters: info.spec.parameters,
            origin: info.origin,
            needs_approval: info.needs_approval,
            idempotent: info.traits.idempotent,
            cacheable: info.traits.cacheable,
        }
    }
}

/// `GET /v1/tools`: all of them, in the order in which models are told of them.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let toolbox = Arc::clone(&door.room.toolbox);
    // Tools that have just changed are read anew.
    let infos = door.read(move |_| Ok(toolbox.tool_infos())).await?;
    let data = infos.into_iter().map(ToolView::of).collect();
    Ok(reply::json(StatusCode::OK, &List::<ToolView, String>::new(data, None)))
}

/// `POST /v1/tools/{name}/call`: the body is the arguments, the answer the result as a model would get it.
pub(crate) async fn call(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &[PROJECT])?;
    let asked = query.text(PROJECT).map(project::parse_id).transpose()?;
    let whole = request_body::read_up_to(
        door,
        &call.headers,
        body,
        door.room.limits.tool_arguments_bytes.min(door.room.limits.body_bytes),
    );
    let whole = whole.await?;
    let arguments = json::object(&whole.bytes, json::most_values(&door.room.limits))?;
    let (user, name) = (call.user, call.segment("name").to_owned());
    let work = Work { user, name, arguments, project: place(door, user, asked).await? };
    let turn = Arc::clone(&door.trials).try_acquire_owned().map_err(|_| Error::TooMany {
        message: format!("{TRIALS} calls of tools are under way, as many as may be; try again in a moment"),
        retry_after_s: RETRY_AFTER_S,
    })?;
    let stop = CancelToken::new(Arc::clone(&door.room.clock));
    let _when_nobody_waits = StopOnDrop(stop.clone());
    let working = blocking({
        let (door, stop) = (Arc::clone(door), stop.clone());
        move || {
            let _turn = turn; // held until the tool has ended, even when nobody waits any more
            work.perform(&door, stop)
        }
    });
    let mut shutdown = door.shutdown.clone();
    tokio::pin!(working);
    let result = tokio::select! {
        result = &mut working => result,
        // Nobody waits for a tool as for a job: it is told to stop, and what it then says is the answer.
        () = shutdown.reached(Stage::Draining) => {
            stop.cancel(CancelReason::Shutdown);
            working.await
        }
    };
    Ok(reply::json(StatusCode::OK, &result?))
}

/// The caller's project and where it lies.
async fn place(
    door: &Arc<Door>,
    user: UserId,
    asked: Option<ProjectId>,
) -> Result<Option<(ProjectId, PathBuf)>, Error> {
    let Some(id) = asked else { return Ok(None) };
    let workplaces = Arc::clone(&door.room.workplaces);
    let found = door.read(move |_| workplaces.project_directory(user, id)).await?;
    Ok(Some((id, found.ok_or(Error::NotFound("project"))?)))
}

/// What an operator asks for.
struct Work {
    user: UserId,
    name: String,
    arguments: Map<String, Value>,
    project: Option<(ProjectId, PathBuf)>,
}

impl Work {
    fn perform(self, door: &Door, cancel: CancelToken) -> Value {
        let room = &door.room;
        let job: JobId = room.job_id(room.clock.now_ms());
        let trial = Trial {
            user: self.user,
            job,
            project: self.project,
            model: room.default_model.clone(),
            time: Duration::from_secs(room.limits.job_timeout_s),
            cancel,
        };
        trial.call(room.toolbox.as_ref(), &self.name, self.arguments)
    }
}

/// A client that has gone wants no result.
struct StopOnDrop(CancelToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel(CancelReason::Cancelled);
    }
}
