//! `/v1/chat/completions/{id}` and the list of completions that were created with `store: true`. Each is a
//! view of its job, which has to have succeeded; one of another user does not exist (P7).

use super::completion::{self, ChatAnswerCall, ChatCompletion};
use super::request::shows_final_text_only;
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::held::AnswerMemory;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::spec;
use crate::http::v1::openai::answer::finished;
use crate::http::v1::openai::failure;
use crate::http::v1::page;
use crate::ports::{CompletionPage, CompletionQuery, NewWork, Store};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of a page, unless asked for otherwise, and at most.
const ENTRIES: u64 = 20;
const ENTRIES_MAX: u64 = 100;
/// A page ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;
const MISSING: ApiError = ApiError::NotFound("chat completion");

/// A stored completion.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StoredCompletion {
    #[serde(flatten)]
    completion: ChatCompletion,
    metadata: BTreeMap<String, String>,
}

/// A message that a completion answered.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StoredChatMessage {
    id: String,
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatAnswerCall>,
}

/// A page; the next one begins behind `last_id`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ChatPageResponse<T> {
    object: &'static str,
    data: Vec<T>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeletedCompletionResponse {
    id: String,
    object: &'static str,
    deleted: bool,
}

/// A change of a completion.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionUpdateRequest {
    metadata: BTreeMap<String, String>,
}

/// `GET /v1/chat/completions`: oldest first, unless `order=desc`.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (limit, is_newest_first) = (limit(&request.query)?, is_newest_first(&request.query)?);
    let after = match request.query.text("after") {
        None => None,
        Some(text) => Some(completion::job_of(text).ok_or_else(|| {
            let rule = format!("'after' must be the id of a chat completion, not {}", quoted(text));
            ApiError::value("after", rule)
        })?),
    };
    let model = request.query.text("model").map(str::to_owned);
    let query = CompletionQuery { user: request.user, model, after, is_newest_first, limit };
    let completions = Arc::clone(&context.app.completions);
    let (store, mut memory) = (Arc::clone(&context.app.store), AnswerMemory::of(context, request));
    let made = context.app.blocking(request.user, move || {
        let CompletionPage { jobs, mut has_more } = completions.completions(&query)?;
        let (mut data, mut bytes) = (Vec::new(), 0_usize);
        for job in jobs {
            if bytes >= PAGE_BYTES {
                has_more = true;
                break;
            }
            // One that retention removes meanwhile is left out.
            data.extend(shown(&*store, job, &mut memory, &mut bytes)?);
        }
        let id = |entry: Option<&StoredCompletion>| entry.map(|entry| entry.completion.id.clone());
        let (first_id, last_id) = (id(data.first()), id(data.last()));
        memory.json(&ChatPageResponse { object: "list", data, first_id, last_id, has_more })
    });
    Ok(made.await??.into_response())
}

/// `GET /v1/chat/completions/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let job = found(context, request).await?;
    answered(context, AnswerMemory::of(context, request), job).await
}

/// `POST /v1/chat/completions/{id}`: the new metadata replaces the old.
pub(crate) async fn update(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (job, memory) = (found(context, &request).await?, AnswerMemory::of(context, &request));
    let body = body::read(context, &request.headers, body).await?;
    quota::check(context, request.user, None, NewWork::bytes(body.bytes.len())).await?;
    let asked =
        json::read_large(context, request.user, body, |asked: CompletionUpdateRequest, _| Ok(asked)).await;
    let metadata = spec::metadata(asked.map_err(failure::of_request)?.metadata, &context.app)?;
    let changed = context.app.completions.label_completion(request.user, job.id, metadata).await?;
    answered(context, memory, changed.ok_or(MISSING)?).await
}

/// `DELETE /v1/chat/completions/{id}`, with its job.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let job = found(context, request).await?;
    if !context.app.store.delete(request.user, job.id).await? {
        return Err(MISSING);
    }
    let id = completion::completion_id(job.id);
    let deleted = DeletedCompletionResponse { id, object: "chat.completion.deleted", deleted: true };
    Ok(response::json(StatusCode::OK, &deleted))
}

/// `GET /v1/chat/completions/{id}/messages`: what the request had, oldest first, unless `order=desc`. Images
/// are left out.
pub(crate) async fn messages(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (limit, is_newest_first) = (limit(&request.query)?, is_newest_first(&request.query)?);
    let job = found(context, request).await?;
    let id = job.id;
    let input = context.read(request.user, move |store| store.input(id)).await?.ok_or(MISSING)?;
    let mut data: Vec<StoredChatMessage> =
        input.into_iter().enumerate().map(|(place, message)| message_of(id, place, message)).collect();
    if is_newest_first {
        data.reverse();
    }
    if let Some(after) = request.query.text("after") {
        let place = data.iter().position(|message| message.id == after);
        let place =
            place.ok_or_else(|| ApiError::value("after", "'after' is not a message of this completion"))?;
        data.drain(..=place);
    }
    let has_more = data.len() > limit;
    data.truncate(limit);
    let id = |message: Option<&StoredChatMessage>| message.map(|message| message.id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    let page = ChatPageResponse { object: "list", data, first_id, last_id, has_more };
    Ok(response::json(StatusCode::OK, &page))
}

/// The job of the completion in the path.
async fn found(context: &ServerContext, request: &RequestContext) -> Result<Job, ApiError> {
    let Some(id) = completion::job_of(request.segment("id")) else { return Err(MISSING) };
    let (user, completions) = (request.user, Arc::clone(&context.app.completions));
    context.read(user, move |_| completions.completion(user, id)).await?.ok_or(MISSING)
}

async fn answered(context: &ServerContext, mut memory: AnswerMemory, job: Job) -> HandlerResult {
    let store = Arc::clone(&context.app.store);
    let made = context.app.blocking(job.user, move || {
        let shown = shown(&*store, job, &mut memory, &mut 0)?;
        memory.json(&shown.ok_or(MISSING)?)
    });
    Ok(made.await??.into_response())
}

/// The completion of a job that has succeeded, whose bytes are added; `None` if it is gone.
fn shown(
    store: &dyn Store,
    job: Job,
    memory: &mut AnswerMemory,
    bytes: &mut usize,
) -> Result<Option<StoredCompletion>, ApiError> {
    let Some(spec) = store.request(job.user, job.id)? else { return Ok(None) };
    let metadata = job.metadata.clone();
    let read = finished::read(store, job, shows_final_text_only(&spec), &mut |more| {
        *bytes = bytes.saturating_add(more);
        memory.take_read(more)
    });
    let completion = ChatCompletion::new(memory.of_read(read)?);
    Ok(Some(StoredCompletion { completion, metadata }))
}

fn message_of(job: JobId, place: usize, message: Message) -> StoredChatMessage {
    let id = format!("{}-{place}", completion::completion_id(job));
    let shown =
        |role, content| StoredChatMessage { id, role, content, tool_call_id: None, tool_calls: Vec::new() };
    match message {
        Message::System { content } => shown("system", content),
        Message::User { content, .. } => shown("user", content),
        Message::Assistant { content, tool_calls, .. } => {
            let tool_calls = tool_calls.into_iter().map(|call: ToolCall| call.into()).collect();
            StoredChatMessage { tool_calls, ..shown("assistant", content) }
        }
        Message::Tool { id_ref, content, .. } => {
            StoredChatMessage { tool_call_id: Some(id_ref), ..shown("tool", content) }
        }
    }
}

fn limit(query: &QueryString) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=ENTRIES_MAX)?.unwrap_or(ENTRIES);
    Ok(usize::try_from(asked).unwrap_or(usize::MAX))
}

/// The order that `?order=` asks for: oldest first here, unless it is `desc`.
fn is_newest_first(query: &QueryString) -> Result<bool, ApiError> {
    Ok(query.text("order").is_some() && page::is_newest_first(query)?)
}
