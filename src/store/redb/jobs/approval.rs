//! Jobs that wait for the approval of calls: the start of the wait, the decision, and the expiry (P7).

use crate::domain::approval::{ApprovalDecision, DENIED, expired};
use crate::domain::event::{EngineMark, Event, FailureCode, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus, PendingApproval};
use crate::domain::tool::ToolCall;
use crate::ports::{Fence, StoreError, Urgency};
use crate::store::redb::jobs::release::CANCELLED;
use crate::store::redb::jobs::row::{ApprovalRecord, JobRow};
use crate::store::redb::queue::lease::LogTail;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{BASE_WEIGHT, StoreWrite};
use std::sync::Arc;

/// Ends the lease; the job waits for a decision about these calls, at most `timeout_ms`.
pub(crate) struct AwaitApproval {
    pub(crate) fence: Fence,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) timeout_ms: u64,
}

impl StoreWrite for AwaitApproval {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut leased = transaction.lease(self.fence)?;
        transaction.drop_lease(self.fence.job);
        let expires_at_ms = transaction.now_ms.saturating_add(self.timeout_ms);
        let pending = PendingApproval::new(self.calls.clone(), expires_at_ms);
        let asked = EngineMark::ApprovalAsked { id_refs: pending.id_refs() };
        transaction.tables.append(self.fence.job, &mut leased.tail, &asked.into(), Urgency::Now)?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.attempt = row.job.attempt.saturating_sub(1);
        row.job.crashes = 0;
        row.asked = Some(ApprovalRecord { timeout_ms: self.timeout_ms, ..ApprovalRecord::default() });
        transaction.append_waiting(&mut row, &mut leased.tail, &pending)?;
        row.resume_at_ms = Some(pending.expires_at_ms);
        row.job.approval = Some(pending);
        transaction.delay(&mut row)?;
        transaction.move_row(&mut row, JobStatus::Waiting)
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }

    fn weight(&self) -> usize {
        self.calls.iter().map(|call| call.arguments.len()).sum::<usize>().saturating_add(BASE_WEIGHT)
    }
}

/// This user's word on calls of this job.
pub(crate) struct DecideApproval {
    pub(crate) user: UserId,
    pub(crate) job: JobId,
    pub(crate) decision: ApprovalDecision,
}

impl StoreWrite for DecideApproval {
    type Output = Option<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Job>, StoreError> {
        let found = transaction.find_row(self.job)?;
        let Some(mut row) = found.filter(|row| row.job.user == self.user) else { return Ok(None) };
        let id_refs = self.undecided_calls(&row)?;
        if !id_refs.is_empty() {
            let tail = transaction.tables.tail(self.job)?;
            transaction.apply_decision(&mut row, tail, (&id_refs, self.mark(&id_refs)))?;
        }
        Ok(Some(row.job))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.job]
    }
}

impl DecideApproval {
    /// The waiting calls that are meant; none, when all of them were decided just so before.
    fn undecided_calls(&self, row: &JobRow) -> Result<Vec<String>, StoreError> {
        let (status, approve) = (row.job.status, self.decision.approve);
        let asked = row.asked.as_ref().filter(|_| !status.is_terminal());
        let was_said = |id_ref: &str| asked.is_some_and(|asked| asked.decided.get(id_ref) == Some(&approve));
        let Some(pending) = &row.job.approval else {
            let repeats = match &self.decision.id_refs {
                Some(named) => named.iter().all(|id_ref| was_said(id_ref)),
                None => asked.is_some_and(|asked| asked.decided.values().all(|said| *said == approve)),
            };
            return if repeats { Ok(Vec::new()) } else { Err(StoreError::WrongState { status }) };
        };
        let waiting = pending.id_refs();
        let Some(named) = &self.decision.id_refs else { return Ok(waiting) };
        let strange = named.iter().find(|id_ref| !waiting.contains(id_ref) && !was_said(id_ref));
        if let Some(id_ref) = strange {
            return Err(StoreError::NotPending { id_ref: id_ref.clone() });
        }
        Ok(waiting.into_iter().filter(|id_ref| named.contains(id_ref)).collect())
    }

    fn mark(&self, id_refs: &[String]) -> EngineMark {
        let id_refs = id_refs.to_vec();
        if self.decision.approve {
            return EngineMark::Approved { id_refs };
        }
        let reason = self.decision.reason.clone().unwrap_or_else(|| DENIED.to_owned());
        EngineMark::Denied { id_refs, reason }
    }
}

impl Transaction<'_> {
    /// The time for a decision is over: calls that still wait count as denied.
    pub(crate) fn expire(&mut self, row: &mut JobRow, tail: LogTail) -> Result<(), StoreError> {
        let id_refs = row.job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default();
        let timeout_ms = row.asked.as_ref().map_or(0, |asked| asked.timeout_ms);
        let mark = EngineMark::Denied { id_refs: id_refs.clone(), reason: expired(timeout_ms) };
        self.apply_decision(row, tail, (&id_refs, mark))
    }

    /// Writes down what was decided about calls that wait. When none is left, the job is in the queue again,
    /// at the place that it had.
    fn apply_decision(
        &mut self,
        row: &mut JobRow,
        mut tail: LogTail,
        (id_refs, mark): (&[String], EngineMark),
    ) -> Result<(), StoreError> {
        let approve = matches!(mark, EngineMark::Approved { .. });
        self.tables.append(row.id(), &mut tail, &mark.into(), Urgency::Now)?;
        let asked = row.asked.get_or_insert_default();
        asked.decided.extend(id_refs.iter().map(|id_ref| (id_ref.clone(), approve)));
        let mut pending = row.job.approval.take();
        if let Some(pending) = &mut pending {
            pending.calls.retain(|call| !id_refs.contains(&call.id_ref));
        }
        if let Some(pending) = pending.filter(|pending| !pending.calls.is_empty()) {
            self.append_waiting(row, &mut tail, &pending)?;
            row.job.approval = Some(pending);
            return self.put_row(row);
        }
        let reason = decision_summary(count_decisions(row));
        self.remove_from_queue(row)?;
        row.resume_at_ms = Some(self.now_ms);
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned()))
    }

    /// Says for which calls the job waits.
    fn append_waiting(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        pending: &PendingApproval,
    ) -> Result<(), StoreError> {
        let (attempt, reason) = (row.job.attempt, pending.approval_text(row.id()));
        let event = Event::WaitingApproval { attempt, reason, calls: pending.id_refs() };
        self.tables.append_event(row.id(), tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.notify_event(row.id(), tail.seq);
        Ok(())
    }
}

/// How many calls were approved, and how many denied.
fn count_decisions(row: &JobRow) -> (usize, usize) {
    let decided = row.asked.as_ref().map(|asked| &asked.decided);
    let approved = decided.map_or(0, |decided| decided.values().filter(|approved| **approved).count());
    (approved, decided.map_or(0, std::collections::BTreeMap::len).saturating_sub(approved))
}

fn decision_summary((approved, denied): (usize, usize)) -> &'static str {
    match (approved, denied) {
        (_, 0) => "the calls were approved",
        (0, _) => "the calls were denied",
        _ => "some of the calls were approved, the others denied",
    }
}
