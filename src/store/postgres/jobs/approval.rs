//! Jobs that wait for the approval of calls: the start of the wait, the decision, and the expiry (P7).

use crate::domain::approval::{ApprovalDecision, expired};
use crate::domain::event::{EngineMark, FailureCode, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{JobStatus, PendingApproval};
use crate::domain::tool::ToolCall;
use crate::ports::{DecidedJob, Fence, JobChangeError, LeaseError, StoreError};
use crate::store::postgres::jobs::row::{move_row, tail};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::approval::{
    DecidedCalls, count_decisions, decided_calls, decision_mark, decision_summary,
};
use crate::store::rows::job::{CANCELLED, JobRow, QueuePlace};
use crate::store::rows::lease::LogTail;

impl Act<'_> {
    /// Ends the lease. The job waits at most `timeout_ms` for a decision about these calls.
    pub(crate) async fn wait_for_decision(
        &mut self,
        fence: Fence,
        calls: &[ToolCall],
        timeout_ms: u64,
    ) -> Result<(), LeaseError> {
        let (mut row, mut tail) = self.take_lease(fence).await?;
        let expires_at_ms = self.now_ms.saturating_add(timeout_ms);
        let pending = PendingApproval::new(calls.to_vec(), expires_at_ms);
        let record = EngineMark::ApprovalAsked { id_refs: pending.id_refs() };
        self.append(fence.job, &mut tail, &record.into())?;
        if row.job.cancel_requested {
            return Ok(self.end_unleased(&mut row, FailureCode::Cancelled, CANCELLED).await?);
        }
        row.ask_approval(timeout_ms);
        self.append_waiting(&mut row, &mut tail, &pending)?;
        row.resume_at_ms = Some(pending.expires_at_ms);
        row.job.approval = Some(pending);
        move_row(&mut row, JobStatus::Waiting)?;
        row.queue_place = QueuePlace::Delayed;
        // Waiting claims learn when it expires.
        self.effects.announcement.queue.has_ready_job = true;
        self.effects.announcement.queue.has_delayed_job = true;
        Ok(self.put_row(&row).await?)
    }
}

impl Act<'_> {
    /// Applies a user's decision about calls that a job waits for.
    pub(crate) async fn decide_approval(
        &mut self,
        user: UserId,
        job: JobId,
        decision: &ApprovalDecision,
    ) -> Result<Option<DecidedJob>, JobChangeError> {
        let Some(mut row) = self.find_own_row(user, job).await? else { return Ok(None) };
        let DecidedCalls { all: calls, undecided } = decided_calls(decision, &row)?;
        if !undecided.is_empty() {
            let mark = decision_mark(decision, &undecided, row.job.approval.as_ref());
            self.apply_decision(&mut row, (&undecided, mark)).await?;
        }
        Ok(Some(DecidedJob { job: self.shown(row).await?, calls }))
    }

    /// Expires the approval of a waiting job: undecided calls count as denied.
    pub(crate) async fn expire(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        let id_refs = row.job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default();
        let timeout_ms = row.approval.as_ref().map_or(0, |record| record.timeout_ms);
        let mark = EngineMark::Denied { id_refs: id_refs.clone(), reason: expired(timeout_ms) };
        self.apply_decision(row, (&id_refs, mark)).await
    }

    /// Records decisions about waiting calls. After the last one the job is queued again, at its old
    /// position.
    async fn apply_decision(
        &mut self,
        row: &mut JobRow,
        (id_refs, mark): (&[String], EngineMark),
    ) -> Result<(), StoreError> {
        self.flush().await?;
        let mut tail = tail(&self.session, row.id()).await?;
        let approve = matches!(mark, EngineMark::Approved { .. });
        self.append(row.id(), &mut tail, &mark.into())?;
        if let Some(pending) = row.decide(id_refs, approve) {
            self.append_waiting(row, &mut tail, &pending)?;
            row.job.approval = Some(pending);
            return self.put_row(row).await;
        }
        let reason = decision_summary(count_decisions(row));
        row.queue_place = QueuePlace::Out;
        row.resume_at_ms = Some(self.now_ms);
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned())).await
    }

    /// Appends the event with the waiting calls.
    fn append_waiting(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        pending: &PendingApproval,
    ) -> Result<(), StoreError> {
        let event = row.waiting_event(pending);
        self.append_event(row.id(), tail, event)?;
        row.job.last_event_id = tail.seq;
        self.announce_event(row.id(), tail.seq);
        Ok(())
    }
}
