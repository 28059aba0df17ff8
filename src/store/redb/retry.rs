//! A failed job again, from its last recorded step. It is accepted anew: behind whatever its conversation has said since.
//! Refuses jobs that have not failed, and other users' (P7).

use super::act::Act;
use super::keys::{EndedKey, OwnerKey, TurnKey};
use super::queue::line_key;
use super::retention::CUT;
use super::row::Row;
use super::table::ReadableTable;
use super::transaction::Transaction;
use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::StoreError;

/// What its log then says.
const RETRIED: &str = "somebody asked for another try";

/// This job of this user.
pub(super) struct Retry {
    pub(super) user: UserId,
    pub(super) job: JobId,
}

impl Act for Retry {
    type Out = Option<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Job>, StoreError> {
        let found = transaction.find_row(self.job)?;
        let Some(mut row) = found.filter(|row| row.job.user == self.user) else { return Ok(None) };
        if row.job.status != JobStatus::Failed {
            return Err(StoreError::WrongState { status: row.job.status });
        }
        let finished_at_ms = row.job.finished_at_ms.unwrap_or_default();
        let cut = EndedKey { stage: CUT, finished_at_ms, job: self.job };
        if transaction.tables.ended.get(&cut.encode())?.is_some() {
            return Err(StoreError::LogCut);
        }
        // Gone with its conversation; the sweeper has not come to it yet.
        if row.job.conversation_id.is_some() && transaction.conversation_of(&row)?.is_none() {
            return Ok(None);
        }
        if transaction.has_given_way(&row)? {
            return Ok(None);
        }
        transaction.make_room(1)?;
        transaction.accept_again(&mut row)?;
        Ok(Some(row.job))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.job]
    }
}

impl Transaction<'_> {
    /// Whether another answer took its place, and the sweeper has not come to it yet.
    fn has_given_way(&self, row: &Row) -> Result<bool, StoreError> {
        let Some(key) = line_key(row) else { return Ok(false) };
        Ok(self.exchange(&key.encode())?.is_some_and(|exchange| !exchange.is_shown()))
    }

    fn accept_again(&mut self, row: &mut Row) -> Result<(), StoreError> {
        // What it said as it failed is said anew when it ends.
        if let Some(key) = line_key(row).map(TurnKey::encode) {
            self.tables.turns.remove(&key)?;
        }
        self.tables.outputs.remove(&row.id().to_bytes())?;
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        self.effects.tally.accept();
        let old = OwnerKey { user: row.job.user, status: row.job.status, accept: row.accept };
        self.tables.owned.remove(&old.encode())?;
        let job = Job {
            crashes: 0,
            failed_runs: 0,
            error: None,
            finished_at_ms: None,
            run_at_ms: None,
            ..row.job.clone()
        };
        let (ledger, booked) = (std::mem::take(&mut row.ledger), std::mem::take(&mut row.booked));
        let fresh = Row::new(Job { cancel_requested: false, ..job }, self.counters.accept);
        let first_accept = Some(row.first_accept.unwrap_or(row.accept));
        let old_accept = row.accept;
        *row = Row { ledger, booked, first_accept, retried_at_ms: Some(self.now_ms), ..fresh };
        self.reenter_conversation(row, old_accept)?;
        self.reopen_line(&row.job)?;
        let mut tail = self.tables.tail(row.id())?;
        let (status, attempt, reason) = (StatusPhase::Queued, row.job.attempt, Some(RETRIED.to_owned()));
        self.tables.append_event(row.id(), &mut tail, &Event::Status { status, attempt, reason })?;
        row.job.last_event_id = tail.seq;
        self.move_row(row, JobStatus::Queued)?;
        self.enqueue(row)?;
        self.put_row(row)?;
        self.announce(row.id(), tail.seq);
        Ok(())
    }
}
