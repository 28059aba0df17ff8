//! What clients know about one job, and what its log and row must agree with.

use nanoclaw::domain::event::{Event, FailureCode, SequencedEvent, StatusPhase};
use nanoclaw::domain::id::{BatchId, JobId, UserId};
use nanoclaw::domain::job::{Job, JobSpec};
use nanoclaw::ports::CancelToken;

/// Crashes in a row that make a job poison.
const POISON_CRASHES: u64 = 3;

/// The known facts about one job.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Known {
    /// In order of acceptance.
    pub(crate) number: usize,
    pub(crate) user: UserId,
    pub(crate) conversation: Option<String>,
    pub(crate) priority: u8,
    /// Ready from its acceptance on: no conversation and no delay.
    pub(crate) is_plain: bool,
    /// When it was sent to the store, unix milliseconds.
    pub(crate) since_ms: u64,
    /// It must not run before this time.
    pub(crate) not_before_ms: Option<u64>,
    pub(crate) max_attempts: u32,
    /// Jobs that it comes after.
    pub(crate) after: Vec<JobId>,
    pub(crate) is_hooked: bool,
    pub(crate) batch: Option<BatchId>,
    /// Retries that were sent to the store, and those that were acknowledged.
    pub(crate) retries: u64,
    pub(crate) sure_retries: u64,
    /// A retry has an unknown outcome.
    pub(crate) may_go_on: bool,
    pub(crate) is_accepted: bool,
    /// Its end was acknowledged or seen.
    pub(crate) has_ended: bool,
    /// It had failed at the last check.
    pub(crate) has_failed: bool,
    pub(crate) was_poison: bool,
    pub(crate) seen: Vec<SequencedEvent>,
    pub(crate) epoch: u64,
    pub(crate) claims: u64,
    /// The cancel token of its lease.
    pub(crate) lease: Option<CancelToken>,
    pub(crate) sure_crashes: u64,
    pub(crate) possible_crashes: u64,
}

impl Known {
    /// A job that is not accepted yet.
    pub(crate) fn new(number: usize, user: UserId, since_ms: u64) -> Self {
        Self {
            number,
            user,
            conversation: None,
            priority: 0,
            is_plain: false,
            since_ms,
            not_before_ms: None,
            max_attempts: u32::MAX,
            after: Vec::new(),
            is_hooked: false,
            batch: None,
            retries: 0,
            sure_retries: 0,
            may_go_on: false,
            is_accepted: false,
            has_ended: false,
            has_failed: false,
            was_poison: false,
            seen: Vec::new(),
            epoch: 0,
            claims: 0,
            lease: None,
            sure_crashes: 0,
            possible_crashes: 0,
        }
    }

    /// Takes over what the request says.
    pub(crate) fn take(&mut self, spec: &JobSpec) {
        self.conversation = spec.conversation_id.as_ref().map(|name| name.as_str().to_owned());
        self.priority = spec.priority.level();
        self.after.clone_from(&spec.conditions.after);
        let has_delay = spec.run_at_ms.is_some() || !self.after.is_empty();
        self.is_plain = spec.conversation_id.is_none() && !has_delay;
        (self.max_attempts, self.is_hooked) = (spec.max_attempts, spec.webhook_url.is_some());
    }

    /// It has been queued since its acceptance.
    pub(crate) fn waits(&self) -> bool {
        self.is_plain && self.is_accepted && !self.has_ended && self.claims == 0
    }

    /// Checks that each run has one terminal event and that only a retry continues the log.
    pub(crate) fn check_lives(&self, events: &[SequencedEvent]) -> Option<&'static str> {
        let mut again = 0;
        for (event, next) in events.iter().zip(events.iter().skip(1)) {
            if event.event.is_terminal() {
                again += 1;
                let has_failed = matches!(event.event, Event::Error { .. });
                if !has_failed || !matches!(next.event, Event::Status { status: StatusPhase::Queued, .. }) {
                    return Some("continues after its end");
                }
            }
        }
        let is_right = (self.sure_retries..=self.retries).contains(&again);
        if is_right { None } else { Some("has a number of ends that does not match its retries") }
    }

    /// Checks that the job became poison after three crashes in a row and not earlier.
    pub(crate) fn check_crashes(&self, row: &Job, dark_crashes: u64) -> Option<&'static str> {
        let ended = row.status.is_terminal();
        if is_poison(row) && self.possible_crashes + dark_crashes < POISON_CRASHES {
            return Some("failed as poison after too few crashes");
        }
        if !ended && self.sure_crashes >= POISON_CRASHES {
            return Some("was running during three crashes and did not fail as poison");
        }
        None
    }
}

/// Whether the job ended because it crashed too often.
pub(crate) fn is_poison(row: &Job) -> bool {
    row.error.as_ref().is_some_and(|error| error.code == FailureCode::Poison)
}
