//! Conversations as the rest of the server sees them, and the writes that concern a row alone. Refuses other users' (P7).

use super::RedbStore;
use super::act::{Act, SMALL};
use super::beside;
use super::conversation_delete::{RemoveConversation, RemoveConversationsOf};
use super::conversation_keys::conversation_key;
use super::conversation_row::ConversationRow;
use super::delete_message::DeleteMessage;
use super::regenerate::Regenerate;
use super::schema::LINES;
use super::transaction::Transaction;
use super::unfinished::unfinished;
use super::{conversation_read, conversation_row, messages};
use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::ports::{
    ConversationPage, ConversationQuery, Conversations, MessagePage, MessageRef, RegenerateRequest,
    StoreError, Ticket,
};
use std::collections::BTreeMap;

/// A new conversation.
struct Found {
    conversation: Conversation,
    most: u64,
}

impl Act for Found {
    type Out = Conversation;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Conversation, StoreError> {
        transaction.refuse_low_disk()?;
        let Conversation { user, id, .. } = &self.conversation;
        if transaction.find_conversation(*user, id)?.is_some() {
            return Err(StoreError::NameTaken);
        }
        transaction.refuse_conversations(*user, 1, self.most)?;
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
        SMALL.saturating_add(title.len()).saturating_add(settings.system_prompt.len())
    }
}

/// This change of this conversation.
struct Amend {
    user: UserId,
    id: ConversationId,
    change: ConversationChange,
}

impl Act for Amend {
    type Out = Option<Conversation>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Conversation>, StoreError> {
        let Some(mut row) = transaction.find_conversation(self.user, &self.id)? else { return Ok(None) };
        row.conversation.update(self.change.clone());
        transaction.freshen_conversation(&mut row)?;
        Ok(Some(row.conversation))
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }

    fn weight(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let ConversationChange { title, system_prompt, .. } = &self.change;
        SMALL.saturating_add(length(title)).saturating_add(length(system_prompt))
    }
}

impl Conversations for RedbStore {
    fn found(&self, conversation: Conversation, most: u64) -> Ticket<Conversation> {
        self.offer(Found { conversation, most })
    }

    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>> {
        self.offer(Amend { user, id, change })
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
        self.offer(Regenerate { user, id, again })
    }

    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row = self.shared.handle.read(|reading| conversation_row::read(reading, user, id))?;
        Ok(row.map(|row| row.conversation))
    }

    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError> {
        self.shared.handle.read(|reading| conversation_read::conversations(reading, query))
    }

    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
        self.shared.handle.read(|reading| conversation_read::counts_by_project(reading, user))
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
            let mut jobs = unfinished(&LINES.read(reading)?, &conversation_key(user, id))?;
            jobs.extend(beside::jobs_of(reading, user, Some(id))?.into_iter().map(|job| job.id));
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
        let amend = Amend { user: UserId::SINGLE, id, change };
        assert_eq!(amend.weight(), SMALL + 60_010);
    }
}
