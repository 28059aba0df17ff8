//! Conversations and their messages.

use super::RedbStore;
use super::unfinished::unfinished;
use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::ports::{
    Again, ConversationPage, ConversationQuery, Conversations, MessagePage, MessageRef, StoreError, Ticket,
};

impl Conversations for RedbStore {
    fn found(&self, _conversation: Conversation, _most: u64) -> Ticket<Conversation> {
        Ticket::refused(StoreError::Closed)
    }
    fn amend(
        &self,
        _user: UserId,
        _id: ConversationId,
        _change: ConversationChange,
    ) -> Ticket<Option<Conversation>> {
        Ticket::refused(StoreError::Closed)
    }
    fn remove_conversation(&self, _user: UserId, _id: ConversationId) -> Ticket<bool> {
        Ticket::refused(StoreError::Closed)
    }
    fn remove_conversations_of(&self, _user: UserId, _project: ProjectId) -> Ticket<u64> {
        Ticket::refused(StoreError::Closed)
    }
    fn delete_message(&self, _user: UserId, _id: ConversationId, _message: MessageRef) -> Ticket<bool> {
        Ticket::refused(StoreError::Closed)
    }
    fn regenerate(&self, _user: UserId, _id: ConversationId, _again: Again) -> Ticket<Option<Job>> {
        Ticket::refused(StoreError::Closed)
    }
    fn conversation(&self, _user: UserId, _id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        Err(StoreError::Closed)
    }
    fn conversations(&self, _query: &ConversationQuery) -> Result<ConversationPage, StoreError> {
        Err(StoreError::Closed)
    }
    fn count_of_project(&self, _user: UserId, _project: ProjectId) -> Result<u64, StoreError> {
        Err(StoreError::Closed)
    }
    fn messages(
        &self,
        _user: UserId,
        _id: &ConversationId,
        _after: Option<MessageRef>,
        _limit: usize,
    ) -> Result<MessagePage, StoreError> {
        Err(StoreError::Closed)
    }
    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError> {
        self.shared.handle.read(|reading| unfinished(reading, user, id))
    }
    fn asked(&self, _user: UserId, _job: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        Err(StoreError::Closed)
    }
}
