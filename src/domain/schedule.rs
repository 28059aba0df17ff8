//! Schedules: the request (`ScheduledRequest`, immutable) and the state (`Schedule`).

use super::id::{JobId, ScheduleId, UserId};
use super::job::JobSpec;
use super::timing::Timing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Tolerance before a wall clock counts as set back, milliseconds.
pub const CLOCK_SLACK_MS: u64 = 60_000;

/// The request of every run; written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduledRequest {
    /// The validated request.
    pub spec: JobSpec,
    /// The request as the client wrote it.
    pub given: Map<String, Value>,
}

/// State of a schedule. Times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Id.
    pub id: ScheduleId,
    /// Owner.
    pub user: UserId,
    /// The client's name for it.
    pub name: Option<String>,
    /// When it runs.
    pub timing: Timing,
    /// Creation time.
    pub created_at_ms: u64,
    /// Wall clock when `next_run_ms` was computed.
    pub armed_at_ms: u64,
    /// Next occurrence; `None` when there is none.
    pub next_run_ms: Option<u64>,
    /// Last occurrence that fired or was skipped.
    pub last_due_ms: Option<u64>,
    /// Wall clock when it last fired.
    pub last_run_ms: Option<u64>,
    /// Last job.
    pub last_job: Option<JobId>,
    /// Number of runs.
    pub runs: u64,
}

impl Schedule {
    /// A new schedule.
    pub fn new(id: ScheduleId, user: UserId, name: Option<String>, timing: Timing, now_ms: u64) -> Self {
        Self {
            id,
            user,
            name,
            created_at_ms: now_ms,
            armed_at_ms: now_ms,
            next_run_ms: timing.first(now_ms),
            timing,
            last_due_ms: None,
            last_run_ms: None,
            last_job: None,
            runs: 0,
        }
    }

    /// Records that the occurrence `due_ms` became `job`. Missed occurrences are not caught up: the next one
    /// is after now.
    pub fn fire(&mut self, due_ms: u64, job: JobId, now_ms: u64) {
        self.next_run_ms = self.timing.next_after(due_ms.max(now_ms));
        self.armed_at_ms = now_ms;
        self.last_due_ms = Some(due_ms);
        self.last_run_ms = Some(now_ms);
        self.last_job = Some(job);
        self.runs = self.runs.saturating_add(1);
    }

    /// Records that the occurrence `due_ms` was skipped.
    pub fn pass(&mut self, due_ms: u64, now_ms: u64) {
        self.next_run_ms = self.timing.next_after(due_ms.max(now_ms));
        self.armed_at_ms = now_ms;
        self.last_due_ms = Some(due_ms);
    }

    /// Recomputes the next occurrence if the clock has gone back since. Returns whether it changed.
    pub fn rearm(&mut self, now_ms: u64) -> bool {
        if self.next_run_ms.is_none() || self.armed_at_ms <= now_ms.saturating_add(CLOCK_SLACK_MS) {
            return false;
        }
        self.next_run_ms = self.timing.again(now_ms, self.last_due_ms);
        self.armed_at_ms = now_ms;
        true
    }
}
