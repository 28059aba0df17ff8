//! The worker threads: start, drain, join.

use super::active_leases::ActiveLeases;
use super::setup::{EngineLimits, EnginePorts};
use super::stall_detector::StallDetector;
use super::worker::{Worker, WorkerTick};
use crate::ports::{CancelReason, CancelToken, PartFault, ReadinessProbe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest wait for a job, after which a worker claims anew.
const IDLE_WAIT: Duration = Duration::from_secs(5);

/// Pause after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Stack of a worker, bytes: the deepest path is JSON validation inside a tool call.
const STACK_BYTES: usize = 1024 * 1024;

/// The pool's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start worker thread {number}: {source}")]
pub struct WorkerPoolError {
    /// Counted from 1.
    number: usize,
    source: std::io::Error,
}

/// The running workers.
pub struct WorkerPool {
    ports: EnginePorts,
    draining: CancelToken,
    leases: ActiveLeases,
    alive: Arc<AtomicUsize>,
    is_started: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Spawns `workers` threads and lets them claim jobs.
    pub fn start(
        workers: usize,
        ports: &EnginePorts,
        limits: &EngineLimits,
    ) -> Result<Self, WorkerPoolError> {
        let pool = Self::spawn(workers, ports, limits)?;
        pool.begin();
        Ok(pool)
    }

    /// Lets the workers claim jobs. Cannot fail.
    pub fn begin(&self) {
        self.is_started.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        for thread in &self.threads {
            thread.thread().unpark();
        }
    }

    /// Spawns `workers` threads, which claim nothing before [`WorkerPool::begin`]: a start that fails must
    /// not cut off a claimed job.
    pub fn spawn(
        workers: usize,
        ports: &EnginePorts,
        limits: &EngineLimits,
    ) -> Result<Self, WorkerPoolError> {
        let (draining, leases) = (CancelToken::new(Arc::clone(&ports.clock)), ActiveLeases::default());
        let (alive, is_started) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut threads = Vec::with_capacity(workers);
        for number in 1..=workers {
            let worker = Worker::new(ports.clone(), limits.clone(), draining.clone(), leases.clone());
            let (ports, draining, alive) = (ports.clone(), draining.clone(), AliveGuard::enter(&alive));
            let is_started = Arc::clone(&is_started);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let _alive = alive;
                    while !is_started.load(Ordering::Acquire) && !draining.is_cancelled() {
                        std::thread::park();
                    }
                    run(&worker, &ports, &draining);
                })
                .map_err(|source| WorkerPoolError { number, source })?;
            threads.push(thread);
        }
        Ok(Self { ports: ports.clone(), draining, leases, alive, is_started, threads })
    }

    /// A probe that fails when a worker thread has died.
    pub fn probe(&self) -> impl ReadinessProbe + use<> {
        WorkersProbe { alive: Arc::clone(&self.alive), expected: self.threads.len() }
    }

    /// A detector for its running jobs; a job whose log has not grown for `stalled_after_s` is stalled.
    pub fn stall_detector(&self, stalled_after_s: u64) -> StallDetector {
        StallDetector::new(self.leases.clone(), Arc::clone(&self.ports.clock), stalled_after_s)
    }

    /// Stops claiming, lets running jobs reach a step boundary for up to `timeout`, then cancels their
    /// leases.
    pub fn drain(self, timeout: Duration) {
        self.draining.cancel(CancelReason::Shutdown);
        self.wake();
        let grace = CancelToken::new(Arc::clone(&self.ports.clock)).with_timeout(timeout);
        while self.leases.count() > 0 && !grace.is_cancelled() {
            grace.sleep(Duration::from_millis(20));
        }
        self.leases.cancel_all(CancelReason::Shutdown);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("worker thread panicked");
            }
        }
    }
}

fn run(worker: &Worker, ports: &EnginePorts, draining: &CancelToken) {
    while draining.reason().is_none() || worker.holds_lease() {
        match worker.tick(IDLE_WAIT) {
            WorkerTick::Idle => {}
            WorkerTick::Drove(job, outcome) => tracing::debug!(%job, ?outcome, "worker left job"),
            WorkerTick::StoreFailed(error) => {
                tracing::warn!(%error, "store failed; retrying");
                ports.clock.sleep(draining, STORE_RETRY_DELAY);
            }
        }
    }
}

/// Counts a thread as alive until it ends, also by a panic.
struct AliveGuard(Arc<AtomicUsize>);

impl AliveGuard {
    fn enter(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for AliveGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct WorkersProbe {
    alive: Arc<AtomicUsize>,
    expected: usize,
}

impl ReadinessProbe for WorkersProbe {
    fn name(&self) -> &'static str {
        "workers"
    }

    fn check(&self) -> Result<(), PartFault> {
        let alive = self.alive.load(Ordering::Relaxed);
        if alive == self.expected {
            Ok(())
        } else {
            Err(PartFault::new(format!("{alive} of {} workers live", self.expected), "restart the server"))
        }
    }
}
