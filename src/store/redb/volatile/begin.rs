//! Begins jobs in memory: leases one to a waiting worker without a commit, if nothing else waits for it.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::ports::{CancelToken, Lease, NewJob};
use crate::store::redb::store::RedbStore;
use crate::store::redb::volatile::log::VolatileLog;
use crate::store::redb::volatile::table::VolatileJob;
use crate::store::rows::job::JobRow;
use crate::store::waiting_claims::PublishedQueue;
use std::sync::Arc;

/// Whether a job needs nothing of the store while it runs but its log.
fn needs_log_only(spec: &JobSpec) -> bool {
    spec.is_self_contained() && spec.project_id.is_none() && !spec.tools.offers_any()
}

impl RedbStore {
    /// Leases the job to a waiting worker, in memory. Gives it back if it has to be stored first.
    pub(crate) fn lease_in_memory(&self, new: Box<NewJob>) -> Result<Job, Box<NewJob>> {
        let shared = &self.shared;
        if !needs_log_only(&new.spec) || !shared.volatile.is_open() || self.low_disk().is_some() {
            return Err(new);
        }
        let now_ms = shared.clock.now_ms();
        let Some(claim) = shared.claims.take_idle(now_ms, |queue| self.has_place(&new, queue)) else {
            return Err(new);
        };
        let NewJob { id, user, created_at_ms, spec, .. } = *new;
        let mut log = VolatileLog::default();
        let mut status = |status, attempt| {
            log.append(Event::Status { status, attempt, reason: None }.into());
            log.last_seq()
        };
        let mut job = Job::queued(id, user, created_at_ms, &spec);
        job.last_event_id = status(StatusPhase::Queued, 0);
        let accepted = job.clone();
        (job.status, job.attempt, job.epoch) = (JobStatus::Running, 1, 1);
        job.started_at_ms = Some(now_ms);
        job.last_event_id = status(StatusPhase::Running, job.attempt);
        let (spec, cancel) = (Arc::new(spec), CancelToken::new(Arc::clone(&shared.clock)));
        let lease =
            Lease { job: job.clone(), spec: Arc::clone(&spec), cancel: cancel.clone(), is_in_memory: true };
        let row = JobRow::accepted(job, 0, &shared.bounds);
        shared.volatile.insert(VolatileJob::new(row, spec, cancel, log));
        shared.claims.settle(&claim, Ok(lease));
        Ok(accepted)
    }

    /// Whether the limits of the queue and the shares of the workers admit one more job of this user.
    fn has_place(&self, new: &NewJob, queue: &PublishedQueue) -> bool {
        let (bounds, volatile) = (&self.shared.bounds, &self.shared.volatile);
        let count = volatile.count();
        let unfinished = queue.length.unfinished.saturating_add(count as u64);
        let is_admitted = bounds.share.is_none_or(|share| {
            let held = queue.running.of(new.user).saturating_add(volatile.count_of(new.user));
            share.admits(held, queue.running.total().saturating_add(count))
        });
        unfinished < bounds.queue_jobs && is_admitted
    }
}
