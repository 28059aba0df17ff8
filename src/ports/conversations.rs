//! Conversations and their messages, as a reader sees them. Owns the trait and the values that cross it. A message is no row of
//! its own: it is what a job was asked, or what a job has said.

use super::store::{NewJob, StoreError};
use super::ticket::Ticket;
use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::event::SequencedEvent;
use crate::domain::id::{AskId, ConversationId, JobId, MessageId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::domain::message::Message;
use std::collections::BTreeMap;

/// Which conversations a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationQuery {
    /// Only this user's.
    pub user: UserId,
    /// Only those of this project.
    pub project: Option<ProjectId>,
    /// Only those behind this one, in a list that is newest first.
    pub before: Option<ConversationCursor>,
    /// At most so many; fewer when they are large.
    pub limit: usize,
}

/// A place in the list of conversations: when it last changed, then its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationCursor {
    /// Unix milliseconds.
    pub updated_at_ms: u64,
    /// Which.
    pub id: ConversationId,
}

/// A page of conversations, the one that changed last first.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationPage {
    /// The conversations.
    pub conversations: Vec<Conversation>,
    /// Whether more would follow.
    pub has_more: bool,
}

/// One of the two messages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRef {
    /// What was asked.
    Ask(AskId),
    /// What was answered.
    Answer(MessageId),
}

/// What a job added to its conversation, as far as nobody has deleted it.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// What was asked.
    Ask {
        /// Its id.
        id: AskId,
        /// When, unix milliseconds.
        created_at_ms: u64,
        /// The messages of the job's input.
        messages: Vec<Message>,
    },
    /// What was answered so far.
    Answer {
        /// How the job stands.
        job: Box<Job>,
        /// What its log tells; what retention has left of it.
        events: Vec<SequencedEvent>,
        /// The whole of it, as the conversation keeps it, where retention has cut the log; else nothing.
        said: Vec<Message>,
    },
}

/// A page of messages, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// Whether more follow.
    pub has_more: bool,
}

/// What an answer is to be given to anew.
#[derive(Debug, Clone, PartialEq)]
pub struct RegenerateRequest {
    /// Which answer gives way; whatever came after it goes as well.
    pub answer: MessageId,
    /// The job that answers in its place: its input is replaced by the old job's.
    pub job: NewJob,
}

/// Conversations. One that a job names is there from the moment the job is; deleting one deletes its jobs.
pub trait Conversations: Send + Sync {
    /// Stores a conversation, unless its user has `most` of them already ([`StoreError::ConversationsFull`]), or one of this
    /// id ([`StoreError::NameTaken`]).
    fn found(&self, conversation: Conversation, most: u64) -> Ticket<Conversation>;
    /// Changes a conversation; resolves to it as it then is, `None` when the user has none of this name.
    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>>;
    /// Forgets a conversation with everything in it. Jobs that have not ended are cancelled, and go when they have ended.
    /// Whether the user had it.
    fn remove_conversation(&self, user: UserId, id: ConversationId) -> Ticket<bool>;
    /// Forgets the same for all conversations of a project: how many there were.
    fn remove_conversations_of(&self, user: UserId, project: ProjectId) -> Ticket<u64>;
    /// Forgets one message, also for what models are told. [`StoreError::WrongState`] while its job has not ended. What
    /// the job of a deleted answer has said is gone. Whether the conversation had it.
    fn delete_message(&self, user: UserId, id: ConversationId, message: MessageRef) -> Ticket<bool>;
    /// Forgets an answer with all that came after it, and stores a job that is asked the same again; the question keeps its
    /// id and its place. [`StoreError::WrongState`] while a job of the conversation has not ended,
    /// [`StoreError::NoConversation`] when it has gone, [`StoreError::NoQuestion`] when the question
    /// was deleted, [`StoreError::TooLate`] when too much came after; `None` when it has no such answer.
    fn regenerate(&self, user: UserId, id: ConversationId, again: RegenerateRequest) -> Ticket<Option<Job>>;

    /// The conversation, if it is this user's.
    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError>;
    /// A page of a user's conversations, the one that changed last first: at least one, and at most about 1 MiB.
    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError>;
    /// How many conversations of a user belong to each of the projects; one that has none is not there.
    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError>;
    /// At most `limit` messages behind `after` (which may have been deleted since), and at most about 1 MiB, but
    /// at least one.
    fn messages(
        &self,
        user: UserId,
        id: &ConversationId,
        after: Option<MessageRef>,
        limit: usize,
    ) -> Result<MessagePage, StoreError>;
    /// Whether the conversation has this message, and nobody has deleted it; an answer that is under way as well.
    fn has_message(&self, user: UserId, id: &ConversationId, message: MessageRef)
    -> Result<bool, StoreError>;
    /// The conversation's jobs that have not ended, newest first.
    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError>;
}
