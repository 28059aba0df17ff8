//! Counts events by key in a time window. Memory is bounded: keys beyond the bound share one counter.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A full table is swept at most once in this time, milliseconds.
const SWEEP_MS: u64 = 1_000;

/// Counters by key. The window of a key begins with its first event; later events do not extend it.
pub(crate) struct WindowCounter<K> {
    window_ms: u64,
    /// Most keys with a counter of their own.
    most: usize,
    inner: Mutex<WindowTable<K>>,
}

struct WindowTable<K> {
    windows: HashMap<K, CountWindow>,
    /// Shared by all other keys.
    others: CountWindow,
    swept_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct CountWindow {
    first_ms: u64,
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowCount {
    /// Events in the window, this one included.
    pub(crate) count: u64,
    /// Rest of the window, milliseconds.
    pub(crate) left_ms: u64,
}

impl WindowCount {
    /// The same in seconds, rounded up, for `Retry-After`.
    pub(crate) fn left_s(self) -> u64 {
        self.left_ms.div_ceil(1_000).max(1)
    }
}

impl CountWindow {
    fn add(&mut self, now_ms: u64, window_ms: u64) -> WindowCount {
        let passed = now_ms.saturating_sub(self.first_ms);
        if self.count == 0 || passed >= window_ms {
            *self = Self { first_ms: now_ms, count: 1 };
            return WindowCount { count: 1, left_ms: window_ms };
        }
        self.count = self.count.saturating_add(1);
        WindowCount { count: self.count, left_ms: window_ms - passed }
    }
}

impl<K: Eq + Hash> WindowCounter<K> {
    pub(crate) fn new(window_ms: u64, most: usize) -> Self {
        let inner = WindowTable { windows: HashMap::new(), others: CountWindow::default(), swept_ms: 0 };
        Self { window_ms, most, inner: Mutex::new(inner) }
    }

    pub(crate) fn add(&self, key: K, now_ms: u64) -> WindowCount {
        let mut inner = self.lock();
        let WindowTable { windows, others, swept_ms } = &mut *inner;
        let is_new = !windows.contains_key(&key);
        if is_new && windows.len() >= self.most && now_ms.saturating_sub(*swept_ms) >= SWEEP_MS {
            *swept_ms = now_ms;
            windows.retain(|_, window| now_ms.saturating_sub(window.first_ms) < self.window_ms);
        }
        let window =
            if is_new && windows.len() >= self.most { others } else { windows.entry(key).or_default() };
        window.add(now_ms, self.window_ms)
    }

    /// Uncounts an event.
    pub(crate) fn uncount(&self, key: &K) {
        if let Some(window) = self.lock().windows.get_mut(key) {
            window.count = window.count.saturating_sub(1);
        }
    }

    pub(crate) fn forget(&self, key: &K) {
        self.lock().windows.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, WindowTable<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_starts_at_its_first_event_and_has_a_fixed_length() {
        let tally = WindowCounter::new(1_000, 10);
        assert_eq!(tally.add('a', 50), WindowCount { count: 1, left_ms: 1_000 });
        assert_eq!(tally.add('a', 1_049), WindowCount { count: 2, left_ms: 1 });
        assert_eq!(tally.add('b', 1_049).count, 1, "keys are apart");
        assert_eq!(tally.add('a', 1_050), WindowCount { count: 1, left_ms: 1_000 });
    }

    #[test]
    fn uncounted_and_forgotten_events_do_not_count() {
        let tally = WindowCounter::new(1_000, 10);
        tally.add('a', 0);
        tally.uncount(&'a');
        tally.uncount(&'b');
        assert_eq!(tally.add('a', 1).count, 1);
        tally.forget(&'a');
        assert_eq!(tally.add('a', 2).count, 1);
    }

    #[test]
    fn p8_keys_over_the_limit_share_one_counter() {
        let tally = WindowCounter::new(10_000, 2);
        assert_eq!((tally.add(1, 5_000).count, tally.add(2, 5_001).count), (1, 1));
        assert_eq!((tally.add(3, 5_002).count, tally.add(4, 5_003).count), (1, 2));
        assert_eq!(tally.add(1, 5_004).count, 2, "who has a place keeps it");
        assert!(tally.lock().windows.len() <= 2);
        assert_eq!(tally.add(5, 15_000).count, 1, "a window that is over makes room");
        assert!(tally.lock().windows.contains_key(&5));
    }
}
