//! Conversations and their messages. A message has no row of its own: it is a job's input or a job's answer.

use super::quota_refusal::QuotaRefusal;
use super::store::{Idempotent, NewJob, SubmitError};
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{AskId, ConversationId, JobId, MessageId, ProjectId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobStatus};
use crate::domain::message::Message;
use crate::domain::search_words::SearchWords;
use crate::domain::steps::Step;
use std::collections::BTreeMap;

/// Why a conversation was not changed. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// The user has `limits.conversations` conversations already (HTTP: 429).
    #[error("there are {limit} conversations already (limits.conversations); delete one first")]
    ConversationsFull {
        /// The limit.
        limit: u64,
    },
    /// The id is taken (HTTP: 409).
    #[error("the name is taken")]
    NameTaken,
    /// A job of the conversation has not ended (HTTP: 409).
    #[error("the job is {}", .status.as_str())]
    WrongState {
        /// Its state.
        status: JobStatus,
    },
    /// The conversation was deleted (HTTP: 404).
    #[error("there is no such conversation")]
    NoConversation,
    /// The question of the answer was deleted (HTTP: 409).
    #[error("the question was deleted, so it cannot be answered again")]
    NoQuestion,
    /// More messages follow the answer than one write can remove (HTTP: 409).
    #[error(
        "more than {limit} questions come after this answer; answer a later one again, or begin a new conversation"
    )]
    TooLate {
        /// The limit.
        limit: usize,
    },
    /// `limits.queue_jobs` unfinished jobs are stored already (HTTP: 429).
    #[error("the queue is full: {limit} unfinished jobs are stored already")]
    QueueFull {
        /// The limit.
        limit: u64,
    },
    /// The idempotency key was used for another request (HTTP: 422).
    #[error("{}", SubmitError::KeyReused)]
    KeyReused,
    /// The job of the idempotency key was deleted (HTTP: 410).
    #[error("{}", SubmitError::KeySpent)]
    KeySpent,
    /// Another job acts on an answer to the same approval request (HTTP: 400).
    #[error("this approval request was answered before: {response} acts on that answer")]
    ApprovalAnswered {
        /// The id of that job's response.
        response: String,
    },
    /// The account's quota is used up (HTTP: 429).
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<&Conversation> for ConversationCursor {
    fn from(conversation: &Conversation) -> Self {
        Self { updated_at_ms: conversation.updated_at_ms, id: conversation.id.clone() }
    }
}

impl From<SubmitError> for ConversationError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::NoConversation => Self::NoConversation,
            SubmitError::QueueFull { limit } => Self::QueueFull { limit },
            SubmitError::ConversationsFull { limit } => Self::ConversationsFull { limit },
            SubmitError::KeyReused => Self::KeyReused,
            SubmitError::KeySpent => Self::KeySpent,
            SubmitError::ApprovalAnswered { response } => Self::ApprovalAnswered { response },
            // Messages come after no other job.
            error @ (SubmitError::NoPredecessor { .. } | SubmitError::DependentsFull { .. }) => {
                Self::Store(StoreError::Corrupt(error.to_string()))
            }
            SubmitError::Quota(refusal) => Self::Quota(refusal),
            SubmitError::Store(error) => Self::Store(error),
        }
    }
}

/// Filter and position of a conversation list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationQuery {
    /// Owner.
    pub user: UserId,
    /// Only conversations of this project.
    pub project: Option<ProjectId>,
    /// Only conversations whose title, questions and answers together contain these words.
    pub search: Option<SearchWords>,
    /// Only conversations after this position; the list starts with the newest.
    pub before: Option<ConversationCursor>,
    /// Page size; large conversations make a page shorter.
    pub limit: usize,
}

/// Position in the list: time of the last change, then id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationCursor {
    /// Unix milliseconds.
    pub updated_at_ms: u64,
    /// Id of the conversation.
    pub id: ConversationId,
}

/// A page of conversations, last changed first.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationPage {
    /// The conversations.
    pub conversations: Vec<Conversation>,
    /// Where the next page begins, if more follow. A search ends a page after a bounded number of bytes, so
    /// the page may be short or empty although more follow.
    pub next: Option<ConversationCursor>,
}

/// Refers to one of the two messages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRef {
    /// The user's message.
    Ask(AskId),
    /// The assistant's message.
    Answer(MessageId),
}

/// A message as a client sees it; deleted messages are left out.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// The user's message.
    Ask {
        /// Message id.
        id: AskId,
        /// The job that answers it.
        job: JobId,
        /// When it was sent, unix milliseconds.
        created_at_ms: u64,
        /// Messages of the job's input.
        messages: Vec<Message>,
    },
    /// The assistant's message, complete or in progress.
    Answer {
        /// State of the job.
        job: Box<Job>,
        /// The steps of the job's events that retention has not removed.
        steps: Vec<Step>,
        /// The tokens that the end of the log names.
        token_count: Option<u64>,
        /// The full answer where retention has cut the log; otherwise empty.
        answer: Vec<Message>,
    },
}

/// Which messages of a conversation a page has.
#[derive(Debug, Clone, Copy)]
pub struct MessageQuery<'a> {
    /// The owner of the conversation.
    pub user: UserId,
    /// The conversation.
    pub conversation: &'a ConversationId,
    /// The message before the first one; it may be deleted by now.
    pub after: Option<MessageRef>,
    /// Maximum messages.
    pub limit: usize,
}

/// A read reports how many more bytes of memory its result takes. An error ends the read.
pub type ReadMemory<'m> = dyn FnMut(usize) -> Result<(), StoreError> + 'm;

/// A page of messages, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// Whether more follow.
    pub has_more: bool,
}

/// A request to answer a question again.
#[derive(Debug, Clone, PartialEq)]
pub struct RegenerateRequest {
    /// The answer to replace. All later messages are removed with it.
    pub answer: MessageId,
    /// The new job; its input is taken from the old job, unless it replaces the question.
    pub job: NewJob,
    /// Whether the job's own input is a new question in place of the old one.
    pub replaces_question: bool,
    /// Repetitions with this key return the first job.
    pub key: Option<IdempotencyKey>,
}

/// Stores conversations. A job that names an unknown conversation creates it. Deleting a conversation deletes
/// its jobs.
pub trait Conversations: Send + Sync {
    /// Creates a conversation. Fails with [`ConversationError::ConversationsFull`] when the user has `limit`
    /// of them, and with [`ConversationError::NameTaken`] when the id exists.
    fn create_conversation(
        &self,
        conversation: Conversation,
        limit: u64,
    ) -> Ticket<Conversation, ConversationError>;
    /// Changes a conversation and returns the new state; `None` when the user has no such conversation.
    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>>;
    /// Deletes a conversation with all its messages, and cancels its unfinished jobs. Returns whether it
    /// existed.
    fn remove_conversation(&self, user: UserId, id: ConversationId) -> Ticket<bool>;
    /// Deletes all conversations of a project. Returns their number.
    fn remove_conversations_of(&self, user: UserId, project: ProjectId) -> Ticket<u64>;
    /// Deletes a message from the conversation and from later prompts; a deleted answer's text is erased.
    /// Returns whether it existed. Fails with [`ConversationError::WrongState`] while its job runs.
    fn delete_message(
        &self,
        user: UserId,
        id: ConversationId,
        message: MessageRef,
    ) -> Ticket<bool, ConversationError>;
    /// Deletes an answer and everything after it, and stores a job that answers the same question again, or a
    /// new one in its place. The same question keeps its id and position. `None` when there is no such
    /// answer. Fails with [`ConversationError::WrongState`] while a job of the conversation runs,
    /// [`ConversationError::NoConversation`] when the conversation does not exist,
    /// [`ConversationError::NoQuestion`] when the question was deleted, and [`ConversationError::TooLate`]
    /// when too many messages follow.
    fn regenerate(
        &self,
        user: UserId,
        id: ConversationId,
        again: RegenerateRequest,
    ) -> Ticket<Option<Idempotent<Job>>, ConversationError>;

    /// The conversation, or `None` when it is not this user's.
    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError>;
    /// A page of a user's conversations, last changed first: at least one, at most about 1 MiB.
    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError>;
    /// Number of a user's conversations by project; projects without any are left out.
    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError>;
    /// A page of messages: at least one, and of logs and requests at most about 1 MiB and one more message.
    fn messages(
        &self,
        query: &MessageQuery<'_>,
        memory: &mut ReadMemory<'_>,
    ) -> Result<MessagePage, StoreError>;
    /// Whether the conversation contains the message. An answer in progress counts; a deleted one does not.
    fn has_message(&self, user: UserId, id: &ConversationId, message: MessageRef)
    -> Result<bool, StoreError>;
    /// Unfinished jobs of the conversation, newest first.
    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError>;
}
