//! The port [`Conversations`] on the store, and the writes that change a conversation's row only (P7).

use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::ports::{
    ConversationEntry, ConversationError, ConversationItems, ConversationPage, ConversationQuery,
    Conversations, EntryPage, EntryQuery, EntryRef, Idempotent, ItemsEdit, MessagePage, MessageQuery,
    MessageRef, NewItems, ReadMemory, RegenerateRequest, StoreError, Ticket,
};
use crate::store::redb::codec::keys::conversations::conversation_key;
use crate::store::redb::codec::tables::CONVERSATION_QUEUE;
use crate::store::redb::jobs::background;
use crate::store::redb::queue::conversation_queue::unfinished;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::weight::spec_bytes;
use std::collections::BTreeMap;

pub(crate) mod delete_message;
pub(crate) mod history;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod message_pair;
pub(crate) mod messages;
pub(crate) mod regenerate;
pub(crate) mod removal;
pub(crate) mod removed_jobs;
pub(crate) mod row;
pub(crate) mod search;
pub(crate) mod summary;

impl Transaction<'_> {
    /// Stores a new conversation.
    pub(crate) fn create_conversation(
        &mut self,
        conversation: &Conversation,
        limit: u64,
    ) -> Result<Conversation, ConversationError> {
        self.refuse_low_disk()?;
        let Conversation { user, id, .. } = conversation;
        if self.find_conversation(*user, id)?.is_some() {
            return Err(ConversationError::NameTaken);
        }
        if self.exceeds_conversations(*user, 1, limit)? {
            return Err(ConversationError::ConversationsFull { limit });
        }
        let floor = self.counters.accept.saturating_add(1);
        let row = ConversationRow { conversation: conversation.clone(), floor, edited_through: 0 };
        self.add_conversation(&row)?;
        Ok(row.conversation)
    }
}

impl Transaction<'_> {
    /// Changes a conversation of a user.
    pub(crate) fn change_conversation(
        &mut self,
        user: UserId,
        id: &ConversationId,
        change: &ConversationChange,
    ) -> Result<Option<Conversation>, StoreError> {
        let Some(mut row) = self.find_conversation(user, id)? else { return Ok(None) };
        row.conversation.update(change.clone());
        self.update_conversation(&mut row)?;
        Ok(Some(row.conversation))
    }
}

impl Conversations for RedbStore {
    fn create_conversation(
        &self,
        conversation: Conversation,
        limit: u64,
    ) -> Ticket<Conversation, ConversationError> {
        let bytes = conversation.title.len().saturating_add(conversation.settings.system_prompt.len());
        let options = WriteOptions::default().weighing(bytes);
        self.offer(options, move |transaction| transaction.create_conversation(&conversation, limit))
    }

    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>> {
        let options = WriteOptions::default().weighing(change_bytes(&change));
        self.offer(options, move |transaction| transaction.change_conversation(user, &id, &change))
    }

    fn remove_conversation(&self, user: UserId, id: ConversationId) -> Ticket<bool> {
        self.offer(WriteOptions::default(), move |transaction| transaction.remove_conversation(user, &id))
    }

    fn remove_conversations_of(&self, user: UserId, project: ProjectId) -> Ticket<u64> {
        self.offer(WriteOptions::default(), move |transaction| {
            transaction.remove_conversations_of(user, project)
        })
    }

    fn delete_message(
        &self,
        user: UserId,
        id: ConversationId,
        message: MessageRef,
    ) -> Ticket<bool, ConversationError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.delete_message(user, &id, message))
    }

    fn regenerate(
        &self,
        user: UserId,
        id: ConversationId,
        request: RegenerateRequest,
    ) -> Ticket<Option<Idempotent<Job>>, ConversationError> {
        let options = WriteOptions::of(request.job.id).weighing(spec_bytes(&request.job.spec));
        self.offer(options, move |transaction| transaction.regenerate_answer(user, &id, &request))
    }

    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row = self.read(|reading| row::read(reading, user, id))?;
        Ok(row.map(|row| row.conversation))
    }

    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError> {
        self.read(|reading| list::conversations(reading, query))
    }

    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
        self.read(|reading| list::counts_by_project(reading, user))
    }

    fn messages(
        &self,
        query: &MessageQuery<'_>,
        memory: &mut ReadMemory<'_>,
    ) -> Result<MessagePage, StoreError> {
        self.read(|reading| messages::messages(reading, query, memory))
    }

    fn has_message(
        &self,
        user: UserId,
        id: &ConversationId,
        message: MessageRef,
    ) -> Result<bool, StoreError> {
        self.read(|reading| messages::has_message(reading, (user, id), message))
    }

    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError> {
        self.read(|reading| {
            let mut jobs = unfinished(&CONVERSATION_QUEUE.read(reading)?, &conversation_key(user, id))?;
            jobs.extend(background::jobs_of(reading, user, Some(id))?.into_iter().map(|job| job.id));
            // Ids rise with time.
            jobs.sort_unstable_by(|one, other| other.cmp(one));
            Ok(jobs)
        })
    }
}

impl ConversationItems for RedbStore {
    fn add_items(&self, items: NewItems) -> Ticket<Conversation, ConversationError> {
        let options = WriteOptions::default().weighing(bytes_of(&items.messages).saturating_mul(2));
        self.offer(options, move |transaction| transaction.add_items(&items))
    }

    fn edit_items(&self, edit: ItemsEdit) -> Ticket<bool> {
        let options = WriteOptions::default().weighing(bytes_of(&edit.turn).saturating_mul(2));
        self.offer(options, move |transaction| transaction.edit_items(&edit))
    }

    fn entries(&self, user: UserId, id: &ConversationId, query: EntryQuery) -> Result<EntryPage, StoreError> {
        self.read(|reading| items::entries(reading, (user, id), query))
    }

    fn entry(
        &self,
        user: UserId,
        id: &ConversationId,
        entry: EntryRef<'_>,
    ) -> Result<Option<ConversationEntry>, StoreError> {
        self.read(|reading| items::entry(reading, (user, id), entry))
    }

    fn turn(&self, user: UserId, id: &ConversationId, number: u64) -> Result<Vec<Message>, StoreError> {
        self.read(|reading| items::turn(reading, (user, id), number))
    }

    fn called_tool(
        &self,
        user: UserId,
        id: &ConversationId,
        call: &str,
    ) -> Result<Option<String>, StoreError> {
        self.read(|reading| items::called_tool(reading, (user, id), call))
    }
}

fn bytes_of(messages: &[Message]) -> usize {
    messages.iter().map(Message::bytes).fold(0, usize::saturating_add)
}

fn change_bytes(change: &ConversationChange) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    length(&change.title).saturating_add(length(&change.system_prompt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_the_weight_of_a_conversation_update_includes_its_text() {
        let change = ConversationChange {
            title: Some("t".repeat(10)),
            system_prompt: Some("x".repeat(60_000)),
            ..ConversationChange::default()
        };
        assert_eq!(change_bytes(&change), 60_010);
    }
}
