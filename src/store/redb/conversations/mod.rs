//! The port [`Conversations`] on the store, and the writes that change a conversation's row only (P7).

use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::ports::{
    ConversationPage, ConversationQuery, Conversations, MessagePage, MessageRef, RegenerateRequest,
    StoreError, Ticket,
};
use crate::store::redb::codec::keys::conversations::conversation_key;
use crate::store::redb::codec::tables::CONVERSATION_QUEUE;
use crate::store::redb::conversations::delete_message::DeleteMessage;
use crate::store::redb::conversations::regenerate::RegenerateAnswer;
use crate::store::redb::conversations::removal::{RemoveConversation, RemoveConversationsOf};
use crate::store::redb::conversations::row::ConversationRow;
use crate::store::redb::jobs::background;
use crate::store::redb::queue::conversation_queue::unfinished;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{BASE_WEIGHT, StoreWrite};
use std::collections::BTreeMap;

pub(crate) mod delete_message;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod message_pair;
pub(crate) mod messages;
pub(crate) mod regenerate;
pub(crate) mod removal;
pub(crate) mod removed_jobs;
pub(crate) mod row;
pub(crate) mod summary;

/// A new conversation.
struct CreateConversation {
    conversation: Conversation,
    most: u64,
}

impl StoreWrite for CreateConversation {
    type Output = Conversation;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Conversation, StoreError> {
        transaction.refuse_low_disk()?;
        let Conversation { user, id, .. } = &self.conversation;
        if transaction.find_conversation(*user, id)?.is_some() {
            return Err(StoreError::NameTaken);
        }
        transaction.refuse_too_many_conversations(*user, 1, self.most)?;
        let floor = transaction.counters.accept.saturating_add(1);
        let row = ConversationRow { conversation: self.conversation.clone(), floor, edited_through: 0 };
        transaction.add_conversation(&row)?;
        Ok(row.conversation)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }

    fn weight(&self) -> usize {
        let Conversation { title, settings, .. } = &self.conversation;
        BASE_WEIGHT.saturating_add(title.len()).saturating_add(settings.system_prompt.len())
    }
}

/// This change of this conversation.
struct UpdateConversation {
    user: UserId,
    id: ConversationId,
    change: ConversationChange,
}

impl StoreWrite for UpdateConversation {
    type Output = Option<Conversation>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Conversation>, StoreError> {
        let Some(mut row) = transaction.find_conversation(self.user, &self.id)? else { return Ok(None) };
        row.conversation.update(self.change.clone());
        transaction.update_conversation(&mut row)?;
        Ok(Some(row.conversation))
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }

    fn weight(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let ConversationChange { title, system_prompt, .. } = &self.change;
        BASE_WEIGHT.saturating_add(length(title)).saturating_add(length(system_prompt))
    }
}

impl Conversations for RedbStore {
    fn found(&self, conversation: Conversation, most: u64) -> Ticket<Conversation> {
        self.offer(CreateConversation { conversation, most })
    }

    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>> {
        self.offer(UpdateConversation { user, id, change })
    }

    fn remove_conversation(&self, user: UserId, id: ConversationId) -> Ticket<bool> {
        self.offer(RemoveConversation { user, id })
    }

    fn remove_conversations_of(&self, user: UserId, project: ProjectId) -> Ticket<u64> {
        self.offer(RemoveConversationsOf { user, project })
    }

    fn delete_message(&self, user: UserId, id: ConversationId, message: MessageRef) -> Ticket<bool> {
        self.offer(DeleteMessage { user, id, message })
    }

    fn regenerate(&self, user: UserId, id: ConversationId, again: RegenerateRequest) -> Ticket<Option<Job>> {
        self.offer(RegenerateAnswer { user, id, again })
    }

    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row = self.shared.handle.read(|reading| row::read(reading, user, id))?;
        Ok(row.map(|row| row.conversation))
    }

    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError> {
        self.shared.handle.read(|reading| list::conversations(reading, query))
    }

    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
        self.shared.handle.read(|reading| list::counts_by_project(reading, user))
    }

    fn messages(
        &self,
        user: UserId,
        id: &ConversationId,
        after: Option<MessageRef>,
        limit: usize,
    ) -> Result<MessagePage, StoreError> {
        self.shared.handle.read(|reading| messages::messages(reading, (user, id), after, limit))
    }

    fn has_message(
        &self,
        user: UserId,
        id: &ConversationId,
        message: MessageRef,
    ) -> Result<bool, StoreError> {
        self.shared.handle.read(|reading| messages::has_message(reading, (user, id), message))
    }

    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError> {
        self.shared.handle.read(|reading| {
            let mut jobs = unfinished(&CONVERSATION_QUEUE.read(reading)?, &conversation_key(user, id))?;
            jobs.extend(background::jobs_of(reading, user, Some(id))?.into_iter().map(|job| job.id));
            // Ids rise with time.
            jobs.sort_unstable_by(|one, other| other.cmp(one));
            Ok(jobs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_a_write_weighs_the_text_that_it_brings() {
        let change = ConversationChange {
            title: Some("t".repeat(10)),
            system_prompt: Some("x".repeat(60_000)),
            ..ConversationChange::default()
        };
        let id = ConversationId::try_from("chat".to_owned()).unwrap();
        let amend = UpdateConversation { user: UserId::SINGLE, id, change };
        assert_eq!(amend.weight(), BASE_WEIGHT + 60_010);
    }
}
