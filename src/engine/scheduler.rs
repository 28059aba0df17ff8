//! Makes jobs of due schedules, continues batches that waited for a quota, expires others, and ends jobs
//! whose time has passed or whose predecessor has failed.
//! [`Scheduler::tick`] runs on one thread, which also runs the stall detector. When the wall clock goes back,
//! the next runs are computed again.

use super::stall_detector::StallDetector;
use crate::domain::id::{IdGenerator, JobId};
use crate::domain::schedule::CLOCK_SLACK_MS;
use crate::ports::{Batches, CancelReason, CancelToken, Clock, Entropy, Schedules, Store, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Occurrences that become jobs in one transaction.
const BATCH: usize = 64;

/// The longest sleep: new schedules and changes of the clock are noticed within it.
const MAX_SLEEP: Duration = Duration::from_millis(500);

/// Pause between two checks whether waiting batches may continue, and whether others expire, milliseconds.
const BATCH_INTERVAL_MS: u64 = 5_000;

/// Most batches that expire in one tick.
const EXPIRED: usize = 16;

/// Most transactions that end jobs in one tick.
const ENDS: usize = 16;

/// Pause after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The ports of a scheduler.
#[derive(Clone)]
pub struct SchedulerPorts {
    /// The stored schedules.
    pub schedules: Arc<dyn Schedules>,
    /// The stored batches.
    pub batches: Arc<dyn Batches>,
    /// The stored jobs.
    pub jobs: Arc<dyn Store>,
    /// Wall and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for job ids.
    pub entropy: Arc<dyn Entropy>,
}

/// The result of one tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerTick {
    /// Occurrences that became jobs.
    pub fired: usize,
    /// How long to sleep before the next tick.
    pub sleep: Duration,
}

#[derive(Debug, Clone, Copy)]
struct ClockTimes {
    wall_ms: u64,
    monotonic_ms: u64,
}

/// Makes jobs of due schedules.
pub struct Scheduler {
    ports: SchedulerPorts,
    ids: IdGenerator,
    /// `None` before the first tick: the clock may have changed while the server was down.
    last_tick: Option<ClockTimes>,
    is_blocked: bool,
    /// When batches are checked next, by the monotonic clock; `None`: now.
    next_check_ms: Option<u64>,
}

impl Scheduler {
    /// A scheduler that computes all next runs again at its first tick.
    pub fn new(ports: SchedulerPorts) -> Self {
        Self { ports, ids: IdGenerator::default(), last_tick: None, is_blocked: false, next_check_ms: None }
    }

    /// Computes next runs again if the clock went back, then makes jobs of at most a batch of due schedules.
    pub fn tick(&mut self) -> Result<SchedulerTick, StoreError> {
        let clock = &self.ports.clock;
        let now = ClockTimes { wall_ms: clock.now_ms(), monotonic_ms: clock.monotonic_ms() };
        if self.last_tick.is_none_or(|before| went_back(before, now)) {
            let rearmed = self.ports.schedules.rearm().wait()?;
            if rearmed > 0 {
                tracing::warn!(
                    schedules = rearmed,
                    "clock went back; next runs of schedules that it had put off are computed again"
                );
            }
        }
        self.last_tick = Some(now);
        self.check_batches(now.monotonic_ms)?;
        let has_more_ends = self.end_jobs()?;
        let fired = match self.ports.schedules.next_run_ms()? {
            Some(due_ms) if due_ms <= now.wall_ms => self.fire(now.wall_ms)?,
            _ => 0,
        };
        let sleep = if fired == BATCH || has_more_ends { Duration::ZERO } else { self.time_to_next()? };
        Ok(SchedulerTick { fired, sleep })
    }

    fn check_batches(&mut self, now_ms: u64) -> Result<(), StoreError> {
        if self.next_check_ms.is_none_or(|next_ms| next_ms <= now_ms) {
            // Those that expire start no further line.
            let has_more = self.expire_batches()? | self.ports.batches.resume_waiting().wait()?;
            self.next_check_ms = (!has_more).then(|| now_ms.saturating_add(BATCH_INTERVAL_MS));
        }
        Ok(())
    }

    /// Expires some batches. Returns whether there may be more.
    fn expire_batches(&self) -> Result<bool, StoreError> {
        for _ in 0..EXPIRED {
            if !self.ports.batches.expire_due().wait()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends some jobs. Returns whether there may be more.
    fn end_jobs(&self) -> Result<bool, StoreError> {
        for _ in 0..ENDS {
            if !self.ports.jobs.end_due().wait()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fire(&mut self, now_ms: u64) -> Result<usize, StoreError> {
        let new_id = |_| JobId::from_bits(self.ids.mint(now_ms, self.ports.entropy.random()));
        let fired = self.ports.schedules.fire_due((0..BATCH).map(new_id).collect()).wait()?;
        for (schedule, job) in &fired.jobs {
            tracing::debug!(%schedule, %job, "schedule fired");
        }
        for schedule in &fired.skipped {
            tracing::info!(%schedule, "occurrence skipped: daily tokens spent, or last job unfinished");
        }
        for (schedule, refusal) in &fired.over_quota {
            tracing::info!(%schedule, %refusal, "occurrences are skipped: a quota is used up");
        }
        if fired.is_blocked && !self.is_blocked {
            tracing::warn!("queue or disk full; due schedules wait");
        }
        self.is_blocked = fired.is_blocked;
        Ok(fired.jobs.len())
    }

    fn time_to_next(&self) -> Result<Duration, StoreError> {
        if self.is_blocked {
            return Ok(MAX_SLEEP);
        }
        let next = self.ports.schedules.next_run_ms()?;
        let delay_ms = next.map(|due_ms| due_ms.saturating_sub(self.ports.clock.now_ms()));
        // At least 1 ms: a due schedule that cannot fire must not become a busy loop.
        Ok(delay_ms.map_or(MAX_SLEEP, |ms| Duration::from_millis(ms.max(1)).min(MAX_SLEEP)))
    }
}

/// Whether the wall clock has fallen behind the monotonic clock.
fn went_back(before: ClockTimes, now: ClockTimes) -> bool {
    let elapsed_ms = now.monotonic_ms.saturating_sub(before.monotonic_ms);
    now.wall_ms.saturating_add(CLOCK_SLACK_MS) < before.wall_ms.saturating_add(elapsed_ms)
}

/// The thread of a scheduler and a stall detector.
pub struct SchedulerThread {
    cancel: CancelToken,
    thread: JoinHandle<()>,
}

impl SchedulerThread {
    /// Starts the thread.
    pub fn start(ports: SchedulerPorts, mut detector: StallDetector) -> std::io::Result<Self> {
        let cancel = CancelToken::new(Arc::clone(&ports.clock));
        let token = cancel.clone();
        let thread = std::thread::Builder::new()
            .name("scheduler".to_owned())
            .spawn(move || run(&ports, &mut detector, &token))?;
        Ok(Self { cancel, thread })
    }

    /// Ends the thread; due schedules stay due for the next start.
    pub fn end(self) {
        self.cancel.cancel(CancelReason::Shutdown);
        if self.thread.join().is_err() {
            tracing::error!("scheduler thread panicked");
        }
    }
}

fn run(ports: &SchedulerPorts, detector: &mut StallDetector, cancel: &CancelToken) {
    let mut scheduler = Scheduler::new(ports.clone());
    while cancel.reason().is_none() {
        if catch_unwind(AssertUnwindSafe(|| detector.log_changes())).is_err() {
            tracing::error!("stall detector panicked; continuing");
        }
        let sleep = match catch_unwind(AssertUnwindSafe(|| scheduler.tick())) {
            Ok(Ok(tick)) => tick.sleep,
            Ok(Err(StoreError::Closed)) => return,
            Ok(Err(error)) => {
                tracing::warn!(%error, "scheduler failed; retrying");
                STORE_RETRY_DELAY
            }
            Err(_panic) => {
                tracing::error!("scheduler panicked; continuing");
                STORE_RETRY_DELAY
            }
        };
        ports.clock.sleep(cancel, sleep);
    }
}
