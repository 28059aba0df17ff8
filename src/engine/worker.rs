//! One worker: [`Worker::tick`] claims a job, drives it and leaves it finished or given back. Owns no thread (see
//! `pool`); refuses to end a tick with a lease still held.

use super::driver::{Drive, DriveLimits, Driver, Ports};
use super::turn::Turn;
use crate::domain::event::{Event, FailureCode};
use crate::domain::id::JobId;
use crate::domain::job::Ending;
use crate::ports::{Lease, Stop, StopFlag, StoreError};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pause after the store failed, before the lease is given back.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// The leases held right now, so that shutdown can pull them all.
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<Mutex<HashMap<JobId, StopFlag>>>);

impl Held {
    /// Raises `stop` on every lease.
    pub fn raise_all(&self, stop: Stop) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|flag| flag.raise(stop));
    }

    /// Jobs under way.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn insert(&self, lease: &Lease) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lease.job.id, lease.stop.clone());
    }

    fn remove(&self, job: JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
    }
}

/// What one tick did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tick {
    /// There was nothing to claim.
    Idle,
    /// A job was worked on.
    Drove(JobId, Drive),
    /// The store failed; what it said.
    Stumbled(StoreError),
}

/// A worker's hands.
pub struct Worker {
    ports: Ports,
    limits: DriveLimits,
    draining: StopFlag,
    held: Held,
}

impl Worker {
    /// A worker that releases at the next step boundary once `draining` is raised.
    pub fn new(ports: Ports, limits: DriveLimits, draining: StopFlag, held: Held) -> Self {
        Self { ports, limits, draining, held }
    }

    /// Claims at most one job and works on it until it ends, is released, or is lost:
    /// 1. claim (the attempt is counted, durably); 2. fold the log; 3. take steps; 4. finish or release.
    pub fn tick(&self) -> Tick {
        let lease = match self.ports.store.claim(1).wait() {
            Ok(mut leases) => match leases.pop() {
                Some(lease) => lease,
                None => return Tick::Idle,
            },
            Err(error) => return Tick::Stumbled(error),
        };
        let job = lease.job.id;
        self.held.insert(&lease);
        let outcome = self.work(&lease);
        self.held.remove(job);
        match outcome {
            Ok(drive) => Tick::Drove(job, drive),
            Err(error) => Tick::Stumbled(error),
        }
    }

    fn work(&self, lease: &Lease) -> Result<Drive, StoreError> {
        let driven = catch_unwind(AssertUnwindSafe(|| {
            Driver::new(&self.ports, self.limits, lease, &self.draining)?.run()
        }));
        match driven {
            Ok(Ok(drive)) => Ok(drive),
            Ok(Err(StoreError::Fenced { .. })) => Ok(Drive::Abandoned),
            Ok(Err(StoreError::Closed)) => Err(StoreError::Closed),
            Ok(Err(error)) => {
                tracing::error!(job = %lease.job.id, %error, "the store failed under a running job; it goes back to the queue");
                self.give_back(lease)
            }
            Err(_panic) => {
                tracing::error!(job = %lease.job.id, "a worker panicked; its job fails");
                self.fail(lease)
            }
        }
    }

    /// Releases until it works: a lease that stays would be a job that never ends (P4).
    fn give_back(&self, lease: &Lease) -> Result<Drive, StoreError> {
        loop {
            self.ports.clock.pause(&self.draining, STORE_PAUSE);
            match self.ports.store.release(lease.fence()).wait() {
                Ok(()) => return Ok(Drive::Released),
                Err(StoreError::Fenced { .. }) => return Ok(Drive::Abandoned),
                Err(error) if error == StoreError::Closed || self.draining.raised().is_some() => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(job = %lease.job.id, %error, "the lease cannot be given back yet");
                }
            }
        }
    }

    fn fail(&self, lease: &Lease) -> Result<Drive, StoreError> {
        let content = "an internal fault ended the job; the server's log has details".to_owned();
        let turn = self.ports.store.log(lease.job.id).map(|log| Turn::fold(&log)).unwrap_or_default();
        let ending = Ending {
            event: Event::Error { content, code: FailureCode::Internal },
            usage: turn.usage(),
            output_text: turn.answer(),
            messages: turn.closing_messages(),
        };
        match self.ports.store.finish(lease.fence(), Vec::new(), ending).wait() {
            Ok(()) => Ok(Drive::Finished),
            Err(StoreError::Fenced { .. }) => Ok(Drive::Abandoned),
            Err(error) => {
                tracing::error!(job = %lease.job.id, %error, "the failed job cannot be finished; it goes back to the queue");
                self.give_back(lease)
            }
        }
    }
}
