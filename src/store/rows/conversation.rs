//! The stored rows of a conversation and of its messages. A conversation has a first acceptance number;
//! earlier jobs belong to a removed one of the same name.

use crate::domain::conversation::{Conversation, ConversationSettings};
use crate::domain::id::{AskId, ConversationId, JobId};
use crate::domain::job::{Job, JobSpec};
use crate::ports::MessageRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A row of the table `conversations`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConversationRow {
    pub(crate) conversation: Conversation,
    /// Its first acceptance number. Earlier jobs belong to a removed conversation of the same name.
    pub(crate) floor: u64,
    /// Jobs accepted up to here may have read messages that were deleted since: no summary of theirs is kept.
    pub(crate) edited_through: u64,
}

impl ConversationRow {
    /// A conversation that does not exist when a job names it. The job's system prompt stays the job's own:
    /// it may be as large as an input.
    pub(crate) fn of_job(job: &Job, id: &ConversationId, spec: &JobSpec, floor: u64) -> Self {
        let settings = ConversationSettings {
            model: spec.model.clone(),
            system_prompt: String::new(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            thinking_enabled: spec.thinking,
            project_id: spec.project_id,
        };
        let conversation = Conversation {
            id: id.clone(),
            user: job.user,
            title: String::new(),
            settings,
            created_at_ms: job.created_at_ms,
            updated_at_ms: job.created_at_ms,
            message_count: 0,
            metadata: BTreeMap::new(),
        };
        Self { conversation, floor, edited_through: 0 }
    }
}

/// A row of the table `message_pairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessagePair {
    pub(crate) job: JobId,
    /// Id of the question, from the first job that had it.
    pub(crate) ask: AskId,
    pub(crate) ask_created_at_ms: u64,
    pub(crate) shows_question: bool,
    pub(crate) shows_answer: bool,
}

impl MessagePair {
    /// The pair of a job with a new question.
    pub(crate) fn of(job: &Job) -> Self {
        let ask_created_at_ms = job.created_at_ms;
        Self {
            job: job.id,
            ask: job.id.ask_id(),
            ask_created_at_ms,
            shows_question: true,
            shows_answer: true,
        }
    }

    /// Whether one of its messages has this id, deleted or not.
    pub(crate) fn has(&self, message: MessageRef) -> bool {
        match message {
            MessageRef::Ask(ask) => self.ask == ask,
            MessageRef::Answer(answer) => self.job == answer.job(),
        }
    }

    /// Whether one of its messages is not deleted.
    pub(crate) fn is_shown(&self) -> bool {
        self.shows_question || self.shows_answer
    }

    /// Its number of messages; an answer counts once the job has ended.
    pub(crate) fn count(&self, has_ended: bool) -> u64 {
        u64::from(self.shows_question).saturating_add(u64::from(self.shows_answer && has_ended))
    }
}

/// The job that a message's id names.
pub(crate) fn job_of(message: MessageRef) -> JobId {
    match message {
        MessageRef::Ask(ask) => ask.job(),
        MessageRef::Answer(answer) => answer.job(),
    }
}
