//! Requests for approvals that were handed to a client: the answer to one counts once, in the transaction of
//! the job that acts on it. So no second request, at the same time or after a restart, runs the call again
//! (P3).

use crate::domain::handed_approvals::ApprovalRequestRef;
use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::domain::response_request::response_id;
use crate::ports::{NewJob, StoreError, SubmitError};
use crate::store::redb::codec::keys::jobs::{AnsweredApprovalBytes, answered_approval_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::approval::answered_requests;

impl Transaction<'_> {
    /// Refuses jobs that act on a request for an approval which an earlier job has acted on.
    pub(crate) fn refuse_second_answers(&self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        for request in jobs.iter().flat_map(|job| answered_requests(&job.spec)) {
            if let Some(by) = self.tables.answered_approvals.get(&key(request))? {
                let response = response_id(JobId::from_bytes(*by.value()));
                return Err(SubmitError::ApprovalAnswered { response });
            }
        }
        Ok(())
    }

    /// Notes the requests that a new job acts on.
    pub(crate) fn note_answers(&mut self, job: JobId, spec: &JobSpec) -> Result<(), StoreError> {
        for request in answered_requests(spec) {
            self.tables.answered_approvals.insert(&key(request), &job.to_bytes())?;
        }
        Ok(())
    }

    /// Forgets the answers to a removed job's requests: nobody can name these any more.
    pub(crate) fn forget_answers(&mut self, asked: JobId) -> Result<(), StoreError> {
        let (first, last) = (answered_approval_key(asked, u64::MIN), answered_approval_key(asked, u64::MAX));
        self.tables.answered_approvals.retain_in::<&AnsweredApprovalBytes>(&first..=&last, |_, _| false)
    }
}

fn key(ApprovalRequestRef { job, place }: ApprovalRequestRef) -> AnsweredApprovalBytes {
    answered_approval_key(job, place)
}
