//! Leases ready jobs. The attempt is counted, durably, before any work: but for a job that is accepted by the
//! same commit. A crash loses such a job with its acceptance, which no client has heard of.

use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::{CancelToken, Lease, StoreError};
use crate::store::redb::codec::keys::jobs::ReadyEntry;
use crate::store::redb::writer::transaction::{ClaimableJob, Transaction};
use crate::store::rows::lease::{ClaimedLeases, LeasedJob};
use std::sync::Arc;

impl Transaction<'_> {
    /// Leases up to `max` ready jobs.
    pub(crate) fn claim_jobs(&mut self, max: usize) -> Result<ClaimedLeases, StoreError> {
        self.admit_due()?;
        let mut leases = ClaimedLeases::default();
        while leases.len() < max {
            let Some(ReadyEntry { job, since_ms }) = self.take_ready()? else { break };
            let is_fresh = self.fresh_jobs.contains_key(&job);
            match self.prepare(job) {
                Ok((row, ..)) if self.hold_overdue(&row)? => {}
                Ok(ready) => {
                    self.effects.metrics.claim(self.now_ms.saturating_sub(since_ms));
                    let lease = self.lease_out(ready)?;
                    let is_early = is_fresh && lease.spec.is_self_contained();
                    if is_early { leases.early.push(lease) } else { leases.committed.push(lease) }
                }
                Err(StoreError::Corrupt(reason)) => self.quarantine(job, &reason)?,
                Err(error) => return Err(error),
            }
        }
        Ok(leases)
    }

    /// Reads the data of a lease. Writes nothing yet.
    fn prepare(&mut self, job: JobId) -> Result<ClaimableJob, StoreError> {
        if let Some(fresh) = self.fresh_jobs.remove(&job) {
            return Ok(fresh);
        }
        let row = self.row(job)?;
        if !row.job.status.may_become(JobStatus::Running) {
            return Err(StoreError::Corrupt(format!("{job} is {} in the queue", row.job.status.as_str())));
        }
        Ok((row, Arc::new(self.spec(job)?), self.tables.tail(job)?))
    }

    fn lease_out(&mut self, (mut row, spec, mut tail): ClaimableJob) -> Result<Lease, StoreError> {
        let event = row.begin_run(self.now_ms);
        self.tables.append_event(row.id(), &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.move_row(&mut row, JobStatus::Running)?;
        let cancel = CancelToken::new(Arc::clone(self.clock));
        let lease = Lease {
            job: row.job.clone(),
            spec: Arc::clone(&spec),
            cancel: cancel.clone(),
            is_in_memory: false,
        };
        self.keep(LeasedJob { row: Arc::new(row), spec, cancel, tail });
        Ok(lease)
    }
}
