//! Items of conversations beside their jobs: those that a client added, and which items of jobs it deleted.

use super::conversations::ConversationError;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::conversation::{Conversation, StoredItems};
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::message::Message;
use serde_json::Value;

/// Items to add at the end of a conversation.
#[derive(Debug, Clone)]
pub struct NewItems {
    /// Owner.
    pub user: UserId,
    /// The conversation.
    pub conversation: ConversationId,
    /// Creates the conversation first, if the user has fewer than so many.
    pub creates: Option<(Box<Conversation>, u64)>,
    /// The items, each with its id.
    pub items: Vec<Value>,
    /// What models read of them.
    pub messages: Vec<Message>,
}

/// Another state of what a conversation has at one place.
#[derive(Debug, Clone)]
pub struct ItemsEdit {
    /// Owner.
    pub user: UserId,
    /// The conversation.
    pub conversation: ConversationId,
    /// [`ConversationEntry::number`].
    pub number: u64,
    /// The new items. `edits` is one more than before.
    pub items: StoredItems,
    /// All that models read at this place from now on.
    pub turn: Vec<Message>,
}

/// A job of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryJob {
    /// Its id.
    pub id: JobId,
    /// Whether its question is not deleted.
    pub shows_question: bool,
    /// Whether its answer is not deleted.
    pub shows_answer: bool,
}

/// What a conversation has at one place: a job that has run and ended, or added items.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationEntry {
    /// Position; rises within a conversation.
    pub number: u64,
    /// The job, if it is one.
    pub job: Option<EntryJob>,
    /// Added items, and deleted ones.
    pub items: StoredItems,
}

/// Position and order of a page of entries.
#[derive(Debug, Clone, Copy)]
pub struct EntryQuery {
    /// Only entries from this number on, in the order of the list.
    pub from: Option<u64>,
    /// Whether the newest one comes first.
    pub is_newest_first: bool,
    /// Page size.
    pub limit: usize,
}

/// A page of entries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntryPage {
    /// The entries.
    pub entries: Vec<ConversationEntry>,
    /// Where the next page begins.
    pub next: Option<u64>,
}

/// Names an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRef<'a> {
    /// That of a job.
    Job(JobId),
    /// That with an added item of this id.
    Added(&'a str),
}

/// Stores items of conversations. Every lookup uses conversation and user together (P7).
pub trait ConversationItems: Send + Sync {
    /// Adds items; returns the conversation. Fails with [`ConversationError::NoConversation`] when the user
    /// has no such conversation.
    fn add_items(&self, items: NewItems) -> Ticket<Conversation, ConversationError>;
    /// Writes the new state. `false`: somebody has changed the entry since it was read, or it is gone.
    fn edit_items(&self, edit: ItemsEdit) -> Ticket<bool>;

    /// A page of entries with about 1 MiB of added items; none when the user has no such conversation.
    fn entries(&self, user: UserId, id: &ConversationId, query: EntryQuery) -> Result<EntryPage, StoreError>;
    /// The entry, if the conversation has it.
    fn entry(
        &self,
        user: UserId,
        id: &ConversationId,
        entry: EntryRef<'_>,
    ) -> Result<Option<ConversationEntry>, StoreError>;
    /// What models read at this place.
    fn turn(&self, user: UserId, id: &ConversationId, number: u64) -> Result<Vec<Message>, StoreError>;
    /// The name of the tool that a call of the conversation names, by the newest call with this id.
    fn called_tool(
        &self,
        user: UserId,
        id: &ConversationId,
        call: &str,
    ) -> Result<Option<String>, StoreError>;
}
