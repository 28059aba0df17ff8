//! `/v1/conversations` in the shape of `OpenAI`: the conversations of `/api`, with their items in place of
//! messages. A conversation of another user does not exist (P7).

mod entry;
pub(crate) mod items;
mod shared;

use crate::domain::conversation::{Conversation, ConversationChange, ConversationSettings};
use crate::domain::id::UserId;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::spec;
use crate::http::v1::openai::failure;
use crate::ports::{NewItems, PinnedContent};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{found, id_of, read, shown};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A new conversation.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversationRequest {
    items: Option<Vec<Value>>,
    metadata: Option<BTreeMap<String, String>>,
}

/// A change of a conversation.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationUpdateRequest {
    metadata: BTreeMap<String, String>,
}

/// `POST /v1/conversations`.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let user = request.user;
    let asked: NewConversationRequest = read(context, &request, body).await?;
    let app = Arc::clone(&context.app);
    let new = context.app.blocking(user, move || new_conversation(asked, &app, user)).await?;
    // The pins, until the row names the images.
    let (new, _pins) = new.map_err(failure::of_request)?;
    Ok(shown(&context.app.conversation_items.add_items(new).await?))
}

fn new_conversation(
    asked: NewConversationRequest,
    app: &AppDependencies,
    user: UserId,
) -> Result<(NewItems, Vec<PinnedContent>), ApiError> {
    let now_ms = app.clock.now_ms();
    let settings = ConversationSettings {
        model: app.default_model.clone(),
        system_prompt: String::new(),
        temperature: None,
        max_tokens: None,
        thinking_enabled: false,
        project_id: None,
    };
    let conversation = Conversation {
        id: app.conversation_id(now_ms),
        user,
        title: String::new(),
        settings,
        created_at_ms: now_ms,
        updated_at_ms: now_ms,
        message_count: 0,
        metadata: spec::metadata(asked.metadata.unwrap_or_default(), app)?,
    };
    let (items, pins) = items::new_items(app, (user, &conversation.id), asked.items.unwrap_or_default())?;
    Ok((NewItems { creates: Some((Box::new(conversation), app.limits.conversations)), ..items }, pins))
}

/// `GET /v1/conversations/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    Ok(shown(&found(context, request).await?))
}

/// `POST /v1/conversations/{id}`: the new metadata replaces the old.
pub(crate) async fn update(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let id = found(context, &request).await?.id;
    let asked: ConversationUpdateRequest = read(context, &request, body).await?;
    let metadata = Some(spec::metadata(asked.metadata, &context.app)?);
    let change = ConversationChange { metadata, ..ConversationChange::default() };
    let changed = context.app.conversations.update(request.user, id, change).await?;
    Ok(shown(&changed.ok_or(ApiError::NotFound("conversation"))?))
}

/// `DELETE /v1/conversations/{id}`, with everything in it. Unfinished responses are cancelled.
pub(crate) async fn remove(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id = id_of(request)?;
    if !context.app.conversations.remove_conversation(request.user, id.clone()).await? {
        return Err(ApiError::NotFound("conversation"));
    }
    let deleted = json!({"id": id, "object": "conversation.deleted", "deleted": true});
    Ok(response::json(StatusCode::OK, &deleted))
}
