//! The worker threads: start, drain, join. Owns the threads and the order of stopping; refuses to know what a job is.

use super::setup::{DriveLimits, Ports};
use super::vigil::Vigil;
use super::worker::{Held, Tick, Worker};
use crate::ports::{CancelReason, CancelToken, ReadinessProbe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an idle worker sleeps at most before it looks again: wake-ups are hints and may be lost.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// Pause after the store failed.
const STUMBLE_WAIT: Duration = Duration::from_millis(200);

/// Stack of a worker, bytes: the deepest path is JSON validation inside a tool call.
const STACK_BYTES: usize = 1024 * 1024;

/// The pool's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start worker thread {number}: {source}")]
pub struct PoolError {
    /// Counted from 1.
    number: usize,
    source: std::io::Error,
}

/// Running workers.
pub struct Pool {
    ports: Ports,
    draining: CancelToken,
    held: Held,
    alive: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `workers` threads; each ticks until the pool drains.
    pub fn start(workers: usize, ports: &Ports, limits: &DriveLimits) -> Result<Self, PoolError> {
        let (draining, held) = (CancelToken::new(Arc::clone(&ports.clock)), Held::default());
        let alive = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::with_capacity(workers);
        for number in 1..=workers {
            let worker = Worker::new(ports.clone(), limits.clone(), draining.clone(), held.clone());
            let (ports, draining, alive) = (ports.clone(), draining.clone(), Alive::enter(&alive));
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let _alive = alive;
                    run(&worker, &ports, &draining);
                })
                .map_err(|source| PoolError { number, source })?;
            threads.push(thread);
        }
        Ok(Self { ports: ports.clone(), draining, held, alive, threads })
    }

    /// Whether all workers live.
    pub fn probe(&self) -> impl ReadinessProbe + use<> {
        WorkersProbe { alive: Arc::clone(&self.alive), wanted: self.threads.len() }
    }

    /// Who looks after its running jobs; a log that has not grown for `stuck_after_s` is a standstill.
    pub fn vigil(&self, stuck_after_s: u64) -> Vigil {
        Vigil::new(self.held.clone(), Arc::clone(&self.ports.clock), stuck_after_s)
    }

    /// Stops claiming, lets running jobs reach a step boundary for up to `patience`, then pulls their leases.
    pub fn drain(self, patience: Duration) {
        self.draining.cancel(CancelReason::Shutdown);
        let deadline_ms = self
            .ports
            .clock
            .monotonic_ms()
            .saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        let never = CancelToken::new(Arc::clone(&self.ports.clock));
        while self.held.count() > 0 && self.ports.clock.monotonic_ms() < deadline_ms {
            self.ports.clock.sleep(&never, Duration::from_millis(20));
        }
        self.held.raise_all(CancelReason::Shutdown);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker thread had panicked");
            }
        }
    }
}

fn run(worker: &Worker, ports: &Ports, draining: &CancelToken) {
    while draining.reason().is_none() {
        match worker.tick() {
            Tick::Idle => ports.store.wait_for_work(draining, IDLE_WAIT),
            Tick::Drove(job, drive) => tracing::debug!(%job, ?drive, "job left"),
            Tick::Stumbled(error) => {
                tracing::warn!(%error, "the store failed; trying again");
                ports.clock.sleep(draining, STUMBLE_WAIT);
            }
        }
    }
}

/// Counts a thread for as long as it lives, panics included.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn enter(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct WorkersProbe {
    alive: Arc<AtomicUsize>,
    wanted: usize,
}

impl ReadinessProbe for WorkersProbe {
    fn name(&self) -> &'static str {
        "workers"
    }

    fn check(&self) -> Result<(), String> {
        let alive = self.alive.load(Ordering::Relaxed);
        if alive == self.wanted {
            Ok(())
        } else {
            Err(format!("{alive} of {} workers live; restart the server", self.wanted))
        }
    }
}
