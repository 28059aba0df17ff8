//! Detects running jobs that make no progress and logs each stall once, and once more when it is over. It
//! ends nothing: that is the job's timeout.

use super::active_leases::ActiveLeases;
use crate::domain::id::JobId;
use crate::ports::Clock;
use std::collections::HashMap;
use std::sync::Arc;

/// The time between two checks, milliseconds.
const CHECK_EVERY_MS: u64 = 1_000;

/// Compares when each active job's log last grew with the clock.
pub struct StallDetector {
    leases: ActiveLeases,
    clock: Arc<dyn Clock>,
    /// `None`: detection is off.
    stalled_after_ms: Option<u64>,
    checked_ms: Option<u64>,
    /// The stalls that have been reported, by job and epoch.
    reported: HashMap<(JobId, u64), ReportedStall>,
}

#[derive(Debug, Clone, Copy)]
struct ReportedStall {
    attempt: u32,
    since_ms: u64,
}

/// A job that stalled or resumed since the last check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StallChange {
    /// The job's log does not grow.
    Stalled {
        /// The job.
        job: JobId,
        /// Its attempt.
        attempt: u32,
        /// What it waits for.
        activity: String,
        /// Time since its log last grew, milliseconds.
        for_ms: u64,
    },
    /// A stalled job has written something, or has stopped running.
    Resumed {
        /// The job.
        job: JobId,
        /// Its attempt.
        attempt: u32,
        /// Length of the stall, milliseconds.
        after_ms: u64,
    },
}

impl StallDetector {
    /// Watches `leases`. A job whose log has not grown for `stalled_after_s` is stalled; 0 switches detection
    /// off.
    pub fn new(leases: ActiveLeases, clock: Arc<dyn Clock>, stalled_after_s: u64) -> Self {
        let limit_ms = (stalled_after_s > 0).then(|| stalled_after_s.saturating_mul(1_000));
        Self { leases, clock, stalled_after_ms: limit_ms, checked_ms: None, reported: HashMap::new() }
    }

    /// Checks, if a check is due, and logs the changes.
    pub fn log_changes(&mut self) {
        for change in self.check() {
            match change {
                StallChange::Stalled { job, attempt, activity, for_ms } => {
                    tracing::warn!(%job, attempt, activity, for_ms, "job stalled");
                }
                StallChange::Resumed { job, attempt, after_ms } => {
                    tracing::info!(%job, attempt, after_ms, "job resumed after stall");
                }
            }
        }
    }

    /// The changes since the last check, resumed jobs first; nothing while no check is due.
    pub fn check(&mut self) -> Vec<StallChange> {
        let Some(stalled_after_ms) = self.stalled_after_ms else { return Vec::new() };
        let now_ms = self.clock.monotonic_ms();
        if self.checked_ms.is_some_and(|checked_ms| now_ms.saturating_sub(checked_ms) < CHECK_EVERY_MS) {
            return Vec::new();
        }
        self.checked_ms = Some(now_ms);
        let (mut stalled, mut over) = (Vec::new(), std::mem::take(&mut self.reported));
        for (key, active) in self.leases.snapshot() {
            let since_ms = active.progress.log_grew_ms();
            if over.get(&key).is_some_and(|stall| stall.since_ms == since_ms) {
                self.reported.extend(over.remove_entry(&key));
                continue;
            }
            let for_ms = now_ms.saturating_sub(since_ms);
            if for_ms >= stalled_after_ms {
                let (job, attempt) = (key.0, active.attempt);
                self.reported.insert(key, ReportedStall { attempt, since_ms });
                let activity = active.progress.activity();
                stalled.push(StallChange::Stalled { job, attempt, activity, for_ms });
            }
        }
        let resumed = over.into_iter().map(|((job, _), stall)| {
            let after_ms = now_ms.saturating_sub(stall.since_ms);
            StallChange::Resumed { job, attempt: stall.attempt, after_ms }
        });
        resumed.chain(stalled).collect()
    }
}
