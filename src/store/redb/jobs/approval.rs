//! Jobs that wait for the approval of calls: the start of the wait, the decision, and the expiry (P7).

use crate::domain::approval::{ApprovalDecision, expired};
use crate::domain::event::{EngineMark, FailureCode, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{JobStatus, PendingApproval};
use crate::domain::tool::ToolCall;
use crate::ports::{DecidedJob, Fence, JobChangeError, LeaseError, StoreError};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::approval::{
    DecidedCalls, count_decisions, decided_calls, decision_mark, decision_summary,
};
use crate::store::rows::job::{CANCELLED, JobRow};
use crate::store::rows::lease::LogTail;
use std::sync::Arc;

impl Transaction<'_> {
    /// Ends the lease. The job waits at most `timeout_ms` for a decision about these calls.
    pub(crate) fn wait_for_decision(
        &mut self,
        fence: Fence,
        calls: &[ToolCall],
        timeout_ms: u64,
    ) -> Result<(), LeaseError> {
        let mut leased = self.lease(fence)?;
        self.drop_lease(fence.job);
        let expires_at_ms = self.now_ms.saturating_add(timeout_ms);
        let pending = PendingApproval::new(calls.to_vec(), expires_at_ms);
        let record = EngineMark::ApprovalAsked { id_refs: pending.id_refs() };
        self.tables.append(fence.job, &mut leased.tail, &record.into())?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return Ok(self.end_unleased(&mut row, FailureCode::Cancelled, CANCELLED)?);
        }
        row.ask_approval(timeout_ms);
        self.append_waiting(&mut row, &mut leased.tail, &pending)?;
        row.resume_at_ms = Some(pending.expires_at_ms);
        row.job.approval = Some(pending);
        self.delay(&mut row)?;
        Ok(self.move_row(&mut row, JobStatus::Waiting)?)
    }
}

impl Transaction<'_> {
    /// Applies a user's decision about calls that a job waits for.
    pub(crate) fn decide_approval(
        &mut self,
        user: UserId,
        job: JobId,
        decision: &ApprovalDecision,
    ) -> Result<Option<DecidedJob>, JobChangeError> {
        let Some(mut row) = self.find_own_row(user, job)? else { return Ok(None) };
        let DecidedCalls { all: calls, undecided } = decided_calls(decision, &row)?;
        if !undecided.is_empty() {
            let mark = decision_mark(decision, &undecided, row.job.approval.as_ref());
            let tail = self.tables.tail(job)?;
            self.apply_decision(&mut row, tail, (&undecided, mark))?;
        }
        Ok(Some(DecidedJob { job: self.shown(row)?, calls }))
    }

    /// Expires the approval: undecided calls count as denied.
    pub(crate) fn expire(&mut self, row: &mut JobRow, tail: LogTail) -> Result<(), StoreError> {
        let id_refs = row.job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default();
        let timeout_ms = row.approval.as_ref().map_or(0, |record| record.timeout_ms);
        let mark = EngineMark::Denied { id_refs: id_refs.clone(), reason: expired(timeout_ms) };
        self.apply_decision(row, tail, (&id_refs, mark))
    }

    /// Records decisions about waiting calls. After the last one the job is queued again, at its old
    /// position.
    fn apply_decision(
        &mut self,
        row: &mut JobRow,
        mut tail: LogTail,
        (id_refs, mark): (&[String], EngineMark),
    ) -> Result<(), StoreError> {
        let approve = matches!(mark, EngineMark::Approved { .. });
        self.tables.append(row.id(), &mut tail, &mark.into())?;
        if let Some(pending) = row.decide(id_refs, approve) {
            self.append_waiting(row, &mut tail, &pending)?;
            row.job.approval = Some(pending);
            return self.put_row(row);
        }
        let reason = decision_summary(count_decisions(row));
        self.remove_from_queue(row)?;
        row.resume_at_ms = Some(self.now_ms);
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned()))
    }

    /// Appends the event with the waiting calls.
    fn append_waiting(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        pending: &PendingApproval,
    ) -> Result<(), StoreError> {
        let event = row.waiting_event(pending);
        self.tables.append_event(row.id(), tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.notify_event(row.id(), tail.seq);
        Ok(())
    }
}
