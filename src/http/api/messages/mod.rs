//! `/api/conversations/{id}/messages` (DESIGN §5). Owns the acts on what stands in a conversation: a question, or the answer
//! of a job to it.

pub(crate) mod body;
pub(super) mod order;
mod reference;
pub(crate) mod regenerate;
pub(crate) mod send;
pub(crate) mod view;

use super::conversations::{find, parse_id};
use super::{envelope, page};
use crate::domain::id::{ConversationId, MessageId, UserId};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1;
use crate::ports::{MessageRef, StoreError};
use std::sync::Arc;
use view::View;

/// Messages of a page when nobody asks for more.
const PAGE: usize = 50;
/// What the front end calls messages that it has not sent yet.
const UNSENT: &str = "temp_";

/// `GET …/messages`: oldest first.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &["cursor", "limit"])?;
    let limit = page::limit(&query, PAGE, &door.room.limits)?;
    let after = query.text("cursor").map(reference::cursor).transpose()?;
    let (user, id) = (call.user, parse_id(call.segment("id"))?);
    let conversations = Arc::clone(&door.room.conversations);
    let found = door.read(move |_| {
        if conversations.conversation(user, &id)?.is_none() {
            return Ok(None);
        }
        let page = conversations.messages(user, &id, after, limit)?;
        let next = page.messages.last().filter(|_| page.has_more).map(reference::write);
        let items = page.messages.into_iter().map(|message| View::of(&id, message));
        Ok(Some(page::Page::new(items.collect(), next)))
    });
    Ok(envelope::data(found.await?.ok_or(Error::NotFound("conversation"))?))
}

/// `DELETE …/messages/{mid}`.
pub(crate) async fn delete(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let (id, message) = (parse_id(call.segment("id"))?, call.segment("mid"));
    find(door, call.user, id.as_str()).await?;
    if message.starts_with(UNSENT) {
        return Ok(envelope::done("deleted"));
    }
    let message = reference::parse(message).ok_or(Error::NotFound("message"))?;
    must_show(door, call.user, &id, message).await?;
    match door.room.conversations.delete_message(call.user, id, message).await {
        Ok(true) => Ok(envelope::done("deleted")),
        Ok(false) => Err(Error::NotFound("message")),
        Err(StoreError::WrongState { status }) => Err(Error::Conflict(format!(
            "the message's job is {}; wait for its end or cancel it first",
            status.as_str()
        ))),
        Err(error) => Err(error.into()),
    }
}

/// `GET …/messages/{mid}/events`: the answer's stream once more, for whoever knows the message and not its job.
pub(crate) async fn events(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let conversation = find(door, call.user, call.segment("id")).await?;
    let answer: MessageId = call.segment("mid").parse().map_err(|_| Error::NotFound("message"))?;
    must_show(door, call.user, &conversation.id, MessageRef::Answer(answer)).await?;
    v1::events::events(door, call, &answer.job().to_string()).await
}

/// Refuses a message that the conversation does not show. A look at committed state: what is not there, and has to be looked
/// for everywhere, costs the writer nothing.
async fn must_show(
    door: &Arc<Door>,
    user: UserId,
    id: &ConversationId,
    message: MessageRef,
) -> Result<(), Error> {
    let (conversations, id) = (Arc::clone(&door.room.conversations), id.clone());
    let is_shown = door.read(move |_| conversations.has_message(user, &id, message)).await?;
    if is_shown { Ok(()) } else { Err(Error::NotFound("message")) }
}

/// The message that a path names, if it can be one of an answer.
fn answer_of(text: &str) -> Result<MessageId, Error> {
    match reference::parse(text) {
        Some(MessageRef::Answer(id)) => Ok(id),
        Some(MessageRef::Ask(_)) => {
            Err(Error::value("message_id", "only an assistant message can be regenerated"))
        }
        None => Err(Error::NotFound("message")),
    }
}
