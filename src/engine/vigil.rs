//! Looking after running jobs that do not get on. Owns when a job counts as stuck and that each standstill is told once,
//! and once more when it is over; refuses to end anything: a job's timeout does.

use super::held::Held;
use crate::domain::id::JobId;
use crate::ports::Clock;
use std::collections::HashMap;
use std::sync::Arc;

/// The time between two looks, milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;

/// The eyes.
pub struct Vigil {
    held: Held,
    clock: Arc<dyn Clock>,
    /// `None`: nobody looks.
    stuck_after_ms: Option<u64>,
    looked_ms: Option<u64>,
    /// The standstills that were told: which run, and since when.
    told: HashMap<(JobId, u64), Standstill>,
}

#[derive(Debug, Clone, Copy)]
struct Standstill {
    attempt: u32,
    since_ms: u64,
}

/// What a look has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// A job does not get on.
    Stuck {
        /// Which.
        job: JobId,
        /// Its run.
        attempt: u32,
        /// What it waits for.
        doing: String,
        /// How long its log has not grown, milliseconds.
        for_ms: u64,
    },
    /// A job that was stuck has written something, or is not running any more.
    Moved {
        /// Which.
        job: JobId,
        /// Its run.
        attempt: u32,
        /// How long it was, milliseconds.
        after_ms: u64,
    },
}

impl Vigil {
    /// Looks at what is held; a log that has not grown for `patience_s` is a standstill; 0: nothing is.
    pub fn new(held: Held, clock: Arc<dyn Clock>, patience_s: u64) -> Self {
        let stuck_after_ms = (patience_s > 0).then(|| patience_s.saturating_mul(1_000));
        Self { held, clock, stuck_after_ms, looked_ms: None, told: HashMap::new() }
    }

    /// Looks, if it is time, and tells the log.
    pub fn watch(&mut self) {
        for sight in self.look() {
            match sight {
                Sight::Stuck { job, attempt, doing, for_ms } => {
                    tracing::warn!(%job, attempt, doing, for_ms, "a running job does not get on");
                }
                Sight::Moved { job, attempt, after_ms } => {
                    tracing::info!(%job, attempt, after_ms, "a job that did not get on has moved");
                }
            }
        }
    }

    /// What has come to a standstill since the last look, and what has left one; nothing when it is too early to look.
    pub fn look(&mut self) -> Vec<Sight> {
        let Some(stuck_after_ms) = self.stuck_after_ms else { return Vec::new() };
        let now_ms = self.clock.monotonic_ms();
        if self.looked_ms.is_some_and(|looked| now_ms.saturating_sub(looked) < LOOK_EVERY_MS) {
            return Vec::new();
        }
        self.looked_ms = Some(now_ms);
        let (mut sights, mut gone) = (Vec::new(), std::mem::take(&mut self.told));
        for (key, holding) in self.held.look() {
            let since_ms = holding.progress.grown_ms();
            let before = gone.get(&key).copied();
            if before.is_some_and(|before| before.since_ms == since_ms) {
                self.told.extend(gone.remove_entry(&key));
                continue;
            }
            let for_ms = now_ms.saturating_sub(since_ms);
            if for_ms >= stuck_after_ms {
                let (job, attempt) = (key.0, holding.attempt);
                self.told.insert(key, Standstill { attempt, since_ms });
                sights.push(Sight::Stuck { job, attempt, doing: holding.progress.doing(), for_ms });
            }
        }
        let moved = gone.into_iter().map(|((job, _), before)| {
            let after_ms = now_ms.saturating_sub(before.since_ms);
            Sight::Moved { job, attempt: before.attempt, after_ms }
        });
        // What has moved is told before what stands still again.
        sights.splice(0..0, moved);
        sights
    }
}
