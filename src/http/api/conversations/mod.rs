//! `/api/conversations` (DESIGN §5). A conversation of another user does not exist (P7).

mod cursor;
pub(crate) mod request;
pub(crate) mod view;

use crate::domain::conversation::{Conversation, ConversationChange, ConversationSettings};
use crate::domain::id::{ConversationId, UserId};
use crate::domain::search_words::SearchWords;
use crate::http::api::envelope;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::{body as request_body, json, project};
use crate::http::response::HandlerResult;
use crate::ports::{ConversationCursor, ConversationQuery, NewWork, StoreError};
use cursor::PageStart;
use request::ConversationRequest;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use view::ConversationResponse;

/// Conversations of a page when nobody asks for more.
const PAGE: usize = 20;

/// `GET /api/conversations`: the one that changed last first. A search reads texts, so it runs on the threads
/// for searches.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let limit = envelope::limit(query, PAGE, &context.app.limits)?;
    let cursor = query.text("cursor").map(PageStart::parse).transpose()?;
    let project = query.text("project_id").map(project::parse_id).transpose()?;
    if let Some(id) = project {
        project::check(context, request.user, id).await?;
    }
    let before = match cursor {
        None => None,
        Some(PageStart::Place(place)) => Some(place),
        Some(PageStart::Behind(id)) => {
            let found = look(context, request.user, id).await?.ok_or_else(cursor::unknown)?;
            Some(ConversationCursor::from(&found))
        }
    };
    let search = query.text("search").map(SearchWords::parse).transpose();
    let search = search.map_err(|error| ApiError::value("search", error.to_string()))?;
    let is_search = search.is_some();
    let wanted = ConversationQuery { user: request.user, project, search, before, limit };
    let (conversations, projects) =
        (Arc::clone(&context.app.conversations), Arc::clone(&context.app.projects));
    let read = move || {
        let page = conversations.conversations(&wanted)?;
        let names = view::project_names(&*projects, wanted.user, &page.conversations)?;
        Ok::<_, StoreError>((page, names))
    };
    let (page, names) = if is_search {
        context.searches.of(request.owner).run(read).await??
    } else {
        context.read(request.user, move |_| read()).await?
    };
    let next = page.next.as_ref().map(cursor::write);
    let items = page.conversations.into_iter().map(|found| ConversationResponse::of(found, &names)).collect();
    Ok(envelope::data(envelope::PageResponse::new(items, next)))
}

/// `POST /api/conversations`.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (user, change) = (request.user, asked(context, request, body).await?);
    // A new conversation has shown nothing yet, so its request can repeat nothing.
    let change = ConversationChange { is_whole_form: false, ..change };
    let now_ms = context.app.clock.now_ms();
    let settings = ConversationSettings {
        model: context.app.default_model.clone(),
        system_prompt: String::new(),
        temperature: None,
        max_tokens: None,
        thinking_enabled: false,
        project_id: None,
    };
    let mut conversation = Conversation {
        id: context.app.conversation_id(now_ms),
        user,
        title: String::new(),
        settings,
        created_at_ms: now_ms,
        updated_at_ms: now_ms,
        message_count: 0,
        metadata: BTreeMap::new(),
    };
    conversation.update(change);
    let stored =
        context.app.conversations.create_conversation(conversation, context.app.limits.conversations).await?;
    shown(context, stored).await
}

/// `GET /api/conversations/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let conversation = find(context, request.user, request.segment("id")).await?;
    shown(context, conversation).await
}

/// `PATCH /api/conversations/{id}`: what is not named stays as it is.
pub(crate) async fn update(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (user, id) = (request.user, parse_id(request.segment("id"))?);
    let change = asked(context, request, body).await?;
    let amended = context.app.conversations.update(user, id, change).await?;
    shown(context, amended.ok_or(ApiError::NotFound("conversation"))?).await
}

/// `DELETE /api/conversations/{id}`, with everything in it.
pub(crate) async fn remove(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id = parse_id(request.segment("id"))?;
    if context.app.conversations.remove_conversation(request.user, id).await? {
        return Ok(envelope::done("deleted"));
    }
    Err(ApiError::NotFound("conversation"))
}

/// The change in a body. Its project must belong to the user.
async fn asked(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<ConversationChange, ApiError> {
    let body = request_body::read(context, &request.headers, body).await?;
    let user = request.user;
    drop(request); // frees the headers while the job runs
    quota::check(context, user, None, NewWork::bytes(body.bytes.len())).await?;
    let change = json::read_large(context, user, body, ConversationRequest::into_change).await?;
    if let Some(Some(id)) = change.project_id {
        project::check(context, user, id).await?;
    }
    Ok(change)
}

async fn shown(context: &Arc<ServerContext>, conversation: Conversation) -> HandlerResult {
    let projects = Arc::clone(&context.app.projects);
    let view = context.read(conversation.user, move |_| {
        let names = view::project_names(&*projects, conversation.user, std::slice::from_ref(&conversation))?;
        Ok(ConversationResponse::of(conversation, &names))
    });
    Ok(envelope::data(view.await?))
}

/// The conversation, if it belongs to the user.
pub(crate) async fn find(
    context: &Arc<ServerContext>,
    user: UserId,
    name: &str,
) -> Result<Conversation, ApiError> {
    look(context, user, parse_id(name)?).await?.ok_or(ApiError::NotFound("conversation"))
}

async fn look(
    context: &Arc<ServerContext>,
    user: UserId,
    id: ConversationId,
) -> Result<Option<Conversation>, ApiError> {
    let conversations = Arc::clone(&context.app.conversations);
    context.read(user, move |_| conversations.conversation(user, &id)).await
}

/// Parses an id. A malformed id is a 404.
pub(crate) fn parse_id(name: &str) -> Result<ConversationId, ApiError> {
    ConversationId::try_from(name.to_owned()).map_err(|_| ApiError::NotFound("conversation"))
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CancelledJobs"))]
#[derive(Serialize)]
pub(crate) struct CancelledJobsResponse {
    /// Number of jobs.
    cancelled: usize,
}

/// `POST /api/conversations/{id}/cancel`: cancels all unfinished jobs, newest first, so that none starts
/// because another one ends.
pub(crate) async fn cancel(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (user, id) = (request.user, parse_id(request.segment("id"))?);
    find(context, user, id.as_str()).await?;
    let conversations = Arc::clone(&context.app.conversations);
    let jobs = context.read(user, move |_| conversations.unfinished(user, &id)).await?;
    for job in &jobs {
        context.app.store.cancel(user, *job).await?;
    }
    Ok(envelope::data(CancelledJobsResponse { cancelled: jobs.len() }))
}
