//! Ends jobs, for their worker or for the store itself: terminal event, row, output, conversation, queue and
//! webhook in one transaction (P4).

use crate::domain::event::{FailureCode, Record};
use crate::domain::job::{JobOutcome, JobSpec, JobStatus};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::redb::codec::keys::conversations::TurnKey;
use crate::store::redb::codec::keys::jobs::EndedKey;
use crate::store::redb::codec::values;
use crate::store::redb::retention::sweep::WHOLE;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::JobRow;
use crate::store::rows::job::refuse_terminal;
use crate::store::rows::lease::LogTail;
use crate::store::rows::transitions::ending_without_worker;
use std::sync::Arc;

impl Transaction<'_> {
    /// Ends a leased job; the last write of its lease.
    pub(crate) fn finish_job(
        &mut self,
        fence: Fence,
        records: &[Record],
        ending: &JobOutcome,
    ) -> Result<(), LeaseError> {
        let mut leased = self.lease(fence)?;
        refuse_terminal(records)?;
        for record in records {
            self.tables.append(fence.job, &mut leased.tail, record)?;
        }
        let mut row = Arc::unwrap_or_clone(leased.row);
        row.job.crashes = 0;
        if let Some(spent) = row.spent(records) {
            row.enter(&spent);
        }
        self.move_behind_summary(&mut row)?;
        self.write_turn(&row, &leased.spec, ending)?;
        self.end(&mut row, &mut leased.tail, ending)?;
        self.drop_lease(fence.job);
        Ok(())
    }

    /// Writes the end of a job. No other code writes a terminal event.
    pub(crate) fn end(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        ending: &JobOutcome,
    ) -> Result<(), StoreError> {
        if !ending.event.is_terminal() {
            return Err(StoreError::Corrupt("an ending without a terminal event".to_owned()));
        }
        self.leave_queues(row)?;
        self.forget_conditions(row)?;
        self.tables.append_event(row.id(), tail, &ending.event)?;
        self.book(row)?;
        row.close(ending, tail, self.now_ms);
        self.move_row(row, ending.status())?;
        self.effects.metrics.end(row, &ending.event);
        let ended = EndedKey { stage: WHOLE, finished_at_ms: self.now_ms, job: row.id() };
        self.tables.ended.insert(&ended.encode(), ())?;
        self.queue_span_export(row)?;
        if !ending.output_text.is_empty() {
            let text = values::encode_text(&ending.output_text);
            self.tables.outputs.insert(&row.id().to_bytes(), text.as_slice())?;
        }
        self.count_answer(row, ending)?;
        self.notify_event(row.id(), tail.seq);
        self.release_dependents(row.id(), row.job.status == JobStatus::Succeeded)?;
        if let Some(url) = row.job.webhook_url.clone() {
            self.report(row.job.user, WebhookSubject::Job(row.id()), &url)?;
        }
        self.end_line(&row.job)
    }

    /// Ends a job without a lease. Its usage and its output stay. If it had run, the question stays in the
    /// conversation.
    pub(crate) fn end_unleased(
        &mut self,
        row: &mut JobRow,
        code: FailureCode,
        content: &str,
    ) -> Result<(), StoreError> {
        let mut tail = self.tables.tail(row.id())?;
        let output_text = match self.tables.answer_text(row.id()) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "output of the job cannot be read");
                String::new()
            }
            answer_text => answer_text?,
        };
        let ending = ending_without_worker(code, content, output_text);
        if row.job.started_at_ms.is_some() {
            // Its queue entry contains the number that may change below.
            self.remove_from_queue(row)?;
            self.move_behind_summary(row)?;
            match self.spec(row.id()) {
                Ok(spec) => self.write_turn(row, &spec, &ending)?,
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(job = %row.id(), reason, "input of the job cannot be read; the conversation loses the question");
                }
                Err(error) => return Err(error),
            }
        }
        self.end(row, &mut tail, &ending)
    }

    /// Adds question and answer to the conversation, unless it was removed. A deleted question does not come
    /// back, nor does a summary of deleted messages.
    fn write_turn(&mut self, row: &JobRow, spec: &JobSpec, ending: &JobOutcome) -> Result<(), StoreError> {
        let Some(key) = row.turn_key().map(TurnKey::encode) else { return Ok(()) };
        let Some(conversation) = self.conversation_of(row)? else { return Ok(()) };
        let shows_question = self.message_pair(&key)?.is_none_or(|message_pair| message_pair.shows_question);
        let question = spec.input.iter().filter(|_| shows_question);
        let messages: Vec<_> = question.chain(&ending.messages).collect();
        self.tables.turns.put_row(&key, &messages)?;
        let is_outdated = row.first_accept.unwrap_or(row.accept) <= conversation.edited_through;
        // A background job has not read the conversation.
        let is_outdated = is_outdated || row.job.origin.parent().is_some();
        if let Some(summary) = ending.summary.as_ref().filter(|_| !is_outdated) {
            self.write_summary(&key, summary)?;
        }
        Ok(())
    }
}
