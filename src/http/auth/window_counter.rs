//! Counts events by key in a time window. Memory is bounded: a new key in a full table replaces the key with
//! the fewest events, the oldest of those first, so that a flood of new keys neither hides nor hits the
//! others.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A full table is swept at most once in this time, milliseconds.
const SWEEP_MS: u64 = 1_000;

/// Counters by key. The window of a key begins with its first event; later events do not extend it.
pub(crate) struct WindowCounter<K> {
    window_ms: u64,
    /// Most keys.
    most: usize,
    inner: Mutex<WindowTable<K>>,
}

struct WindowTable<K> {
    windows: HashMap<K, CountWindow>,
    /// The keys in the order in which a full table drops them.
    order: BTreeMap<DropRank, K>,
    /// Tells windows apart that have the same count and time.
    next_id: u64,
    swept_ms: u64,
}

/// Fewest events first, then the oldest.
type DropRank = (u64, u64, u64);

#[derive(Debug, Clone, Copy)]
struct CountWindow {
    first_ms: u64,
    count: u64,
    id: u64,
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
    fn rank(self) -> DropRank {
        (self.count, self.first_ms, self.id)
    }

    /// Rest of the window, milliseconds; `None` when it is over.
    fn left_ms(self, now_ms: u64, window_ms: u64) -> Option<u64> {
        window_ms.checked_sub(now_ms.saturating_sub(self.first_ms)).filter(|left_ms| *left_ms > 0)
    }
}

impl<K: Eq + Hash + Clone> WindowTable<K> {
    fn set(&mut self, key: K, window: CountWindow) {
        self.order.insert(window.rank(), key.clone());
        self.windows.insert(key, window);
    }

    fn take<Q>(&mut self, key: &Q) -> Option<CountWindow>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let window = self.windows.remove(key)?;
        self.order.remove(&window.rank());
        Some(window)
    }

    fn sweep(&mut self, now_ms: u64, window_ms: u64) {
        let is_open = |window: &CountWindow| window.left_ms(now_ms, window_ms).is_some();
        self.windows.retain(|_, window| is_open(window));
        let windows = &self.windows;
        self.order.retain(|_, key| windows.contains_key(key));
    }
}

impl<K: Eq + Hash + Clone> WindowCounter<K> {
    pub(crate) fn new(window_ms: u64, most: usize) -> Self {
        let inner = WindowTable { windows: HashMap::new(), order: BTreeMap::new(), next_id: 0, swept_ms: 0 };
        Self { window_ms, most: most.max(1), inner: Mutex::new(inner) }
    }

    /// Counts an event.
    pub(crate) fn add(&self, key: K, now_ms: u64) -> WindowCount {
        self.lock().add(key, now_ms, (self.window_ms, self.most))
    }

    /// Counts an event, unless there are `limit` of them in the window already; then returns the rest of the
    /// window.
    pub(crate) fn try_add(&self, key: K, now_ms: u64, limit: u64) -> Result<WindowCount, WindowCount> {
        let mut inner = self.lock();
        let window = inner.windows.get(&key).copied();
        let open = window.and_then(|window| Some((window.count, window.left_ms(now_ms, self.window_ms)?)));
        match open {
            Some((count, left_ms)) if count >= limit => Err(WindowCount { count, left_ms }),
            _ => Ok(inner.add(key, now_ms, (self.window_ms, self.most))),
        }
    }

    /// Uncounts an event.
    pub(crate) fn uncount<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut inner = self.lock();
        let Some(window) = inner.take(key) else { return };
        if window.count > 1 {
            inner.set(key.to_owned(), CountWindow { count: window.count.saturating_sub(1), ..window });
        }
    }

    pub(crate) fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().take(key);
    }

    /// Whether the key has events.
    pub(crate) fn is_open<Q>(&self, key: &Q, now_ms: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let window = self.lock().windows.get(key).copied();
        window.is_some_and(|window| window.left_ms(now_ms, self.window_ms).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, WindowTable<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> WindowTable<K> {
    fn add(&mut self, key: K, now_ms: u64, (window_ms, most): (u64, usize)) -> WindowCount {
        let before = self.take(&key);
        let open = before.and_then(|window| Some((window, window.left_ms(now_ms, window_ms)?)));
        if let Some((window, left_ms)) = open {
            let count = window.count.saturating_add(1);
            self.set(key, CountWindow { count, ..window });
            return WindowCount { count, left_ms };
        }
        if self.windows.len() >= most && now_ms.saturating_sub(self.swept_ms) >= SWEEP_MS {
            self.swept_ms = now_ms;
            self.sweep(now_ms, window_ms);
        }
        if self.windows.len() >= most
            && let Some((_, dropped)) = self.order.pop_first()
        {
            self.windows.remove(&dropped);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.set(key, CountWindow { first_ms: now_ms, count: 1, id });
        WindowCount { count: 1, left_ms: window_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_starts_at_its_first_event_and_has_a_fixed_length() {
        let counter = WindowCounter::new(1_000, 10);
        assert_eq!(counter.add('a', 50), WindowCount { count: 1, left_ms: 1_000 });
        assert_eq!(counter.add('a', 1_049), WindowCount { count: 2, left_ms: 1 });
        assert_eq!(counter.add('b', 1_049).count, 1, "keys are apart");
        assert_eq!(counter.add('a', 1_050), WindowCount { count: 1, left_ms: 1_000 });
    }

    #[test]
    fn uncounted_and_forgotten_events_do_not_count() {
        let counter = WindowCounter::new(1_000, 10);
        counter.add('a', 0);
        counter.uncount(&'a');
        counter.uncount(&'b');
        assert_eq!(counter.add('a', 1).count, 1);
        counter.forget(&'a');
        assert_eq!(counter.add('a', 2).count, 1);
    }

    #[test]
    fn an_event_over_the_limit_is_refused_and_not_counted() {
        let counter = WindowCounter::new(1_000, 10);
        assert!(counter.try_add('a', 0, 2).is_ok() && counter.try_add('a', 1, 2).is_ok());
        for _ in 0..3 {
            assert_eq!(counter.try_add('a', 400, 2), Err(WindowCount { count: 2, left_ms: 600 }));
        }
        counter.uncount(&'a');
        assert_eq!(counter.try_add('a', 401, 2), Ok(WindowCount { count: 2, left_ms: 599 }));
        assert!(counter.is_open(&'a', 999) && !counter.is_open(&'a', 1_000) && !counter.is_open(&'b', 0));
        assert!(counter.try_add('a', 1_000, 2).is_ok(), "the next window");
    }

    #[test]
    fn p8_a_new_key_in_a_full_table_replaces_the_one_with_the_fewest_events() {
        let counter = WindowCounter::new(10_000, 3);
        for (key, now_ms) in [(1, 0), (2, 1), (2, 2), (3, 3)] {
            counter.add(key, now_ms);
        }
        assert_eq!(counter.add(4, 4).count, 1, "in the place of 1, the older one of two with one event");
        assert_eq!((counter.add(2, 5).count, counter.add(3, 6).count), (3, 2), "these kept theirs");
        assert_eq!(counter.add(1, 7).count, 1, "forgotten");
        // However many keys come, none is refused for the sake of others, and the busiest one stays.
        for key in 100..1_000 {
            assert_eq!(counter.add(key, 8).count, 1);
        }
        assert_eq!(counter.add(2, 9).count, 4);
        let inner = counter.lock();
        assert_eq!((inner.windows.len(), inner.order.len()), (3, 3));
    }

    #[test]
    fn p8_windows_that_are_over_make_room_first() {
        let counter = WindowCounter::new(10_000, 2);
        for now_ms in [0, 1, 2] {
            counter.add('a', now_ms);
        }
        counter.add('b', 9_000);
        counter.add('c', 10_500);
        assert_eq!(counter.add('b', 10_501).count, 2, "'a' is over, although it had more events");
    }
}
