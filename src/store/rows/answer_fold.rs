//! Folds the log of an answer event by event, so that no more than its steps is in memory, and notices gaps.

use crate::domain::event::Event;
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::domain::steps::StepFold;
use crate::ports::{ChatMessage, ReadMemory, StoreError};

/// The events of a log so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerFold {
    steps: StepFold,
    first_seq: Option<u64>,
    last_seq: u64,
    has_gap: bool,
    /// Bytes of the stored events.
    pub(crate) bytes: usize,
}

impl AnswerFold {
    /// Takes the next event, which is stored with so many bytes.
    pub(crate) fn take(
        &mut self,
        seq: u64,
        event: Event,
        bytes: usize,
        memory: &mut ReadMemory<'_>,
    ) -> Result<(), StoreError> {
        self.first_seq.get_or_insert(seq);
        self.has_gap |= seq != self.last_seq.saturating_add(1);
        self.last_seq = seq;
        self.bytes = self.bytes.saturating_add(bytes);
        memory(self.steps.take(event))
    }

    /// Whether events are lost: those of a log end with the last one of the job, and a log that retention has
    /// left alone has no gap.
    pub(crate) fn lacks_events(
        &self,
        job: &Job,
        is_complete: impl FnOnce() -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        Ok(job.last_event_id > self.last_seq || (self.has_gap && is_complete()?))
    }

    /// Whether retention has removed the first event.
    pub(crate) fn is_cut(&self) -> bool {
        self.first_seq.is_none_or(|seq| seq > 1)
    }

    /// The message; `answer` is the stored one of a log that was cut.
    pub(crate) fn into_message(self, job: Job, answer: Vec<Message>) -> ChatMessage {
        let token_count = self.steps.token_count();
        ChatMessage::Answer { job: Box::new(job), steps: self.steps.into_steps(), token_count, answer }
    }
}
