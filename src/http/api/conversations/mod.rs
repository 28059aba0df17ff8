//! `/api/conversations` (DESIGN §5). Owns the acts on a conversation itself; one that is another user's does not exist (P7).

pub(crate) mod body;
pub(crate) mod cancel;
mod place;
mod project_names;
pub(crate) mod view;

use super::object::large_object;
use super::{envelope, page};
use crate::domain::conversation::{Conversation, ConversationChange, ConversationSettings};
use crate::domain::id::{ConversationId, UserId};
use crate::http::arriving::Arriving;
use crate::http::body as request_body;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::project;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::ports::ConversationQuery;
use place::Cursor;
use std::sync::Arc;
use view::View;

/// Conversations of a page when nobody asks for more.
const PAGE: usize = 20;

/// `GET /api/conversations`: the one that changed last first.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &["cursor", "limit", "project_id"])?;
    let limit = page::limit(&query, PAGE, &door.room.limits)?;
    let cursor = query.text("cursor").map(Cursor::parse).transpose()?;
    let project = query.text("project_id").map(project::parse_id).transpose()?;
    if let Some(id) = project {
        project::check(door, call.user, id).await?;
    }
    let before = match cursor {
        None => None,
        Some(Cursor::Place(place)) => Some(place),
        Some(Cursor::Behind(id)) => {
            let found = look(door, call.user, id).await?.ok_or_else(place::unknown)?;
            Some(place::of(&found))
        }
    };
    let wanted = ConversationQuery { user: call.user, project, before, limit };
    let (conversations, projects) = (Arc::clone(&door.room.conversations), Arc::clone(&door.room.projects));
    let (page, names) = door
        .read(move |_| {
            let page = conversations.conversations(&wanted)?;
            let names = project_names::names(&*projects, wanted.user, &page.conversations)?;
            Ok((page, names))
        })
        .await?;
    let next = page.conversations.last().filter(|_| page.has_more).map(place::write);
    let items = page.conversations.into_iter().map(|found| View::of(found, &names)).collect();
    Ok(envelope::data(page::Page::new(items, next)))
}

/// `POST /api/conversations`.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let (user, change) = (call.user, asked(door, call, body).await?);
    let now_ms = door.room.clock.now_ms();
    let settings = ConversationSettings {
        model: door.room.default_model.clone(),
        system_prompt: String::new(),
        temperature: None,
        max_tokens: None,
        thinking_enabled: false,
        project_id: None,
    };
    let mut conversation = Conversation {
        id: door.room.conversation_id(now_ms),
        user,
        title: String::new(),
        settings,
        created_at_ms: now_ms,
        updated_at_ms: now_ms,
        message_count: 0,
    };
    conversation.update(change);
    let stored = door.room.conversations.found(conversation, door.room.limits.conversations).await?;
    shown(door, stored).await
}

/// `GET /api/conversations/{id}`.
pub(crate) async fn show(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let conversation = find(door, call.user, call.segment("id")).await?;
    shown(door, conversation).await
}

/// `PATCH /api/conversations/{id}`: what is not named stays as it is.
pub(crate) async fn update(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let (user, id) = (call.user, parse_id(call.segment("id"))?);
    let change = asked(door, call, body).await?;
    let amended = door.room.conversations.update(user, id, change).await?;
    shown(door, amended.ok_or(Error::NotFound("conversation"))?).await
}

/// `DELETE /api/conversations/{id}`, with everything in it.
pub(crate) async fn remove(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let id = parse_id(call.segment("id"))?;
    if door.room.conversations.remove_conversation(call.user, id).await? {
        return Ok(envelope::done("deleted"));
    }
    Err(Error::NotFound("conversation"))
}

/// What a body wants changed; its project is the user's.
async fn asked(door: &Arc<Door>, call: Call, body: Arriving) -> Result<ConversationChange, Error> {
    let body = request_body::read(door, &call.headers, body).await?;
    let user = call.user;
    drop(call); // nothing of the request outlives its reading
    let change = large_object(door, body, body::change).await?;
    if let Some(Some(id)) = change.project_id {
        project::check(door, user, id).await?;
    }
    Ok(change)
}

async fn shown(door: &Arc<Door>, conversation: Conversation) -> Result<Reply, Error> {
    let projects = Arc::clone(&door.room.projects);
    let view = door.read(move |_| {
        let names = project_names::names(&*projects, conversation.user, std::slice::from_ref(&conversation))?;
        Ok(View::of(conversation, &names))
    });
    Ok(envelope::data(view.await?))
}

/// The conversation that a path names, if it is this user's.
pub(super) async fn find(door: &Arc<Door>, user: UserId, name: &str) -> Result<Conversation, Error> {
    look(door, user, parse_id(name)?).await?.ok_or(Error::NotFound("conversation"))
}

async fn look(door: &Arc<Door>, user: UserId, id: ConversationId) -> Result<Option<Conversation>, Error> {
    let conversations = Arc::clone(&door.room.conversations);
    door.read(move |_| conversations.conversation(user, &id)).await
}

/// What is no name names no conversation.
pub(super) fn parse_id(name: &str) -> Result<ConversationId, Error> {
    ConversationId::try_from(name.to_owned()).map_err(|_| Error::NotFound("conversation"))
}
