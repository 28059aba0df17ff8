//! Ending jobs, by their worker or by the store itself: terminal event, row, answer, conversation, queue and
//! webhook in one transaction, because two would be torn apart by a crash (P4).

use super::act::{Act, SMALL};
use super::append::{record_bytes, refuse_terminal};
use super::keys::{EndedKey, TurnKey};
use super::lease::Tail;
use super::queue::line_key;
use super::retention::WHOLE;
use super::row::Row;
use super::transaction::Transaction;
use super::value;
use crate::domain::event::{Event, FailureCode, Record};
use crate::domain::id::JobId;
use crate::domain::job::{JobOutcome, JobSpec};
use crate::domain::message::Message;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Fence, StoreError, Urgency};
use std::sync::Arc;

/// The last write of a lease.
pub(super) struct Finish {
    pub(super) fence: Fence,
    pub(super) records: Vec<Record>,
    pub(super) ending: JobOutcome,
}

impl Act for Finish {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut held = transaction.lease(self.fence)?;
        refuse_terminal(&self.records)?;
        for record in &self.records {
            transaction.tables.append(self.fence.job, &mut held.tail, record, Urgency::Soon)?;
        }
        let mut row = Arc::unwrap_or_clone(held.row);
        row.job.crashes = 0;
        if let Some(spent) = row.spent(&self.records) {
            row.enter(&spent);
        }
        transaction.step_past_summary(&mut row)?;
        transaction.write_turn(&row, &held.spec, &self.ending)?;
        transaction.end(&mut row, &mut held.tail, &self.ending)?;
        transaction.drop_lease(self.fence.job);
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }

    fn weight(&self) -> usize {
        let records = self.records.iter().map(record_bytes).sum::<usize>();
        records.saturating_add(self.ending.output_text.len()).saturating_add(SMALL)
    }
}

impl Transaction<'_> {
    /// Writes an end: the only place where a terminal event enters a log.
    pub(super) fn end(
        &mut self,
        row: &mut Row,
        tail: &mut Tail,
        ending: &JobOutcome,
    ) -> Result<(), StoreError> {
        if !ending.event.is_terminal() {
            return Err(StoreError::Corrupt("an ending without a terminal event".to_owned()));
        }
        self.retire(row)?;
        self.tables.append_event(row.id(), tail, &ending.event)?;
        self.book(row)?;
        row.job.error = ending.error();
        row.job.finished_at_ms = Some(self.now_ms);
        row.job.last_event_id = tail.seq;
        row.resumed = None;
        row.job.approval = None;
        row.asked = None;
        self.move_row(row, ending.status())?;
        self.effects.tally.end(row, &ending.event);
        let ended = EndedKey { stage: WHOLE, finished_at_ms: self.now_ms, job: row.id() };
        self.tables.ended.insert(&ended.encode(), ())?;
        if !ending.output_text.is_empty() {
            let text = value::encode_text(&ending.output_text);
            self.tables.outputs.insert(&row.id().to_bytes(), text.as_slice())?;
        }
        self.answer_conversation(row, ending)?;
        self.announce(row.id(), tail.seq);
        if let Some(url) = row.job.webhook_url.clone() {
            self.report(row.job.user, WebhookSubject::Job(row.id()), &url)?;
        }
        self.end_line(&row.job)
    }

    /// Ends a job that no worker holds. What it has spent stays spent and what it has said stays said; if it had run,
    /// its conversation keeps the question.
    pub(super) fn end_unheld(
        &mut self,
        row: &mut Row,
        code: FailureCode,
        content: &str,
    ) -> Result<(), StoreError> {
        let mut tail = self.tables.tail(row.id())?;
        let output_text = match self.tables.said(row.id()) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "what it has said cannot be read any more");
                String::new()
            }
            said => said?,
        };
        let messages = match output_text.as_str() {
            "" => Vec::new(),
            said => vec![Message::assistant(said)],
        };
        let event = Event::Error { content: content.to_owned(), code };
        let ending = JobOutcome { event, output_text, messages, summary: None };
        if row.job.started_at_ms.is_some() {
            // Its place in a queue has the number that it may lose.
            self.displace(row)?;
            self.step_past_summary(row)?;
            match self.spec(row.id()) {
                Ok(spec) => self.write_turn(row, &spec, &ending)?,
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(job = %row.id(), reason, "its conversation loses what was asked");
                }
                Err(error) => return Err(error),
            }
        }
        self.end(row, &mut tail, &ending)
    }

    /// What the conversation gains: what was asked, and what was said to it. One that was removed gains nothing, a question
    /// that was deleted does not come back, and no summary of what was deleted does.
    fn write_turn(&mut self, row: &Row, spec: &JobSpec, ending: &JobOutcome) -> Result<(), StoreError> {
        let Some(key) = line_key(row).map(TurnKey::encode) else { return Ok(()) };
        let Some(conversation) = self.conversation_of(row)? else { return Ok(()) };
        let shows_ask = self.exchange(&key)?.is_none_or(|exchange| exchange.shows_ask);
        let asked = spec.input.iter().filter(|_| shows_ask);
        let messages: Vec<_> = asked.chain(&ending.messages).collect();
        self.tables.turns.insert(&key, value::encode(&messages)?.as_slice())?;
        let knew = row.first_accept.unwrap_or(row.accept) <= conversation.edited_through;
        // What ran beside the conversation has not read it.
        let knew = knew || row.job.origin.parent().is_some();
        if let Some(summary) = ending.summary.as_ref().filter(|_| !knew) {
            self.write_summary(&key, summary)?;
        }
        Ok(())
    }
}
