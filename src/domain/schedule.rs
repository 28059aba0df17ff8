//! Schedules: the request (`ScheduledRequest`, immutable) and the state (`Schedule`).

use super::account::QuotaKind;
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
    /// The tokens of its jobs, if a model has made the schedule; such a schedule has a daily limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tokens: Option<DailyTokens>,
    /// The last occurrence that an exhausted quota of the owner skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_skip: Option<SkippedRun>,
    /// Wall clock when it had gone back and the next occurrence was computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recomputed_ms: Option<u64>,
    /// Whether it is paused: it has no next occurrence then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
}

/// An occurrence that was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRun {
    /// Wall clock, unix milliseconds.
    pub at_ms: u64,
    /// The exhausted quota.
    pub quota: QuotaKind,
}

/// Tokens that the jobs of a schedule have spent on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyTokens {
    /// Days since 1970, UTC.
    pub day: u64,
    /// Tokens of the counted jobs.
    pub tokens: u64,
    /// The newest job that is counted.
    pub counted: Option<JobId>,
}

impl DailyTokens {
    /// The tokens of this day.
    pub fn on(&self, day: u64) -> u64 {
        if self.day == day { self.tokens } else { 0 }
    }

    /// Counts a job that has ended, once. Its tokens count for the day on which they are counted.
    pub fn count(&mut self, job: JobId, tokens: u64, day: u64) {
        if self.counted == Some(job) {
            return;
        }
        *self = Self { day, tokens: self.on(day).saturating_add(tokens), counted: Some(job) };
    }
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
            model_tokens: None,
            last_skip: None,
            recomputed_ms: None,
            is_paused: false,
        }
    }

    /// The same schedule as one that a model has made.
    #[must_use]
    pub fn of_model(self) -> Self {
        Self { model_tokens: Some(DailyTokens::default()), ..self }
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

    /// Records that an exhausted quota skipped the occurrence `due_ms`. Returns whether the occurrence before
    /// was not skipped.
    pub fn skip(&mut self, due_ms: u64, quota: QuotaKind, now_ms: u64) -> bool {
        let is_first = self.last_skip.is_none_or(|skip| self.last_run_ms.is_some_and(|run| run > skip.at_ms));
        self.pass(due_ms, now_ms);
        self.last_skip = Some(SkippedRun { at_ms: now_ms, quota });
        is_first
    }

    /// Records that `job` runs out of turn: the next occurrence stays.
    pub fn run_now(&mut self, job: JobId, now_ms: u64) {
        self.last_run_ms = Some(now_ms);
        self.last_job = Some(job);
        self.runs = self.runs.saturating_add(1);
    }

    /// Pauses the schedule, or lets it go on. Occurrences that pass while it is paused never run. Returns
    /// whether it changed.
    pub fn set_paused(&mut self, is_paused: bool, now_ms: u64) -> bool {
        if self.is_paused == is_paused {
            return false;
        }
        self.is_paused = is_paused;
        self.armed_at_ms = now_ms;
        self.next_run_ms = match &self.timing {
            _ if is_paused => None,
            Timing::At(_) if self.last_due_ms.is_some() => None,
            once @ Timing::At(_) => once.next_after(now_ms),
            often => often.again(now_ms, self.last_due_ms),
        };
        true
    }

    /// Recomputes the next occurrence if the clock has gone back since. Returns whether it changed.
    pub fn rearm(&mut self, now_ms: u64) -> bool {
        if self.next_run_ms.is_none() || self.armed_at_ms <= now_ms.saturating_add(CLOCK_SLACK_MS) {
            return false;
        }
        self.next_run_ms = self.timing.again(now_ms, self.last_due_ms);
        self.armed_at_ms = now_ms;
        self.recomputed_ms = Some(now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: u64 = 60_000;

    fn made(timing: Timing) -> Schedule {
        Schedule::new(ScheduleId::from_bits(1), UserId::SINGLE, None, timing, MINUTE_MS)
    }

    #[test]
    fn a_paused_schedule_has_no_next_run_and_does_not_make_up_for_missed_ones() {
        let mut often = made(Timing::Every { seconds: 60, anchor_ms: 0 });
        assert!(often.set_paused(true, MINUTE_MS + 1));
        assert!(!often.set_paused(true, MINUTE_MS + 2), "it is paused already");
        assert_eq!((often.next_run_ms, often.rearm(0)), (None, false), "no clock arms it again");
        assert!(often.set_paused(false, 10 * MINUTE_MS + 1));
        assert_eq!(often.next_run_ms, Some(11 * MINUTE_MS));
    }

    #[test]
    fn a_resumed_schedule_does_not_repeat_the_run_that_it_has_made() {
        let mut often = made(Timing::Every { seconds: 60, anchor_ms: 0 });
        // The clock is a second behind the occurrence that has run.
        often.fire(2 * MINUTE_MS, JobId::from_bits(1), 2 * MINUTE_MS - 1_000);
        often.set_paused(true, 2 * MINUTE_MS - 900);
        often.set_paused(false, 2 * MINUTE_MS - 800);
        assert!(often.next_run_ms > Some(2 * MINUTE_MS), "{:?}", often.next_run_ms);
    }

    #[test]
    fn a_single_time_that_passed_during_a_pause_never_comes() {
        let resumed_at = |now_ms: u64| {
            let mut once = made(Timing::At(5 * MINUTE_MS));
            once.set_paused(true, 2 * MINUTE_MS);
            once.set_paused(false, now_ms);
            once.next_run_ms
        };
        assert_eq!(resumed_at(4 * MINUTE_MS), Some(5 * MINUTE_MS));
        assert_eq!(resumed_at(6 * MINUTE_MS), None);
    }

    #[test]
    fn a_run_out_of_turn_does_not_move_the_schedule_on() {
        let mut often = made(Timing::Every { seconds: 60, anchor_ms: 0 });
        let next = often.next_run_ms;
        often.run_now(JobId::from_bits(9), MINUTE_MS + 5);
        assert_eq!((often.next_run_ms, often.last_due_ms), (next, None));
        assert_eq!((often.last_job, often.runs), (Some(JobId::from_bits(9)), 1));
    }

    #[test]
    fn a_schedule_stored_before_pauses_existed_is_not_paused() {
        let often = made(Timing::Every { seconds: 60, anchor_ms: 0 });
        let stored = serde_json::to_string(&often).unwrap();
        assert!(!stored.contains("paused"), "{stored}");
        assert_eq!(serde_json::from_str::<Schedule>(&stored).unwrap(), often);
    }
}
