//! Counting by key within a window of time. Owns the bound on its memory: beyond it, new keys are counted together; refuses
//! to judge the counts.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Full of keys, it looks so seldom whether some are over, milliseconds: a look costs time.
const SWEEP_MS: u64 = 1_000;

/// Counts. A key's window begins with its first event, and does not grow with later ones.
pub(crate) struct WindowCounter<K> {
    window_ms: u64,
    /// Keys that are told apart.
    most: usize,
    inner: Mutex<WindowTable<K>>,
}

struct WindowTable<K> {
    windows: HashMap<K, CountWindow>,
    /// All keys that found no room of their own.
    others: CountWindow,
    swept_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct CountWindow {
    first_ms: u64,
    count: u64,
}

/// What has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowCount {
    /// Events of the window, this one included.
    pub(crate) count: u64,
    /// What is left of the window, milliseconds.
    pub(crate) left_ms: u64,
}

impl WindowCount {
    /// The same in whole seconds, rounded up: when it is worth to come back.
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
    /// Nothing yet; tells at most so many keys apart.
    pub(crate) fn new(window_ms: u64, most: usize) -> Self {
        let inner = WindowTable { windows: HashMap::new(), others: CountWindow::default(), swept_ms: 0 };
        Self { window_ms, most, inner: Mutex::new(inner) }
    }

    /// Counts an event.
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

    /// Takes an event back.
    pub(crate) fn take_back(&self, key: &K) {
        if let Some(window) = self.lock().windows.get_mut(key) {
            window.count = window.count.saturating_sub(1);
        }
    }

    /// Forgets a key.
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
    fn a_window_begins_with_its_first_event_and_does_not_grow() {
        let tally = WindowCounter::new(1_000, 10);
        assert_eq!(tally.add('a', 50), WindowCount { count: 1, left_ms: 1_000 });
        assert_eq!(tally.add('a', 1_049), WindowCount { count: 2, left_ms: 1 });
        assert_eq!(tally.add('b', 1_049).count, 1, "keys are apart");
        assert_eq!(tally.add('a', 1_050), WindowCount { count: 1, left_ms: 1_000 });
    }

    #[test]
    fn what_is_taken_back_or_forgotten_does_not_count() {
        let tally = WindowCounter::new(1_000, 10);
        tally.add('a', 0);
        tally.take_back(&'a');
        tally.take_back(&'b');
        assert_eq!(tally.add('a', 1).count, 1);
        tally.forget(&'a');
        assert_eq!(tally.add('a', 2).count, 1);
    }

    #[test]
    fn p8_keys_beyond_the_bound_are_counted_together() {
        let tally = WindowCounter::new(10_000, 2);
        assert_eq!((tally.add(1, 5_000).count, tally.add(2, 5_001).count), (1, 1));
        assert_eq!((tally.add(3, 5_002).count, tally.add(4, 5_003).count), (1, 2));
        assert_eq!(tally.add(1, 5_004).count, 2, "who has a place keeps it");
        assert!(tally.lock().windows.len() <= 2);
        assert_eq!(tally.add(5, 15_000).count, 1, "a window that is over makes room");
        assert!(tally.lock().windows.contains_key(&5));
    }
}
