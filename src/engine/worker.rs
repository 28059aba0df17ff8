//! One worker: [`Worker::tick`] claims a job, drives it and leaves it finished or given back. Owns no thread (see
//! `pool`); refuses to let go of a lease that the store would still take back. What the store cannot write at all stays
//! leased until the next start, which counts a crash: three make the job poison (P4).

use super::driver::{Drive, Driver};
use super::progress::Progress;
use super::setup::{DriveLimits, Ports};
use super::turn::Turn;
use crate::domain::event::{Event, FailureCode};
use crate::domain::id::JobId;
use crate::domain::job::JobOutcome;
use crate::ports::{CancelToken, Lease, Measurement, StoreError, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

pub use super::held::Held;

/// Pause after the store failed, before it is asked again.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// Attempts to read a job's log and history before it counts as unreadable.
const READ_TRIES: u32 = 5;

/// What clients read when the server itself is at fault.
const FAULT: &str = "an internal fault ended the job; the server's log has details";

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

/// A worker that has a job, as others see it; over when this is dropped, however that comes about.
struct Busy<'a> {
    worker: &'a Worker,
    lease: &'a Lease,
    progress: Arc<Progress>,
}

impl<'a> Busy<'a> {
    fn begin(worker: &'a Worker, lease: &'a Lease) -> Self {
        let progress = worker.held.insert(lease, &worker.ports.clock);
        worker.ports.meter.record(Measurement::WorkerBusy);
        Self { worker, lease, progress }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.worker.ports.meter.record(Measurement::WorkerFree);
        self.worker.held.remove(self.lease);
    }
}

/// A worker's hands.
pub struct Worker {
    ports: Ports,
    limits: DriveLimits,
    draining: CancelToken,
    held: Held,
}

impl Worker {
    /// A worker that releases at the next step boundary once `draining` is raised.
    pub fn new(ports: Ports, limits: DriveLimits, draining: CancelToken, held: Held) -> Self {
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
        // Whatever is logged on the way is about this job.
        let _about = tracing::error_span!("job", %job, attempt = lease.job.attempt).entered();
        tracing::debug!(
            model = lease.spec.model,
            conversation = lease.spec.conversation_id.as_ref().map(tracing::field::display),
            "job started"
        );
        let busy = Busy::begin(self, &lease);
        match self.work(&lease, &busy.progress) {
            Ok(drive) => Tick::Drove(job, drive),
            Err(error) => Tick::Stumbled(error),
        }
    }

    fn work(&self, lease: &Lease, progress: &Arc<Progress>) -> Result<Drive, StoreError> {
        let job = lease.job.id;
        match catch_unwind(AssertUnwindSafe(|| self.open(lease)?.watched(progress, self.held.ends()).run())) {
            Ok(Ok(drive)) => Ok(drive),
            Ok(Err(StoreError::Fenced { .. })) => Ok(Drive::Abandoned),
            Ok(Err(StoreError::Closed)) => Err(StoreError::Closed),
            // This value's own fault: another run would fail on it, too.
            Ok(Err(error @ StoreError::Corrupt(_))) => {
                tracing::error!(%job, %error, "the store cannot keep a running job; it fails");
                self.fail(lease)
            }
            // A disk that is full or broken hits all jobs alike and may be mended.
            Ok(Err(error)) => {
                tracing::error!(%job, %error, "the store failed under a running job; it goes back to the queue");
                self.give_back(lease)
            }
            Err(_panic) => {
                tracing::error!(%job, "a worker panicked; its job fails");
                self.fail(lease)
            }
        }
    }

    /// Reads what the job has come to. A read that fails is repeated under the same lease, so that it costs no claim and
    /// no event; what cannot be read time and again while the store does take writes counts as corrupt.
    fn open<'a>(&'a self, lease: &'a Lease) -> Result<Driver<'a>, StoreError> {
        for _ in 1..READ_TRIES {
            match Driver::new(&self.ports, &self.limits, lease, &self.draining) {
                Err(StoreError::Io(_)) if lease.cancel.reason().is_none() => {
                    self.ports.clock.sleep(&lease.cancel, STORE_PAUSE);
                    self.ports.store.probe().wait()?;
                }
                outcome => return outcome,
            }
        }
        Driver::new(&self.ports, &self.limits, lease, &self.draining).map_err(|error| match error {
            StoreError::Io(reason) if lease.cancel.reason().is_none() => StoreError::Corrupt(reason),
            other => other,
        })
    }

    /// Puts the job back into the queue as it stands.
    fn give_back(&self, lease: &Lease) -> Result<Drive, StoreError> {
        self.ports.clock.sleep(&self.draining, STORE_PAUSE);
        self.insist(lease, Drive::Released, || self.ports.store.release(lease.fence()))
    }

    /// Ends the job, with what it has come to where that can still be told.
    fn fail(&self, lease: &Lease) -> Result<Drive, StoreError> {
        let finish = |ending: &JobOutcome| {
            self.insist(lease, Drive::Finished, || {
                self.ports.store.finish(lease.fence(), Vec::new(), ending.clone())
            })
        };
        let event = || Event::Error { content: FAULT.to_owned(), code: FailureCode::Internal };
        let told = catch_unwind(AssertUnwindSafe(|| {
            let turn = Turn::fold(&self.ports.store.log(lease.job.id).ok()?);
            Some(JobOutcome {
                event: event(),
                output_text: turn.answer(),
                messages: turn.closing_messages(),
                summary: None,
            })
        }));
        let told = told.ok().flatten();
        let bare =
            JobOutcome { event: event(), output_text: String::new(), messages: Vec::new(), summary: None };
        match told.as_ref().map(finish) {
            None | Some(Err(StoreError::Corrupt(_))) => finish(&bare),
            Some(outcome) => outcome,
        }
    }

    /// Writes until the store takes it: a lease that stays would be a job that never ends (P4). Gives up on what no
    /// patience mends: a value that cannot be written, a closed store, a server that stops.
    fn insist(
        &self,
        lease: &Lease,
        done: Drive,
        write: impl Fn() -> Ticket<()>,
    ) -> Result<Drive, StoreError> {
        loop {
            let job = lease.job.id;
            match write().wait() {
                Ok(()) => return Ok(done),
                Err(StoreError::Fenced { .. }) => return Ok(Drive::Abandoned),
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(%job, %error, "the store cannot write this job's end; its lease stays");
                    return Err(error);
                }
                Err(error) if error == StoreError::Closed || self.draining.reason().is_some() => {
                    return Err(error);
                }
                Err(error) => tracing::warn!(%job, %error, "the store does not let go of a job yet"),
            }
            self.ports.clock.sleep(&self.draining, STORE_PAUSE);
        }
    }
}
