//! What the conditions of a job mean for its row: the jobs that it waits for, and when the store ends it.

use crate::domain::event::FailureCode;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::domain::job_conditions::OnFailure;
use crate::domain::job_wait::JobWait;
use crate::store::rows::job::JobRow;

/// Pause between two looks at a job that runs after its deadline: its worker ends it, or is lost,
/// milliseconds.
pub(crate) const OVERDUE_CHECK_MS: u64 = 5_000;

impl JobRow {
    /// Notes how the jobs stand that it comes after. A deleted one has ended, and has not failed.
    pub(crate) fn wait_after(&mut self, predecessors: impl IntoIterator<Item = (JobId, JobStatus)>) {
        self.blocked_by = Vec::new();
        self.failed_predecessor = None;
        for (job, status) in predecessors {
            if status.is_terminal() {
                self.note_end(job, status == JobStatus::Succeeded);
            } else {
                self.blocked_by.push(job);
            }
        }
        if self.failed_predecessor.is_some() {
            self.blocked_by.clear();
        }
    }

    /// A job that it waits for has ended. It may stand in no queue meanwhile.
    pub(crate) fn unblock(&mut self, ended: JobId, has_succeeded: bool) {
        self.blocked_by.retain(|job| *job != ended);
        self.note_end(ended, has_succeeded);
    }

    fn note_end(&mut self, ended: JobId, has_succeeded: bool) {
        if !has_succeeded && self.job.conditions.on_failure == OnFailure::Fail {
            self.failed_predecessor.get_or_insert(ended);
        }
    }

    /// It waits for nothing any more: it has ended.
    pub(crate) fn forget_predecessors(&mut self) {
        self.blocked_by = Vec::new();
        self.failed_predecessor = None;
    }

    /// Whether it may not run: it waits for others, or for its end after one has failed.
    pub(crate) fn is_held(&self) -> bool {
        !self.blocked_by.is_empty() || self.failed_predecessor.is_some()
    }

    /// The wait of a held job.
    pub(crate) fn predecessor_wait(&self) -> JobWait {
        JobWait::after(self.blocked_by.first().copied().or(self.failed_predecessor))
    }

    /// When the store looks whether it has to end, unix milliseconds; 0: at once, whatever the clock says.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        if self.failed_predecessor.is_some() {
            return Some(0);
        }
        self.expires_at_ms().into_iter().chain(self.job.conditions.deadline_ms).min()
    }

    fn expires_at_ms(&self) -> Option<u64> {
        self.job.conditions.expires_at_ms.filter(|_| self.job.started_at_ms.is_none())
    }

    /// Why it has to end now; `None`: it need not.
    pub(crate) fn due_end(&self, now_ms: u64) -> Option<(FailureCode, String)> {
        let has_passed = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if let Some(job) = self.failed_predecessor {
            let content = format!("{job} did not succeed, and this job comes after it (on_failure: fail)");
            return Some((FailureCode::DependencyFailed, content));
        }
        if has_passed(self.expires_at_ms()) {
            return Some((FailureCode::Expired, EXPIRED.to_owned()));
        }
        has_passed(self.job.conditions.deadline_ms)
            .then(|| (FailureCode::DeadlineExceeded, DEADLINE_EXCEEDED.to_owned()))
    }
}

/// The error text of a job that did not start in time.
const EXPIRED: &str = "the job had not started by its expires_at";

/// The error text of a job that did not end in time.
const DEADLINE_EXCEEDED: &str = "the job had not ended by its deadline_at";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::domain::job::{Job, JobSpec};
    use crate::domain::job_conditions::JobConditions;
    use crate::store::rows::job::HELD_UNTIL_MS;

    fn row(conditions: JobConditions) -> JobRow {
        let spec = JobSpec { conditions, ..JobSpec::new("demo".to_owned(), Vec::new(), 1, 1) };
        JobRow::new(Job::queued(JobId::from_bits(9), UserId(1), 0, &spec), 1)
    }

    fn id(bits: u128) -> JobId {
        JobId::from_bits(bits)
    }

    #[test]
    fn a_job_is_held_until_the_last_of_its_predecessors_has_ended() {
        let mut row = row(JobConditions::default());
        row.wait_after([
            (id(1), JobStatus::Running),
            (id(2), JobStatus::Succeeded),
            (id(3), JobStatus::Queued),
        ]);
        assert_eq!(
            (row.blocked_by.as_slice(), row.due_ms()),
            ([id(1), id(3)].as_slice(), Some(HELD_UNTIL_MS))
        );
        row.unblock(id(1), true);
        assert!(row.is_held());
        row.unblock(id(3), true);
        assert_eq!((row.is_held(), row.due_ms(), row.due_end(u64::MAX)), (false, None, None));
    }

    #[test]
    fn a_failed_predecessor_ends_the_job_at_once_unless_it_shall_run() {
        for (on_failure, code) in
            [(OnFailure::Fail, Some(FailureCode::DependencyFailed)), (OnFailure::Run, None)]
        {
            let conditions = || JobConditions { on_failure, ..JobConditions::default() };
            let (mut before, mut later) = (row(conditions()), row(conditions()));
            before.wait_after([(id(1), JobStatus::Failed), (id(2), JobStatus::Cancelled)]);
            later.wait_after([(id(1), JobStatus::Waiting)]);
            later.unblock(id(1), false);
            for row in [before, later] {
                assert_eq!((row.is_held(), row.due_end(0).map(|(code, _)| code)), (code.is_some(), code));
                assert_eq!(row.ends_at_ms(), code.map(|_| 0));
            }
        }
    }

    #[test]
    fn a_job_that_has_started_does_not_expire_and_keeps_its_deadline() {
        let conditions =
            JobConditions { deadline_ms: Some(20), expires_at_ms: Some(10), ..JobConditions::default() };
        let mut row = row(conditions);
        let code = |row: &JobRow, now_ms| row.due_end(now_ms).map(|(code, _)| code);
        assert_eq!((row.ends_at_ms(), code(&row, 9)), (Some(10), None));
        assert_eq!(code(&row, 10), Some(FailureCode::Expired));
        row.job.started_at_ms = Some(5);
        assert_eq!((row.ends_at_ms(), code(&row, 19)), (Some(20), None));
        assert_eq!(code(&row, 20), Some(FailureCode::DeadlineExceeded));
    }
}
