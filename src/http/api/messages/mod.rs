//! `/api/conversations/{id}/messages` (DESIGN §5): list, delete and stream. A message is the question or
//! the answer of a job.

mod id;
pub(crate) mod job;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod view;

use crate::domain::id::{ConversationId, MessageId, UserId};
use crate::http::api::conversations::{find, parse_id};
use crate::http::api::envelope;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::HandlerResult;
use crate::http::response::held::AnswerMemory;
use crate::http::v1;
use crate::ports::{ConversationError, MessageQuery, MessageRef};
use std::sync::Arc;
use view::MessageResponse;

/// Messages of a page when nobody asks for more.
const PAGE: usize = 50;
/// Prefix of the front end's ids for unsent messages.
const UNSENT: &str = "temp_";

/// `GET …/messages`: oldest first.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let limit = envelope::limit(query, PAGE, &context.app.limits)?;
    let after = query.text("cursor").map(id::cursor).transpose()?;
    let (user, id) = (request.user, parse_id(request.segment("id"))?);
    let conversations = Arc::clone(&context.app.conversations);
    let mut memory = AnswerMemory::of(context, request);
    let made = context.app.blocking(user, move || {
        if conversations.conversation(user, &id)?.is_none() {
            return Err(ApiError::NotFound("conversation"));
        }
        let query = MessageQuery { user, conversation: &id, after, limit };
        let page = conversations.messages(&query, &mut |bytes| memory.take_read(bytes));
        let page = memory.of_read(page)?;
        let next = page.messages.last().filter(|_| page.has_more).map(id::write);
        let items = page.messages.into_iter().map(|message| MessageResponse::of(&id, message));
        memory.json(&envelope::DataResponse::of(envelope::PageResponse::new(items.collect(), next)))
    });
    Ok(made.await??.into_response())
}

/// `DELETE …/messages/{mid}`.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (id, message) = (parse_id(request.segment("id"))?, request.segment("mid"));
    find(context, request.user, id.as_str()).await?;
    if message.starts_with(UNSENT) {
        return Ok(envelope::done("deleted"));
    }
    let message = id::parse(message).ok_or(ApiError::NotFound("message"))?;
    check_shown(context, request.user, &id, message).await?;
    match context.app.conversations.delete_message(request.user, id, message).await {
        Ok(true) => Ok(envelope::done("deleted")),
        Ok(false) => Err(ApiError::NotFound("message")),
        Err(ConversationError::WrongState { status }) => Err(ApiError::Conflict(format!(
            "the message's job is {}; wait for its end or cancel it first",
            status.as_str()
        ))),
        Err(error) => Err(error.into()),
    }
}

/// `GET …/messages/{mid}/events`: the stream of an answer by the id of its message.
pub(crate) async fn events(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let conversation = find(context, request.user, request.segment("id")).await?;
    let answer: MessageId = request.segment("mid").parse().map_err(|_| ApiError::NotFound("message"))?;
    check_shown(context, request.user, &conversation.id, MessageRef::Answer(answer)).await?;
    v1::jobs::events::job_events(context, request, answer.job()).await
}

/// Fails if the conversation does not show the message. It reads committed state, so a missing message
/// costs the writer nothing.
async fn check_shown(
    context: &Arc<ServerContext>,
    user: UserId,
    id: &ConversationId,
    message: MessageRef,
) -> Result<(), ApiError> {
    let (conversations, id) = (Arc::clone(&context.app.conversations), id.clone());
    let is_shown = context.read(user, move |_| conversations.has_message(user, &id, message)).await?;
    if is_shown { Ok(()) } else { Err(ApiError::NotFound("message")) }
}

/// The answer that a path names.
fn answer_id(text: &str) -> Result<MessageId, ApiError> {
    match id::parse(text) {
        Some(MessageRef::Answer(id)) => Ok(id),
        Some(MessageRef::Ask(_)) => {
            Err(ApiError::value("message_id", "only an assistant message can be regenerated"))
        }
        None => Err(ApiError::NotFound("message")),
    }
}
