//! When the next of something is due, as far as this node knows, so that it need not ask the database each
//! time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long an answer counts, milliseconds: other nodes make changes, and notifications may be lost.
const COUNTS_MS: u64 = 2_000;

/// When the next delayed job, run of a schedule or end of a job is due.
#[derive(Debug, Default)]
pub(crate) struct NextDue(Mutex<DueState>);

#[derive(Debug, Default)]
struct DueState {
    look: Option<DueLook>,
    /// Rises with each change that this node hears of.
    changes: u64,
}

#[derive(Debug, Clone, Copy)]
struct DueLook {
    next_ms: Option<u64>,
    looked_monotonic_ms: u64,
}

/// A question to the database; its answer does not count if something changed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueQuestion {
    asked_monotonic_ms: u64,
    changes: u64,
}

impl NextDue {
    /// When it is due, if that is known and later than `now_ms`, unix milliseconds; else what to give to
    /// [`NextDue::learn`].
    pub(crate) fn known(&self, now_ms: u64, monotonic_ms: u64) -> Result<Option<u64>, DueQuestion> {
        let state = self.state();
        let question = DueQuestion { asked_monotonic_ms: monotonic_ms, changes: state.changes };
        let look = state.look.ok_or(question)?;
        let is_fresh = monotonic_ms.saturating_sub(look.looked_monotonic_ms) < COUNTS_MS;
        let is_due = look.next_ms.is_some_and(|next_ms| next_ms <= now_ms);
        if is_fresh && !is_due { Ok(look.next_ms) } else { Err(question) }
    }

    /// The answer of the database.
    pub(crate) fn learn(&self, question: DueQuestion, next_ms: Option<u64>) {
        let mut state = self.state();
        if state.changes == question.changes {
            state.look = Some(DueLook { next_ms, looked_monotonic_ms: question.asked_monotonic_ms });
        }
    }

    /// Something has changed.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.look = None;
        state.changes = state.changes.wrapping_add(1);
    }

    fn state(&self) -> MutexGuard<'_, DueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_until_it_is_due_a_change_or_two_seconds() {
        let due = NextDue::default();
        let question = due.known(10, 0).unwrap_err();
        due.learn(question, Some(500));
        assert_eq!(due.known(499, 1).unwrap(), Some(500));
        let question = due.known(500, 100).unwrap_err();
        due.learn(question, None);
        assert_eq!(due.known(600, 2_099).unwrap(), None);
        let question = due.known(600, 2_100).unwrap_err();
        due.forget();
        due.learn(question, None);
        assert!(due.known(600, 2_100).is_err(), "it changed before the answer came");
    }
}
