//! `/v1/conversations/{id}/items`.

use super::super::earlier_calls::EarlierCalls;
use super::super::input::MessageBuilder;
use super::super::{history, ids, images, input, item_page};
use super::entry::EntryItems;
use super::shared::{found, id_of, read, shown};
use crate::domain::conversation::StoredItems;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::message::Message;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::held::AnswerMemory;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::images::store_now;
use crate::http::v1::jobs::spec::input::check_image_count;
use crate::http::v1::openai::failure;
use crate::http::v1::page::is_newest_first;
use crate::ports::{
    ConversationEntry, EntryPage, EntryQuery, ItemsEdit, NewItems, PinnedContent, StoreError,
};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Entries that are read at once.
const ENTRIES: usize = 32;
/// A page of items ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// How often a deletion is tried when others change the same entry.
const TRIES: usize = 8;

/// Items for a conversation.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewItemsRequest {
    items: Vec<Value>,
}

/// `POST /v1/conversations/{id}/items`: adds items without asking a model.
pub(crate) async fn add(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (user, id) = (request.user, found(context, &request).await?.id);
    let asked: NewItemsRequest = read(context, &request, body).await?;
    if asked.items.is_empty() {
        return Err(ApiError::value("items", "'items' is an empty list"));
    }
    let app = Arc::clone(&context.app);
    let new = context.app.blocking(user, move || new_items(&app, (user, &id), asked.items)).await?;
    let (new, pins) = new.map_err(failure::of_request)?;
    let mut items = new.items.clone();
    context.app.conversation_items.add_items(new).await?;
    if images::have_images(&items) {
        let contents = Arc::clone(&context.app.contents);
        items = context
            .app
            .blocking(user, move || images::put_back(items.iter_mut(), &*contents).map(|()| items))
            .await??;
    }
    drop(pins); // the row names them
    Ok(response::json(StatusCode::OK, &item_page::page(items, usize::MAX)))
}

/// The items with ids, and the messages that models read of them. Their images are stored, and not removed
/// while the pins live. Blocks.
pub(super) fn new_items(
    app: &AppDependencies,
    (user, conversation): (UserId, &ConversationId),
    mut items: Vec<Value>,
) -> Result<(NewItems, Vec<PinnedContent>), ApiError> {
    let most = app.limits.input_messages;
    if items.len() > most {
        let text = format!("'items' has more than limits.input_messages = {most} items");
        return Err(ApiError::value("items", text));
    }
    // Before others are put in place of references: what a client writes must not name a stored image.
    let images = images::take("items", &mut items, app, user)?;
    let items = history::resolved(app, (user, None), "items", items)?;
    let calls = EarlierCalls::of(app, (user, conversation), &items)?;
    let builder = MessageBuilder::behind(calls).with_images(images);
    let mut messages = builder.extend("items", &items)?.finish();
    check_image_count("items", &messages, &app.limits)?;
    let pins = store_now(&*app.contents, &mut messages)?;
    let bits = app.mint.mint(app.clock.now_ms(), app.entropy.random());
    let items = items.into_iter().enumerate();
    let items = items
        .map(|(place, item)| input::with_id(item, |prefix| ids::added_id(prefix, bits, place)))
        .collect();
    Ok((NewItems { user, conversation: conversation.clone(), creates: None, items, messages }, pins))
}

/// `GET /v1/conversations/{id}/items`, newest first unless `order=asc`.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let (limit, is_newest_first) = (item_page::limit(query)?, is_newest_first(query)?);
    let after = query.text("after").map(str::to_owned);
    let (user, id) = (request.user, found(context, request).await?.id);
    let app = Arc::clone(&context.app);
    let (wanted, mut memory) =
        (ItemQuery { after, is_newest_first, limit }, AnswerMemory::of(context, request));
    let made = context.app.blocking(user, move || {
        let (mut items, shown) = ItemList::read(&app, (user, &id), &wanted, &mut memory)?;
        let shown = images::fitting(&items, shown, &app.limits);
        images::put_back(items.iter_mut().take(shown), &*app.contents)?;
        memory.json(&item_page::page(items, shown))
    });
    Ok(made.await??.into_response())
}

/// A page of items.
#[derive(Debug)]
struct ItemQuery {
    after: Option<String>,
    is_newest_first: bool,
    limit: usize,
}

/// The items of a page so far.
#[derive(Default)]
struct ItemList {
    items: Vec<Value>,
    bytes: usize,
}

impl ItemList {
    /// The items of a page and, if there is one, the item behind them; and how many are of the page.
    fn read(
        app: &AppDependencies,
        (user, conversation): (UserId, &ConversationId),
        query: &ItemQuery,
        memory: &mut AnswerMemory,
    ) -> Result<(Vec<Value>, usize), ApiError> {
        let mut from = match &query.after {
            Some(after) => Some(
                number_of(app, (user, conversation), after)?
                    .ok_or_else(|| ApiError::value("after", "'after' is not an item of this conversation"))?,
            ),
            None => None,
        };
        let (mut after, mut list) = (query.after.as_deref(), Self::default());
        loop {
            let wanted = EntryQuery { from, is_newest_first: query.is_newest_first, limit: ENTRIES };
            let EntryPage { entries, next } = app.conversation_items.entries(user, conversation, wanted)?;
            for entry in entries {
                let items = EntryItems::read(&*app.store, user, &entry, &mut |bytes| memory.take_read(bytes));
                let items = memory.of_read(items)?;
                if let Some(shown) = list.add(&items, after.take(), query, memory)? {
                    return Ok((list.items, shown));
                }
            }
            if next.is_none() {
                let shown = list.items.len();
                return Ok((list.items, shown));
            }
            from = next;
        }
    }

    /// Adds the items of an entry, from behind the item `after`. Returns how many items the page has, if
    /// another one follows.
    fn add(
        &mut self,
        items: &EntryItems,
        after: Option<&str>,
        query: &ItemQuery,
        memory: &mut AnswerMemory,
    ) -> Result<Option<usize>, ApiError> {
        let count = items.len();
        let at = |index: usize| {
            if query.is_newest_first { count.saturating_sub(1).saturating_sub(index) } else { index }
        };
        let first = after.and_then(|id| items.place_of(id)).map_or(0, |place| at(place).saturating_add(1));
        for place in (first..count).map(at).filter(|place| items.is_shown(*place)) {
            let shown = self.items.len();
            let is_full = shown >= query.limit || self.bytes >= PAGE_BYTES;
            let Some((item, bytes)) = items.get(place) else { continue };
            memory.take(bytes)?;
            self.bytes = self.bytes.saturating_add(bytes);
            self.items.push(item);
            if is_full {
                return Ok(Some(shown));
            }
        }
        Ok(None)
    }
}

/// The number of the entry that has this item.
fn number_of(
    app: &AppDependencies,
    (user, conversation): (UserId, &ConversationId),
    item: &str,
) -> Result<Option<u64>, StoreError> {
    let Some(wanted) = ids::entry_of(item) else { return Ok(None) };
    Ok(app.conversation_items.entry(user, conversation, wanted)?.map(|entry| entry.number))
}

/// `GET /v1/conversations/{id}/items/{item}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (user, id, item) = (request.user, id_of(request)?, request.segment("item").to_owned());
    let (app, mut memory) = (Arc::clone(&context.app), AnswerMemory::of(context, request));
    let made = context.app.blocking(user, move || {
        let found = FoundItem::find(&app, (user, &id), &item, &mut memory)?;
        let found = found.ok_or(ApiError::NotFound("item"))?;
        let mut item: Vec<Value> = found.items.get(found.place).map(|(item, _)| item).into_iter().collect();
        images::put_back(item.iter_mut(), &*app.contents)?;
        memory.json(&item.pop())
    });
    Ok(made.await??.into_response())
}

/// `DELETE /v1/conversations/{id}/items/{item}`: no later response reads the item. The response that it came
/// from stays as it is.
pub(crate) async fn remove(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (user, id) = (request.user, found(context, request).await?.id);
    for _ in 0..TRIES {
        let (app, id, item) = (Arc::clone(&context.app), id.clone(), request.segment("item").to_owned());
        let mut memory = AnswerMemory::of(context, request);
        let edit = context.app.blocking(user, move || {
            let found = FoundItem::find(&app, (user, &id), &item, &mut memory)?;
            found.map(|found| found.without(&app, (user, &id))).transpose()
        });
        let edit = edit.await??.ok_or(ApiError::NotFound("item"))?;
        if context.app.conversation_items.edit_items(edit).await? {
            return Ok(shown(&found(context, request).await?));
        }
    }
    Err(ApiError::Conflict("others change this item at the same time; try again".to_owned()))
}

/// An item that is not deleted.
struct FoundItem {
    entry: ConversationEntry,
    items: EntryItems,
    place: usize,
}

impl FoundItem {
    fn find(
        app: &AppDependencies,
        (user, conversation): (UserId, &ConversationId),
        id: &str,
        memory: &mut AnswerMemory,
    ) -> Result<Option<Self>, ApiError> {
        let Some(wanted) = ids::entry_of(id) else { return Ok(None) };
        let Some(entry) = app.conversation_items.entry(user, conversation, wanted)? else { return Ok(None) };
        let items = EntryItems::read(&*app.store, user, &entry, &mut |bytes| memory.take_read(bytes));
        let items = memory.of_read(items)?;
        let place = items.place_of(id).filter(|place| items.is_shown(*place));
        Ok(place.map(|place| Self { entry, items, place }))
    }

    /// The entry without the item.
    fn without(
        self,
        app: &AppDependencies,
        (user, conversation): (UserId, &ConversationId),
    ) -> Result<ItemsEdit, ApiError> {
        let Self { entry, items: all, place: removed } = self;
        let is_input = all.is_input(removed);
        let is_left =
            |place: &usize| *place != removed && all.is_input(*place) == is_input && all.is_shown(*place);
        let left = (0..all.len()).filter(is_left).filter_map(|place| all.get(place));
        let left: Vec<Value> = left.map(|(item, _)| item).collect();
        let calls = EarlierCalls::of(app, (user, conversation), &left)?.with_missing(&left);
        let messages = MessageBuilder::behind(calls).extend("items", &left)?.finish();
        let ConversationEntry { number, job, items } = entry;
        let edits = items.edits.saturating_add(1);
        let (items, turn) = match job {
            None => (StoredItems { added: left, edits, ..items }, messages),
            Some(job) => {
                let turn = app.conversation_items.turn(user, conversation, number)?;
                let input = || Ok(app.store.request(user, job.id)?.map_or(0, |spec| spec.input.len()));
                let question = match items.question {
                    _ if !job.shows_question => 0,
                    Some(question) => question,
                    None => input().map_err(|error: StoreError| ApiError::from(error))?,
                };
                let (question, turn) = replaced(&turn, question, (messages, is_input));
                let mut hidden = items.hidden;
                hidden.push(all.id(removed));
                (StoredItems { hidden, question: Some(question), edits, ..items }, turn)
            }
        };
        Ok(ItemsEdit { user, conversation: conversation.clone(), number, items, turn })
    }
}

/// The turn with another question or another answer, and how many messages of it are the question.
fn replaced(
    turn: &[Message],
    question: usize,
    (messages, is_question): (Vec<Message>, bool),
) -> (usize, Vec<Message>) {
    let (asked, answered) = turn.split_at(question.min(turn.len()));
    let (asked, answered) =
        if is_question { (messages.as_slice(), answered) } else { (asked, messages.as_slice()) };
    (asked.len(), asked.iter().chain(answered).cloned().collect())
}
