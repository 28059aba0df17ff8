//! Items that clients add to conversations without a job, and items of jobs that they delete. Added items
//! take an acceptance number, so they stand between the jobs; models read them in `turns`, as they read jobs.

use crate::domain::conversation::{Conversation, StoredItems};
use crate::domain::id::{ConversationId, UserId};
use crate::domain::message::Message;
use crate::ports::{
    ConversationEntry, ConversationError, EntryJob, EntryPage, EntryQuery, EntryRef, ItemsEdit, NewItems,
    NewWork, StoreError,
};
use crate::store::redb::codec::keys::conversations::{
    AddedBytes, TurnBytes, TurnKey, added_key, added_turn, key_parts,
};
use crate::store::redb::codec::keys::stored_files::ImageHolder;
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{CONVERSATION_ITEMS, JOBS, MESSAGE_PAIRS, TURNS};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::message_pair::{ConversationRange, decode_pair};
use crate::store::redb::conversations::row;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::JobRow;
use crate::store::rows::weight::items_bytes;
use serde_json::Value;
use std::collections::BTreeMap;

/// Rows of added items that one transaction of retention removes.
const SWEEP_ROWS: usize = 200;
/// A page of entries ends after so many bytes of items; the last ones may exceed it.
const PAGE_BYTES: usize = 1024 * 1024;

impl Transaction<'_> {
    /// Adds items at the end of a conversation.
    pub(crate) fn add_items(&mut self, new: &NewItems) -> Result<Conversation, ConversationError> {
        self.refuse_low_disk()?;
        let work = NewWork::bytes(items_bytes(new));
        self.admit_work::<ConversationError>(new.user, work)?;
        if let Some((conversation, limit)) = &new.creates {
            self.create_conversation(conversation, *limit)?;
        }
        let found = self.find_conversation(new.user, &new.conversation)?;
        let Some(mut found) = found else { return Err(ConversationError::NoConversation) };
        if new.items.is_empty() {
            return Ok(found.conversation);
        }
        self.add_pending_bytes(new.user, work.bytes);
        self.counters.accept = self.counters.accept.saturating_add(1);
        let key = ConversationRange::of(&found).key(self.counters.accept);
        let added = StoredItems {
            added: new.items.clone(),
            added_at_ms: Some(self.now_ms),
            ..StoredItems::default()
        };
        self.tables.conversation_items.put_row(&key, &added)?;
        self.tables.added_items.insert(&added_key(self.now_ms, &key), ())?;
        self.tables.turns.put_row(&key, &new.messages)?;
        self.keep_images(new.user, ImageHolder::of_items(self.counters.accept), &new.messages)?;
        self.update_conversation(&mut found)?;
        Ok(found.conversation)
    }

    /// Writes another state of an entry; `false`: it is not as it was read.
    pub(crate) fn edit_items(&mut self, edit: &ItemsEdit) -> Result<bool, StoreError> {
        let Some(mut found) = self.find_conversation(edit.user, &edit.conversation)? else {
            return Ok(false);
        };
        let range = ConversationRange::of(&found);
        let key = range.key(edit.number);
        let stored: Option<StoredItems> = self.tables.conversation_items.row(&key)?;
        let pair = self.message_pair(&key)?;
        let edits = stored.as_ref().map_or(0, |stored| stored.edits);
        let is_there = edit.number >= range.floor && (stored.is_some() || pair.is_some());
        // A job that runs again has no turn.
        if !is_there
            || edits.checked_add(1) != Some(edit.items.edits)
            || self.tables.turns.get(&key)?.is_none()
        {
            return Ok(false);
        }
        self.drop_summary(range, edit.number)?;
        if pair.is_none() && edit.items.added.is_empty() {
            self.forget_added(&key)?;
        } else {
            self.tables.conversation_items.put_row(&key, &edit.items)?;
            self.tables.turns.put_row(&key, &edit.turn)?;
            if pair.is_none() {
                // In one transaction, so those that stay are never free.
                let holder = ImageHolder::of_items(edit.number);
                self.release_images(edit.user, holder)?;
                self.keep_images(edit.user, holder, &edit.turn)?;
            }
        }
        found.edited_through = self.counters.accept;
        self.update_conversation(&mut found)?;
        Ok(true)
    }

    /// Removes the row of items at this place, if there is one. Returns the freed bytes.
    pub(crate) fn forget_items(&mut self, key: &TurnBytes) -> Result<usize, StoreError> {
        let Some(bytes) = self.tables.conversation_items.remove(key)?.map(|bytes| bytes.value().to_vec())
        else {
            return Ok(0);
        };
        if let Ok(StoredItems { added_at_ms: Some(at_ms), .. }) = values::decode(&bytes) {
            self.tables.added_items.remove(&added_key(at_ms, key))?;
        }
        self.mark_dirty();
        Ok(bytes.len())
    }

    /// Removes added items and what models read of them.
    fn forget_added(&mut self, key: &TurnBytes) -> Result<(), StoreError> {
        let turn = self.tables.turns.remove(key)?.map_or(0, |bytes| bytes.value().len());
        let freed = turn.saturating_add(self.forget_items(key)?);
        self.count_freed(freed);
        if let Some((user, conversation, accept)) = key_parts(key) {
            self.release_images(user, ImageHolder::of_items(accept))?;
            self.forget_summary(TurnKey { user, conversation: &conversation, accept })?;
        }
        Ok(())
    }

    /// The numbers of added items in a range of a conversation, at most `limit`.
    pub(crate) fn added_from(
        &self,
        range: ConversationRange<'_>,
        (from, last): (u64, u64),
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let (first, last) = (range.key(from.max(range.floor)), range.key(last));
        let mut numbers = Vec::new();
        for entry in self.tables.conversation_items.range::<&TurnBytes>(&first..=&last)? {
            let (key, _) = entry?;
            // A job's own row goes with the job.
            if self.tables.message_pairs.get(key.value())?.is_none() {
                numbers.push(TurnKey::accept(key.value()));
            }
            if numbers.len() >= limit {
                break;
            }
        }
        Ok(numbers)
    }

    /// Removes added items in a range of a conversation, at most `limit` rows. Returns whether all are gone.
    pub(crate) fn clear_added(
        &mut self,
        range: ConversationRange<'_>,
        numbers: (u64, u64),
        limit: usize,
    ) -> Result<bool, StoreError> {
        let added = self.added_from(range, numbers, limit.saturating_add(1))?;
        for number in added.iter().take(limit) {
            self.forget_added(&range.key(*number))?;
        }
        Ok(added.len() <= limit)
    }

    /// Removes some items that were added before this time. Returns whether there may be more.
    pub(crate) fn forget_old_items(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let before = added_key(before_ms, &[0; size_of::<TurnBytes>()]);
        let mut due = Vec::new();
        for entry in self.tables.added_items.range::<&AddedBytes>(..&before)?.take(SWEEP_ROWS) {
            due.push(*entry?.0.value());
        }
        for key in &due {
            self.tables.added_items.remove(key)?;
            self.forget_added(&added_turn(key))?;
        }
        Ok(due.len() >= SWEEP_ROWS)
    }
}

/// A page of a conversation's entries.
pub(crate) fn entries(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    query: EntryQuery,
) -> Result<EntryPage, StoreError> {
    let Some(row) = row::read(reading, user, id)? else { return Ok(EntryPage::default()) };
    let range = ConversationRange { user, id, floor: row.floor };
    let (first, last) = match query.from {
        Some(from) if query.is_newest_first => (range.key(range.floor), range.key(from)),
        Some(from) => range.from(from),
        None => range.from(0),
    };
    let wanted = query.limit.saturating_add(1);
    let mut found: BTreeMap<u64, (Option<MessagePair>, Option<StoredItems>)> = BTreeMap::new();
    let (pairs, items) = (MESSAGE_PAIRS.read(reading)?, CONVERSATION_ITEMS.read(reading)?);
    for entry in ordered(pairs.range::<&TurnBytes>(&first..=&last)?, query.is_newest_first).take(wanted) {
        let (key, bytes) = entry?;
        found.entry(TurnKey::accept(key.value())).or_default().0 = decode_pair(bytes.value());
    }
    let (mut items_bytes, mut full_at) = (0_usize, None);
    for entry in ordered(items.range::<&TurnBytes>(&first..=&last)?, query.is_newest_first).take(wanted) {
        let (key, bytes) = entry?;
        let number = TurnKey::accept(key.value());
        if items_bytes >= PAGE_BYTES {
            found.entry(number).or_default();
            full_at = Some(number);
            break;
        }
        items_bytes = items_bytes.saturating_add(bytes.value().len());
        found.entry(number).or_default().1 = Some(values::decode(bytes.value())?);
    }
    let turns = TURNS.read(reading)?;
    let mut page = EntryPage::default();
    for (at, (number, (pair, items))) in ordered(found.into_iter(), query.is_newest_first).enumerate() {
        if at >= query.limit || full_at == Some(number) {
            page.next = Some(number);
            break;
        }
        // A job without a turn has not ended, or never ran.
        if turns.get(&range.key(number))?.is_some() {
            page.entries.push(entry_of(number, pair, items));
        }
    }
    Ok(page)
}

fn ordered<'i, T>(
    entries: impl DoubleEndedIterator<Item = T> + 'i,
    is_newest_first: bool,
) -> Box<dyn Iterator<Item = T> + 'i> {
    if is_newest_first { Box::new(entries.rev()) } else { Box::new(entries) }
}

fn entry_of(number: u64, pair: Option<MessagePair>, items: Option<StoredItems>) -> ConversationEntry {
    let job = pair.map(|pair| EntryJob {
        id: pair.job,
        shows_question: pair.shows_question,
        shows_answer: pair.shows_answer,
    });
    ConversationEntry { number, job, items: items.unwrap_or_default() }
}

/// One entry of a conversation.
pub(crate) fn entry(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    wanted: EntryRef<'_>,
) -> Result<Option<ConversationEntry>, StoreError> {
    let Some(row) = row::read(reading, user, id)? else { return Ok(None) };
    let range = ConversationRange { user, id, floor: row.floor };
    let number = match wanted {
        EntryRef::Job(job) => {
            let row: Option<JobRow> = JOBS.read(reading)?.row(&job.to_bytes())?;
            let own = row.filter(|row| row.job.user == user && row.job.conversation_id.as_ref() == Some(id));
            own.map(|row| row.accept).filter(|accept| *accept >= range.floor)
        }
        EntryRef::Added(item) => added_number(reading, range, item)?,
    };
    let Some(number) = number else { return Ok(None) };
    let key = range.key(number);
    if TURNS.read(reading)?.get(&key)?.is_none() {
        return Ok(None);
    }
    let pair = MESSAGE_PAIRS.read(reading)?.get(&key)?.and_then(|bytes| decode_pair(bytes.value()));
    Ok(Some(entry_of(number, pair, CONVERSATION_ITEMS.read(reading)?.row(&key)?)))
}

/// Where an added item is: the newest ones are looked at first.
fn added_number(
    reading: &ReadTransaction,
    range: ConversationRange<'_>,
    item: &str,
) -> Result<Option<u64>, StoreError> {
    let (first, last) = range.from(0);
    for entry in CONVERSATION_ITEMS.read(reading)?.range::<&TurnBytes>(&first..=&last)?.rev() {
        let (key, bytes) = entry?;
        let stored: StoredItems = values::decode(bytes.value())?;
        if stored.added.iter().any(|added| added.get("id").and_then(Value::as_str) == Some(item)) {
            return Ok(Some(TurnKey::accept(key.value())));
        }
    }
    Ok(None)
}

/// What models read at a place of a conversation.
pub(crate) fn turn(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    number: u64,
) -> Result<Vec<Message>, StoreError> {
    let key = TurnKey { user, conversation: id, accept: number }.encode();
    Ok(TURNS.read(reading)?.row(&key)?.unwrap_or_default())
}

/// The name of the tool that the newest call of this id named.
pub(crate) fn called_tool(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    call: &str,
) -> Result<Option<String>, StoreError> {
    let Some(row) = row::read(reading, user, id)? else { return Ok(None) };
    let (first, last) = ConversationRange { user, id, floor: row.floor }.from(0);
    for entry in TURNS.read(reading)?.range::<&TurnBytes>(&first..=&last)?.rev() {
        let messages: Vec<Message> = values::decode(entry?.1.value())?;
        let calls = messages.iter().rev().filter_map(|message| match message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls),
            _ => None,
        });
        if let Some(found) = calls.flatten().find(|found| found.id_ref == call) {
            return Ok(Some(found.name.clone()));
        }
    }
    Ok(None)
}

/// How many messages of a job's turn are its question: fewer than its input has once items were deleted.
pub(crate) fn question_length(
    items: &impl ReadableTable<&'static TurnBytes, RawBytes>,
    key: &TurnBytes,
    input: usize,
) -> Result<usize, StoreError> {
    let stored = items.get(key)?.map(|bytes| values::decode::<StoredItems>(bytes.value())).transpose()?;
    Ok(stored.and_then(|stored| stored.question).unwrap_or(input))
}
