//! Keeping the time for schedules: [`Timekeeper::tick`] looks at the clock and makes jobs of what is due. Owns the one
//! thread that does so and the suspicion that the clock went back; refuses to compute any occurrence (the schedules do).

use super::vigil::Vigil;
use crate::domain::id::{IdGenerator, JobId};
use crate::domain::schedule::CLOCK_SLACK_MS;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy, Schedules, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Occurrences that become jobs in one transaction.
const BATCH: usize = 64;

/// How long the keeper sleeps at most: a new schedule and a clock that was set are noticed no later.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Pause after the store failed.
const STUMBLE_WAIT: Duration = Duration::from_secs(1);

/// What keeping the time needs from outside.
#[derive(Clone)]
pub struct TimePorts {
    /// What is due when.
    pub schedules: Arc<dyn Schedules>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What makes ids unguessable.
    pub entropy: Arc<dyn Entropy>,
}

/// What one tick did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticked {
    /// Occurrences that became jobs.
    pub fired: usize,
    /// Until there may be something to do again.
    pub rest: Duration,
}

/// A look at both clocks.
#[derive(Debug, Clone, Copy)]
struct Seen {
    wall_ms: u64,
    monotonic_ms: u64,
}

/// The keeper's eyes and hands.
pub struct Timekeeper {
    ports: TimePorts,
    mint: IdGenerator,
    /// `None` before the first look: nobody knows what the clock did while the server was down.
    seen: Option<Seen>,
    is_blocked: bool,
}

impl Timekeeper {
    /// A keeper that has not looked yet.
    pub fn new(ports: TimePorts) -> Self {
        Self { ports, mint: IdGenerator::default(), seen: None, is_blocked: false }
    }

    /// Looks once: 1. a clock that went back is made good for; 2. what is due becomes jobs, up to a batch of them.
    pub fn tick(&mut self) -> Result<Ticked, StoreError> {
        let clock = &self.ports.clock;
        let now = Seen { wall_ms: clock.now_ms(), monotonic_ms: clock.monotonic_ms() };
        if self.seen.is_none_or(|before| went_back(before, now)) {
            let rearmed = self.ports.schedules.rearm().wait()?;
            if rearmed > 0 {
                tracing::warn!(schedules = rearmed, "the clock went back; their next runs are computed anew");
            }
        }
        self.seen = Some(now);
        let fired = match self.ports.schedules.next_run_ms()? {
            Some(due_ms) if due_ms <= now.wall_ms => self.fire(now.wall_ms)?,
            _ => 0,
        };
        let rest = if fired == BATCH { Duration::ZERO } else { self.rest()? };
        Ok(Ticked { fired, rest })
    }

    fn fire(&mut self, now_ms: u64) -> Result<usize, StoreError> {
        let fresh = |_| JobId::from_bits(self.mint.mint(now_ms, self.ports.entropy.random()));
        let fired = self.ports.schedules.fire_due((0..BATCH).map(fresh).collect()).wait()?;
        for (schedule, job) in &fired.jobs {
            tracing::debug!(%schedule, %job, "a schedule was due");
        }
        if fired.is_blocked && !self.is_blocked {
            tracing::warn!("queue or disk is full; schedules that are due wait for room");
        }
        self.is_blocked = fired.is_blocked;
        Ok(fired.jobs.len())
    }

    fn rest(&self) -> Result<Duration, StoreError> {
        if self.is_blocked {
            return Ok(LOOK_EVERY);
        }
        let next = self.ports.schedules.next_run_ms()?;
        let until = next.map(|due_ms| due_ms.saturating_sub(self.ports.clock.now_ms()));
        // At least a moment: a due schedule that cannot fire must not become a busy loop.
        Ok(until.map_or(LOOK_EVERY, |ms| Duration::from_millis(ms.max(1)).min(LOOK_EVERY)))
    }
}

/// Whether the wall clock has fallen behind the one that cannot be set.
fn went_back(before: Seen, now: Seen) -> bool {
    let passed = now.monotonic_ms.saturating_sub(before.monotonic_ms);
    now.wall_ms.saturating_add(CLOCK_SLACK_MS) < before.wall_ms.saturating_add(passed)
}

/// The thread that ticks.
pub struct Timekeeping {
    stop: CancelToken,
    thread: JoinHandle<()>,
}

impl Timekeeping {
    /// Starts it; on its way it keeps the vigil.
    pub fn start(ports: TimePorts, mut vigil: Vigil) -> std::io::Result<Self> {
        let stop = CancelToken::new(Arc::clone(&ports.clock));
        let flag = stop.clone();
        let thread = std::thread::Builder::new()
            .name("timekeeper".to_owned())
            .spawn(move || run(&ports, &mut vigil, &flag))?;
        Ok(Self { stop, thread })
    }

    /// Ends it; what is due stays due for the next start.
    pub fn end(self) {
        self.stop.cancel(CancelReason::Shutdown);
        if self.thread.join().is_err() {
            tracing::error!("the timekeeper's thread had panicked");
        }
    }
}

fn run(ports: &TimePorts, vigil: &mut Vigil, stop: &CancelToken) {
    let mut keeper = Timekeeper::new(ports.clone());
    while stop.reason().is_none() {
        if catch_unwind(AssertUnwindSafe(|| vigil.watch())).is_err() {
            tracing::error!("looking after the running jobs panicked; it goes on");
        }
        let rest = match catch_unwind(AssertUnwindSafe(|| keeper.tick())) {
            Ok(Ok(ticked)) => ticked.rest,
            Ok(Err(StoreError::Closed)) => return,
            Ok(Err(error)) => {
                tracing::warn!(%error, "schedules cannot be looked after; trying again");
                STUMBLE_WAIT
            }
            Err(_panic) => {
                tracing::error!("the timekeeper panicked; it goes on");
                STUMBLE_WAIT
            }
        };
        ports.clock.sleep(stop, rest);
    }
}
