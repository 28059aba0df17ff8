//! Tells the owner of jobs' files which jobs were deleted. A hint: what is lost here is found when the files
//! are compared with the jobs.

use crate::domain::id::{JobId, UserId};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Maximum removals that wait; more are dropped.
const MAX_WAITING: usize = 100_000;

/// Deleted jobs since the last [`JobRemovals::wait`].
#[derive(Debug, Default)]
pub(crate) struct JobRemovals {
    state: Mutex<RemovalState>,
    condvar: Condvar,
}

#[derive(Debug, Default)]
struct RemovalState {
    waiting: Vec<(UserId, JobId)>,
    /// The waiter has something to do although no job was deleted.
    is_woken: bool,
}

impl JobRemovals {
    /// Adds jobs that a commit deleted.
    pub(crate) fn publish(&self, removed: Vec<(UserId, JobId)>) {
        if removed.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_WAITING.saturating_sub(state.waiting.len());
        state.waiting.extend(removed.into_iter().take(room));
        self.condvar.notify_all();
    }

    /// Ends the current or the next wait.
    pub(crate) fn wake(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_woken = true;
        self.condvar.notify_all();
    }

    /// Blocks until jobs are deleted, until [`JobRemovals::wake`], or until the timeout has passed.
    pub(crate) fn wait(&self, timeout: Duration) -> Vec<(UserId, JobId)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut RemovalState| state.waiting.is_empty() && !state.is_woken;
        let (mut state, _) =
            self.condvar.wait_timeout_while(state, timeout, is_idle).unwrap_or_else(PoisonError::into_inner);
        state.is_woken = false;
        std::mem::take(&mut state.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_removals_are_returned_once_and_bounded() {
        let removals = JobRemovals::default();
        let job = |bits| (UserId(1), JobId::from_bits(bits));
        removals.publish(vec![job(1), job(2)]);
        assert_eq!(removals.wait(Duration::from_secs(60)), [job(1), job(2)]);
        removals.wake();
        assert_eq!(removals.wait(Duration::from_secs(60)), []);
        assert_eq!(removals.wait(Duration::from_millis(1)), []);
        removals.publish((0..MAX_WAITING as u128 + 5).map(job).collect());
        assert_eq!(removals.wait(Duration::from_secs(60)).len(), MAX_WAITING);
    }
}
