//! Jobs that a model asks for, and what is looked up for them. Owns the bound on how many a user may have unfinished, held
//! in the transaction that stores the job; refuses other users' jobs (P7).

use super::RedbStore;
use super::act::Act;
use super::beside;
use super::once::SubmitOnce;
use super::schema::SPECS;
use super::transaction::Transaction;
use super::value;
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec};
use crate::ports::{BackgroundJobs, Idempotent, NewJob, Store, StoreError, Ticket};

/// This job, unless its key was seen before, or its user has `most` of them already.
struct Spawn {
    once: SubmitOnce,
    most: u64,
}

impl Act for Spawn {
    type Out = Idempotent<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Idempotent<Job>, StoreError> {
        let user = self.once.job.user;
        if transaction.recall(user, &self.once.key)?.is_none() && transaction.count_beside(user)? >= self.most
        {
            return Err(StoreError::SpawnedFull { limit: self.most });
        }
        self.once.apply(transaction)
    }

    fn jobs(&self) -> Vec<JobId> {
        self.once.jobs()
    }

    fn weight(&self) -> usize {
        self.once.weight()
    }
}

impl BackgroundJobs for RedbStore {
    fn spec(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        if self.job(user, job)?.is_none() {
            return Ok(None);
        }
        self.shared.handle.read(|reading| {
            let specs = SPECS.read(reading)?;
            specs.get(&job.to_bytes())?.map(|bytes| value::decode(bytes.value())).transpose()
        })
    }

    fn spawn(&self, job: NewJob, key: IdempotencyKey, most: u64) -> Ticket<Idempotent<Job>> {
        self.offer(Spawn { once: SubmitOnce { job, key }, most })
    }

    fn spawned(&self, user: UserId) -> Result<Vec<Job>, StoreError> {
        self.shared.handle.read(|reading| beside::jobs_of(reading, user, None))
    }
}
