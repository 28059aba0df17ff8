//! `/v1/memory`: what jobs keep for later ones, of the user or with `project_id` of a project.

use crate::domain::file_version::FileVersion;
use crate::domain::id::ProjectId;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::{self, RequestBody};
use crate::http::request::conditions::{self, entity_tag};
use crate::http::request::context::RequestContext;
use crate::http::request::{json, project};
use crate::http::response::{self, HandlerResult, HttpResponse};
use crate::ports::{Memories, MemoryOwner};
use hyper::StatusCode;
use hyper::header::ETAG;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PROJECT: &str = "project_id";
/// JSON values of a body.
const MOST_VALUES: usize = 64;
/// Growth of a byte of text in JSON: `\u00e4` stands for two, a control character for one.
const ESCAPED: u64 = 6;

/// A memory.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Memory"))]
#[derive(Serialize)]
pub(crate) struct MemoryResponse {
    object: &'static str,
    /// The project; null for the memory of the user.
    project_id: Option<ProjectId>,
    /// The text, Markdown.
    content: String,
    bytes: u64,
    /// The largest text.
    max_bytes: u64,
}

/// The new text.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryRequest {
    content: String,
}

/// `GET /v1/memory`. The `ETag` is the version of the text.
pub(crate) async fn show(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let (memories, owner) = memory(context, request).await?;
    let max_bytes = memories.max_bytes();
    let text = context.app.blocking(owner.user, move || Ok::<_, ApiError>(memories.read(owner)?)).await??;
    let version = FileVersion::of_content(text.as_bytes());
    if conditions::is_known(&request.headers, version)? {
        let mut response = response::empty(StatusCode::NOT_MODIFIED);
        response::set(&mut response, ETAG, &entity_tag(version));
        return Ok(response);
    }
    Ok(answer(max_bytes, owner, text))
}

/// `PUT /v1/memory`: replaces the text. `If-Match` guards what a job has written meanwhile.
pub(crate) async fn replace(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let condition = conditions::of_change(&request.headers)?;
    let (memories, owner) = memory(context, &request).await?;
    let (limits, max_bytes) = (&context.app.limits, memories.max_bytes());
    let most = usize::try_from(max_bytes.saturating_mul(ESCAPED)).unwrap_or(usize::MAX);
    let whole = body::read_up_to(context, &request.headers, body, most.max(limits.body_bytes)).await?;
    let MemoryRequest { content } = json::parse(&whole.bytes, MOST_VALUES)?;
    drop(whole);
    let text = content.clone();
    context
        .app
        .blocking(owner.user, move || Ok::<_, ApiError>(memories.replace_if(owner, &condition, &text)?))
        .await??;
    Ok(answer(max_bytes, owner, content))
}

/// The memories, and whose is asked for.
async fn memory(
    context: &ServerContext,
    request: &RequestContext,
) -> Result<(Arc<dyn Memories>, MemoryOwner), ApiError> {
    let off = ApiError::Forbidden("this server keeps no memory; its operator can allow it (memory.enabled)");
    let memories = Arc::clone(context.app.memories.as_ref().ok_or(off)?);
    let project = request.query.text(PROJECT).map(project::parse_id).transpose()?;
    if let Some(id) = project {
        project::check(context, request.user, id).await?;
    }
    Ok((memories, MemoryOwner { user: request.user, project }))
}

fn answer(max_bytes: u64, owner: MemoryOwner, content: String) -> HttpResponse {
    let version = FileVersion::of_content(content.as_bytes());
    let (object, bytes) = ("memory", content.len() as u64);
    let memory = MemoryResponse { object, project_id: owner.project, content, bytes, max_bytes };
    let mut response = response::json(StatusCode::OK, &memory);
    response::set(&mut response, ETAG, &entity_tag(version));
    response
}
