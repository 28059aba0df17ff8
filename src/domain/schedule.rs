//! Schedules: what is asked for again and again (`Order`, immutable) and how that stands (`Schedule`). Owns which
//! occurrence follows a firing and a clock that went back; refuses to know who keeps the time.

use super::id::{JobId, ScheduleId, UserId};
use super::job::JobSpec;
use super::timing::Timing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A clock that is behind by no more than this has not gone back, milliseconds: it was corrected.
pub const CLOCK_SLACK_MS: u64 = 60_000;

/// What each run of a schedule asks for; written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduledRequest {
    /// As validated.
    pub spec: JobSpec,
    /// As the client wrote it.
    pub given: Map<String, Value>,
}

/// How a schedule stands. Times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// Whose it is.
    pub user: UserId,
    /// The client's name for it.
    pub name: Option<String>,
    /// When it is due.
    pub timing: Timing,
    /// When it was made.
    pub created_at_ms: u64,
    /// What the clock showed when `next_run_ms` was computed.
    pub armed_at_ms: u64,
    /// The occurrence that fires next; `None` when there is none left.
    pub next_run_ms: Option<u64>,
    /// The occurrence that fired last.
    pub last_due_ms: Option<u64>,
    /// What the clock showed when it fired.
    pub last_run_ms: Option<u64>,
    /// The job that it made.
    pub last_job: Option<JobId>,
    /// How often it has fired.
    pub runs: u64,
}

impl Schedule {
    /// One that has never fired, made now.
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

    /// Notes that the occurrence `due_ms` has become `job`. Occurrences that were missed are not made up for: the next
    /// one lies after now.
    pub fn fire(&mut self, due_ms: u64, job: JobId, now_ms: u64) {
        self.next_run_ms = self.timing.next_after(due_ms.max(now_ms));
        self.armed_at_ms = now_ms;
        self.last_due_ms = Some(due_ms);
        self.last_run_ms = Some(now_ms);
        self.last_job = Some(job);
        self.runs = self.runs.saturating_add(1);
    }

    /// Notes that the occurrence `due_ms` was passed over.
    pub fn pass(&mut self, due_ms: u64, now_ms: u64) {
        self.next_run_ms = self.timing.next_after(due_ms.max(now_ms));
        self.armed_at_ms = now_ms;
        self.last_due_ms = Some(due_ms);
    }

    /// Computes the next occurrence anew if a clock that has since gone back has computed it. Whether it did.
    pub fn rearm(&mut self, now_ms: u64) -> bool {
        if self.next_run_ms.is_none() || self.armed_at_ms <= now_ms.saturating_add(CLOCK_SLACK_MS) {
            return false;
        }
        self.next_run_ms = self.timing.again(now_ms, self.last_due_ms);
        self.armed_at_ms = now_ms;
        true
    }
}
