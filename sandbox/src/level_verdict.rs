//! Remembers what the self-tests of the levels found. Only two results are final: the level holds, or it does
//! not. A test that could not be made is made again with the next call.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::level::Level;

/// Why nothing runs at a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LevelFault {
    /// A child got out, or the kernel lacks a layer. Final.
    NotEnforced(String),
    /// The test could not be made, so it says nothing about the level.
    Untested(String),
}

impl LevelFault {
    /// For a caller whose program does not run; `subject` is what does not hold.
    pub(crate) fn refusal(&self, subject: &str) -> String {
        match self {
            Self::NotEnforced(reason) => format!("{subject} is off: {reason}"),
            Self::Untested(reason) => {
                format!("{subject} is being tested again, and nothing runs before it has passed: {reason}")
            }
        }
    }

    /// The cause alone.
    pub(crate) fn into_reason(self) -> String {
        let (Self::NotEnforced(reason) | Self::Untested(reason)) = self;
        reason
    }
}

/// The result of a self-test.
pub(crate) type LevelOutcome = Result<(), LevelFault>;

/// The verdicts on all levels.
#[derive(Debug, Default)]
pub(crate) struct LevelVerdicts {
    strict: LevelVerdict,
    standard: LevelVerdict,
    lenient: LevelVerdict,
    shell: LevelVerdict,
}

impl LevelVerdicts {
    pub(crate) fn of(&self, level: Level) -> &LevelVerdict {
        match level {
            Level::Strict => &self.strict,
            Level::Standard => &self.standard,
            Level::Lenient => &self.lenient,
            Level::Shell => &self.shell,
        }
    }
}

/// What the tests of one level have found so far.
#[derive(Debug, Default)]
pub(crate) struct LevelVerdict {
    state: Mutex<VerdictState>,
    tested: Condvar,
}

#[derive(Debug, Default)]
struct VerdictState {
    /// Of the last test.
    outcome: Option<LevelOutcome>,
    is_testing: bool,
}

impl LevelVerdict {
    /// The final verdict, or the outcome of a new `test`.
    ///
    /// One test runs at a time. Callers wait for the first one; during a later one they get the fault of the
    /// test before it.
    pub(crate) fn check(&self, test: impl FnOnce() -> LevelOutcome) -> LevelOutcome {
        let mut state = self.lock();
        if state.is_testing {
            let waited = self.tested.wait_while(state, |state| state.is_testing && state.outcome.is_none());
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            let no_outcome = || Err(LevelFault::Untested("the self-test panicked".to_owned()));
            return state.outcome.clone().unwrap_or_else(no_outcome);
        }
        if let Some(outcome @ (Ok(()) | Err(LevelFault::NotEnforced(_)))) = &state.outcome {
            return outcome.clone();
        }
        state.is_testing = true;
        drop(state);
        let end_of_test = EndOfTest(self);
        let outcome = test();
        self.lock().outcome = Some(outcome.clone());
        drop(end_of_test);
        outcome
    }

    /// The outcome of the last test. Starts none and does not wait for one.
    pub(crate) fn known(&self) -> Option<LevelOutcome> {
        self.lock().outcome.clone()
    }

    fn lock(&self) -> MutexGuard<'_, VerdictState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the waiting callers when dropped, even after a panic.
struct EndOfTest<'a>(&'a LevelVerdict);

impl Drop for EndOfTest<'_> {
    fn drop(&mut self) {
        self.0.lock().is_testing = false;
        self.0.tested.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn untested() -> LevelOutcome {
        Err(LevelFault::Untested("disk full".to_owned()))
    }

    #[test]
    fn p5_only_holds_and_not_enforced_are_final() {
        let verdict = LevelVerdict::default();
        assert_eq!(verdict.known(), None);
        assert_eq!(verdict.check(untested), untested());
        assert_eq!(verdict.known(), Some(untested()));
        assert_eq!(verdict.check(|| Ok(())), Ok(()), "tested again");
        assert_eq!(verdict.check(|| unreachable!("it holds")), Ok(()));
        let escaped = || Err(LevelFault::NotEnforced("a child could fork".to_owned()));
        let verdict = LevelVerdict::default();
        assert_eq!(verdict.check(escaped), escaped());
        assert_eq!(verdict.check(|| Ok(())), escaped(), "a child that got out is never forgotten");
    }

    /// A test that waits at both barriers.
    fn slow(begun: &Barrier, may_end: &Barrier, outcome: LevelOutcome) -> LevelOutcome {
        begun.wait();
        may_end.wait();
        outcome
    }

    #[test]
    fn p8_all_callers_share_the_first_test() {
        let (verdict, begun, may_end) = (LevelVerdict::default(), Barrier::new(2), Barrier::new(2));
        let second_test = || verdict.check(|| unreachable!("a second test"));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| verdict.check(|| slow(&begun, &may_end, Ok(()))));
            begun.wait();
            let callers: Vec<_> = (0..8).map(|_| scope.spawn(second_test)).collect();
            may_end.wait();
            assert_eq!(first.join().unwrap(), Ok(()));
            assert!(callers.into_iter().all(|caller| caller.join().unwrap() == Ok(())));
        });
    }

    #[test]
    fn p8_calls_during_a_later_test_start_none_and_do_not_wait() {
        let (verdict, begun, may_end) = (LevelVerdict::default(), Barrier::new(2), Barrier::new(2));
        assert_eq!(verdict.check(untested), untested());
        std::thread::scope(|scope| {
            let again = scope.spawn(|| verdict.check(|| slow(&begun, &may_end, Ok(()))));
            begun.wait();
            assert_eq!(verdict.check(|| unreachable!("a second test")), untested());
            may_end.wait();
            assert_eq!(again.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn a_test_that_panics_leaves_the_level_untested() {
        let verdict = LevelVerdict::default();
        let panicking = || verdict.check(|| panic!("a bug"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
        assert_eq!(verdict.check(|| Ok(())), Ok(()));
    }
}
