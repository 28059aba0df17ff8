//! The port [`RateWindows`] in memory, for a server with a store of its own. The number of owners is bounded:
//! those with the fewest events give way first.

use super::window_counter::{WindowCount, WindowCounter};
use crate::ports::{Clock, CountedEvents, RateWindow, RateWindows, StoreError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most owners of each name.
pub(crate) const OWNERS: usize = 16_384;

/// Counters by name.
pub(crate) struct LocalWindows {
    clock: Arc<dyn Clock>,
    counters: Mutex<HashMap<&'static str, WindowCounter<String>>>,
}

impl LocalWindows {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, counters: Mutex::default() }
    }

    fn with<T>(&self, window: &RateWindow<'_>, act: impl FnOnce(&WindowCounter<String>, u64) -> T) -> T {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter =
            counters.entry(window.name).or_insert_with(|| WindowCounter::new(window.window_ms, OWNERS));
        act(counter, self.clock.monotonic_ms())
    }
}

impl RateWindows for LocalWindows {
    fn count(&self, window: &RateWindow<'_>, events: u64) -> Result<CountedEvents, StoreError> {
        self.with(window, |counter, now_ms| {
            let add = || counter.try_add(window.owner.to_owned(), now_ms, window.limit);
            let (mut counted, mut last) = (0_u64, add());
            while last.is_ok() {
                counted = counted.saturating_add(1);
                if counted >= events {
                    break;
                }
                last = add();
            }
            let (Ok(WindowCount { count: total, left_ms }) | Err(WindowCount { count: total, left_ms })) =
                last;
            Ok(CountedEvents { counted, total, left_ms })
        })
    }

    fn uncount(&self, window: &RateWindow<'_>) -> Result<(), StoreError> {
        self.with(window, |counter, _| counter.uncount(window.owner));
        Ok(())
    }

    fn forget(&self, window: &RateWindow<'_>) -> Result<(), StoreError> {
        self.with(window, |counter, _| counter.forget(window.owner));
        Ok(())
    }

    fn is_open(&self, window: &RateWindow<'_>) -> Result<bool, StoreError> {
        Ok(self.with(window, |counter, now_ms| counter.is_open(window.owner, now_ms)))
    }
}
