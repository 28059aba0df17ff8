//! What the routes of conversations and of their items share: body, conversation in the path, answer.

use crate::domain::conversation::Conversation;
use crate::domain::id::ConversationId;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::response::{self, HttpResponse};
use crate::http::v1::openai::failure;
use crate::ports::NewWork;
use hyper::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;

/// The body. Its bytes count for the quota of the user.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    body: RequestBody,
) -> Result<T, ApiError> {
    let body = body::read(context, &request.headers, body).await?;
    quota::check(context, request.user, None, NewWork::bytes(body.bytes.len())).await?;
    json::read_large(context, request.user, body, |asked: T, _| Ok(asked)).await.map_err(failure::of_request)
}

/// The id in the path. A malformed one is a 404.
pub(super) fn id_of(request: &RequestContext) -> Result<ConversationId, ApiError> {
    let text = request.segment("id").to_owned();
    ConversationId::try_from(text).map_err(|_| ApiError::NotFound("conversation"))
}

/// The conversation in the path, if it is this user's (P7).
pub(super) async fn found(
    context: &ServerContext,
    request: &RequestContext,
) -> Result<Conversation, ApiError> {
    let (user, id) = (request.user, id_of(request)?);
    let conversations = Arc::clone(&context.app.conversations);
    let found = context.read(user, move |_| conversations.conversation(user, &id)).await?;
    found.ok_or(ApiError::NotFound("conversation"))
}

pub(super) fn shown(conversation: &Conversation) -> HttpResponse {
    let Conversation { id, created_at_ms, metadata, .. } = conversation;
    let created_at = created_at_ms / 1_000;
    let object = json!({
        "id": id, "object": "conversation", "created_at": created_at, "metadata": metadata,
    });
    response::json(StatusCode::OK, &object)
}
