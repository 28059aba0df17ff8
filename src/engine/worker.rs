//! Claims and runs one job at a time. A lease lasts until the store has accepted the job's end or release.
//! If the store cannot write either, the lease stays until the next start, which counts a crash (P4).

use super::active_leases::{ActiveLeases, NextLease};
use super::driver::{DriveOutcome, Driver};
use super::run_progress::RunProgress;
use super::setup::{EngineLimits, EnginePorts};
use super::turn::TurnState;
use crate::domain::event::{Event, FailureCode};
use crate::domain::id::JobId;
use crate::domain::job::JobOutcome;
use crate::ports::{CancelToken, Lease, LeaseError, Measurement, StoreError, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Pause before a failed store operation is repeated.
const STORE_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Attempts to read a job's log and history before it counts as unreadable.
const READ_ATTEMPTS: u32 = 5;

/// The error text for clients when the server itself is at fault.
const INTERNAL_ERROR: &str = "an internal fault ended the job; the server's log has details";

/// The result of one tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerTick {
    /// There was nothing to claim.
    Idle,
    /// A job was worked on.
    Drove(JobId, DriveOutcome),
    /// The store failed.
    StoreFailed(StoreError),
}

/// Lists the lease as active and counts the worker as busy until it is dropped.
struct BusyWorker<'a> {
    worker: &'a Worker,
    lease: &'a Lease,
    progress: Arc<RunProgress>,
}

impl<'a> BusyWorker<'a> {
    fn begin(worker: &'a Worker, lease: &'a Lease) -> Self {
        let progress = worker.leases.insert(lease, &worker.ports.clock);
        worker.ports.meter.record(Measurement::WorkerBusy);
        Self { worker, lease, progress }
    }
}

impl Drop for BusyWorker<'_> {
    fn drop(&mut self) {
        self.worker.ports.meter.record(Measurement::WorkerFree);
        self.worker.leases.remove(self.lease);
    }
}

/// Claims and runs one job at a time.
pub struct Worker {
    ports: EnginePorts,
    limits: EngineLimits,
    draining: CancelToken,
    leases: ActiveLeases,
    next_lease: NextLease,
}

impl Worker {
    /// A worker that releases its job at the next step boundary once `draining` is cancelled.
    pub fn new(
        ports: EnginePorts,
        limits: EngineLimits,
        draining: CancelToken,
        leases: ActiveLeases,
    ) -> Self {
        Self { ports, limits, draining, leases, next_lease: NextLease::default() }
    }

    /// Whether the end of the last job brought the lease of the next one. Such a worker needs another tick,
    /// also while it drains: that releases the lease.
    pub fn holds_lease(&self) -> bool {
        self.next_lease.is_held()
    }

    /// Works on the job that it holds. Holds it none, it claims at most one, for which it waits up to
    /// `max_wait` or until the workers drain. Ends when the job ends, is released, or its lease is lost:
    /// 1. claim (the attempt is counted, durably); 2. fold the log; 3. take steps; 4. finish or release. An
    ///    end brings the lease of the next ready job.
    pub fn tick(&self, max_wait: Duration) -> WorkerTick {
        let claim = || self.ports.store.claim_next(&self.draining, max_wait);
        let lease = match self.next_lease.take().map_or_else(claim, |lease| Ok(Some(lease))) {
            Ok(Some(lease)) => lease,
            Ok(None) => return WorkerTick::Idle,
            Err(error) => return WorkerTick::StoreFailed(error),
        };
        let job = lease.job.id;
        let _span = tracing::error_span!("job", %job, attempt = lease.job.attempt).entered();
        tracing::debug!(
            model = lease.spec.model,
            conversation = lease.spec.conversation_id.as_ref().map(tracing::field::display),
            "job started"
        );
        let busy = BusyWorker::begin(self, &lease);
        match self.work(&lease, &busy.progress) {
            Ok(drive) => WorkerTick::Drove(job, drive),
            Err(error) => WorkerTick::StoreFailed(error),
        }
    }

    fn work(&self, lease: &Lease, progress: &Arc<RunProgress>) -> Result<DriveOutcome, StoreError> {
        let job = lease.job.id;
        let run = || -> Result<DriveOutcome, LeaseError> {
            let driver = self.open(lease)?.observed(progress, self.leases.end_log_limit());
            driver.claiming_next(&self.next_lease).run()
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(LeaseError::Fenced { .. })) => Ok(DriveOutcome::Abandoned),
            Ok(Err(LeaseError::Store(StoreError::Closed))) => Err(StoreError::Closed),
            // Another run of this job would fail in the same way.
            Ok(Err(LeaseError::Store(error @ StoreError::Corrupt(_)))) => {
                tracing::error!(%job, %error, "corrupt job data; job fails");
                self.fail(lease)
            }
            // A full or broken disk affects all jobs and may recover.
            Ok(Err(LeaseError::Store(error))) => {
                tracing::error!(%job, %error, "store failed under a running job; releasing it");
                self.release(lease)
            }
            Err(_panic) => {
                tracing::error!(%job, "worker panicked; its job fails");
                self.fail(lease)
            }
        }
    }

    /// Reads the job's log and history. A failed read is repeated under the same lease, so it costs no
    /// attempt. Data that stays unreadable while the store takes writes counts as corrupt.
    fn open<'a>(&'a self, lease: &'a Lease) -> Result<Driver<'a>, StoreError> {
        for _ in 1..READ_ATTEMPTS {
            match Driver::new(&self.ports, &self.limits, lease, &self.draining) {
                Err(StoreError::Io(_) | StoreError::Recovering | StoreError::Unreachable)
                    if lease.cancel.reason().is_none() =>
                {
                    self.ports.clock.sleep(&lease.cancel, STORE_RETRY_DELAY);
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

    /// Puts the job back into the queue.
    fn release(&self, lease: &Lease) -> Result<DriveOutcome, StoreError> {
        self.ports.clock.sleep(&self.draining, STORE_RETRY_DELAY);
        self.write_until_accepted(lease, DriveOutcome::Released, || self.ports.store.release(lease.fence()))
    }

    /// Ends the job with an internal error, and with its partial answer where the log can still be read.
    fn fail(&self, lease: &Lease) -> Result<DriveOutcome, StoreError> {
        let finish = |ending: &JobOutcome| {
            self.write_until_accepted(lease, DriveOutcome::Finished, || {
                self.ports.store.finish(lease.fence(), Vec::new(), ending.clone())
            })
        };
        let event = || Event::Error {
            content: INTERNAL_ERROR.to_owned(),
            code: FailureCode::Internal,
            retry_after_ms: None,
        };
        let partial = catch_unwind(AssertUnwindSafe(|| {
            let turn = TurnState::fold(&self.ports.store.log(lease.job.id).ok()?);
            Some(JobOutcome {
                event: event(),
                output_text: turn.answer(),
                messages: turn.closing_messages(),
                summary: None,
            })
        }));
        let partial = partial.ok().flatten();
        let without_answer =
            JobOutcome { event: event(), output_text: String::new(), messages: Vec::new(), summary: None };
        match partial.as_ref().map(finish) {
            None | Some(Err(StoreError::Corrupt(_))) => finish(&without_answer),
            Some(outcome) => outcome,
        }
    }

    /// Repeats a write until the store accepts it: a job whose lease stays would never end (P4).
    /// Gives up on a value that cannot be written, on a closed store and at shutdown.
    fn write_until_accepted(
        &self,
        lease: &Lease,
        outcome: DriveOutcome,
        write: impl Fn() -> Ticket<(), LeaseError>,
    ) -> Result<DriveOutcome, StoreError> {
        loop {
            let job = lease.job.id;
            match write().wait() {
                Ok(()) => return Ok(outcome),
                Err(LeaseError::Fenced { .. }) => return Ok(DriveOutcome::Abandoned),
                Err(LeaseError::Store(error @ StoreError::Corrupt(_))) => {
                    tracing::error!(%job, %error, "cannot write the job's end; its lease stays");
                    return Err(error);
                }
                Err(LeaseError::Store(error))
                    if error == StoreError::Closed || self.draining.reason().is_some() =>
                {
                    return Err(error);
                }
                Err(error) => tracing::warn!(%job, %error, "cannot release the lease; retrying"),
            }
            self.ports.clock.sleep(&self.draining, STORE_RETRY_DELAY);
        }
    }
}
