//! How the row of a job changes when the job begins a run, is given back, waits for an approval, or ends. The
//! caller writes the row, its events and its place in the queue.

use crate::domain::event::{Event, FailureCode, StatusPhase};
use crate::domain::job::{JobOutcome, PendingApproval};
use crate::domain::job_wait::JobWaitReason;
use crate::domain::message::Message;
use crate::store::rows::job::{ApprovalRecord, JobRow};
use crate::store::rows::lease::LogTail;

impl JobRow {
    /// A worker begins a run. Returns the event that says so.
    pub(crate) fn begin_run(&mut self, now_ms: u64) -> Event {
        self.job.epoch = self.job.epoch.saturating_add(1);
        self.job.attempt = self.job.attempt.saturating_add(1);
        self.job.started_at_ms = self.job.started_at_ms.or(Some(now_ms));
        let reason = self.resumed.take();
        self.resume_at_ms = None;
        self.delayed_for = None;
        Event::Status { status: StatusPhase::Running, attempt: self.job.attempt, reason }
    }

    /// The run does not count.
    pub(crate) fn uncount_attempt(&mut self) {
        self.job.attempt = self.job.attempt.saturating_sub(1);
    }

    /// The run has failed, and another attempt follows at this time.
    pub(crate) fn postpone(&mut self, resume_at_ms: u64) {
        self.job.failed_runs = self.job.failed_runs.saturating_add(1);
        self.resume_at_ms = Some(resume_at_ms);
        self.delayed_for = Some(JobWaitReason::Retry);
    }

    /// The run does not count, and goes on at this time: a provider is busy.
    pub(crate) fn defer(&mut self, resume_at_ms: u64) {
        self.uncount_attempt();
        self.resume_at_ms = Some(resume_at_ms);
        self.delayed_for = Some(JobWaitReason::Provider);
    }

    /// The run was cut off by a crash. Returns whether this was one crash too many.
    pub(crate) fn count_crash(&mut self, limit: u32) -> bool {
        self.job.crashes = self.job.crashes.saturating_add(1);
        self.job.crashes >= limit
    }

    /// The run ends to wait for an approval, and does not count.
    pub(crate) fn ask_approval(&mut self, timeout_ms: u64) {
        self.uncount_attempt();
        self.job.crashes = 0;
        self.approvals_asked = self.approvals_asked.saturating_add(1);
        let decided_before = self.approval.take().map(|record| record.decided).unwrap_or_default();
        self.approval = Some(ApprovalRecord { timeout_ms, decided_before, ..ApprovalRecord::default() });
    }

    /// The event with the waiting calls.
    pub(crate) fn waiting_event(&self, pending: &PendingApproval) -> Event {
        let reason = pending.approval_text(self.id());
        Event::WaitingApproval { attempt: self.job.attempt, reason, calls: pending.id_refs() }
    }

    /// Records decisions about waiting calls. Returns the calls that still wait, if there are any.
    pub(crate) fn decide(&mut self, id_refs: &[String], approve: bool) -> Option<PendingApproval> {
        let record = self.approval.get_or_insert_default();
        record.decided.extend(id_refs.iter().map(|id_ref| (id_ref.clone(), approve)));
        let mut pending = self.job.approval.take()?;
        pending.calls.retain(|call| !id_refs.contains(&call.id_ref));
        Some(pending).filter(|pending| !pending.calls.is_empty())
    }

    /// The job has ended with the terminal event at the end of its log. The caller changes its status.
    pub(crate) fn close(&mut self, ending: &JobOutcome, tail: &LogTail, now_ms: u64) {
        self.job.error = ending.error();
        self.job.finished_at_ms = Some(now_ms);
        self.job.last_event_id = tail.seq;
        self.job.log_head = tail.link;
        self.resumed = None;
        self.job.approval = None;
        self.approval = None;
        self.has_output = !ending.output_text.is_empty();
    }
}

/// The end of a job without a worker; `output_text` is what it had answered so far.
pub(crate) fn ending_without_worker(code: FailureCode, content: &str, output_text: String) -> JobOutcome {
    let messages = match output_text.as_str() {
        "" => Vec::new(),
        answer_text => vec![Message::assistant(answer_text)],
    };
    let event = Event::Error { content: content.to_owned(), code, retry_after_ms: None };
    JobOutcome { event, output_text, messages, summary: None }
}
