//! Counts requests over all nodes with few statements: a node counts a part of the limit in advance and
//! spends it alone. The nodes never admit more than the limit together; what others have counted in advance
//! and do not spend is lost until the next window.

use super::window_counter::WindowCount;
use crate::ports::{RateWindow, RateWindows, StoreError};
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of the limit that a node counts in advance: a sixteenth.
const PARTS: u64 = 16;
/// Most owners of which this node knows the window. It asks again for those that it has forgotten.
const OWNERS: usize = 16_384;

/// The windows of one name.
pub(crate) struct ReservedWindows<K> {
    name: &'static str,
    window_ms: u64,
    limit: u64,
    windows: Arc<dyn RateWindows>,
    reserved: Mutex<HashMap<K, Reserved>>,
}

/// What this node knows of an owner's window.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    /// The end of the window, as in `Clock::monotonic_ms`.
    until_ms: u64,
    /// Requests of all nodes, as this node saw them last.
    total: u64,
    /// Those of them that this node may still spend.
    unspent: u64,
}

impl<K: Eq + Hash + Clone + Display> ReservedWindows<K> {
    pub(crate) fn new(
        name: &'static str,
        (window_ms, limit): (u64, u64),
        windows: Arc<dyn RateWindows>,
    ) -> Self {
        Self { name, window_ms, limit, windows, reserved: Mutex::default() }
    }

    /// Counts a request. Blocks now and then.
    pub(crate) fn add(&self, key: K, now_ms: u64) -> Result<WindowCount, StoreError> {
        if let Some(count) = self.spend(&key, now_ms) {
            return Ok(count);
        }
        let owner = key.to_string();
        let window =
            RateWindow { name: self.name, owner: &owner, window_ms: self.window_ms, limit: self.limit };
        let found = self.windows.count(&window, (self.limit / PARTS).max(1))?;
        let mut reserved = self.lock();
        // Another request may have counted some in advance meanwhile.
        let other =
            reserved.get(&key).filter(|known| known.until_ms > now_ms).map_or(0, |known| known.unspent);
        let known = Reserved {
            until_ms: now_ms.saturating_add(found.left_ms),
            total: found.total,
            unspent: other.saturating_add(found.counted),
        };
        if reserved.len() >= OWNERS && !reserved.contains_key(&key) {
            reserved.retain(|_, known| known.until_ms > now_ms);
            if reserved.len() >= OWNERS {
                reserved.clear();
            }
        }
        let (known, count) = known.spend(now_ms).unwrap_or((known, self.full(known, now_ms)));
        reserved.insert(key, known);
        Ok(count)
    }

    /// Counts a request without the other nodes; `None` if they have to be asked.
    fn spend(&self, key: &K, now_ms: u64) -> Option<WindowCount> {
        let mut reserved = self.lock();
        let known = reserved.get_mut(key).filter(|known| known.until_ms > now_ms)?;
        if let Some((spent, count)) = known.spend(now_ms) {
            *known = spent;
            return Some(count);
        }
        (known.total >= self.limit).then(|| self.full(*known, now_ms))
    }

    /// The count of a request that is refused.
    fn full(&self, known: Reserved, now_ms: u64) -> WindowCount {
        WindowCount { count: self.limit.saturating_add(1), left_ms: known.until_ms.saturating_sub(now_ms) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Reserved>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    fn spend(self, now_ms: u64) -> Option<(Self, WindowCount)> {
        let unspent = self.unspent.checked_sub(1)?;
        let left_ms = self.until_ms.saturating_sub(now_ms);
        let count = WindowCount { count: self.total.saturating_sub(unspent), left_ms };
        Some((Self { unspent, ..self }, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::CountedEvents;

    /// One window that several nodes share, and how often it was asked.
    #[derive(Default)]
    struct OneWindow(Mutex<(u64, u64)>);

    impl RateWindows for OneWindow {
        fn count(&self, window: &RateWindow<'_>, events: u64) -> Result<CountedEvents, StoreError> {
            let mut state = self.0.lock().unwrap();
            let counted = events.min(window.limit - state.0);
            *state = (state.0 + counted, state.1 + 1);
            Ok(CountedEvents { counted, total: state.0, left_ms: 1_000 })
        }
        fn uncount(&self, _: &RateWindow<'_>) -> Result<(), StoreError> {
            unreachable!("requests are not uncounted")
        }
        fn forget(&self, _: &RateWindow<'_>) -> Result<(), StoreError> {
            unreachable!("requests are not forgotten")
        }
        fn is_open(&self, _: &RateWindow<'_>) -> Result<bool, StoreError> {
            unreachable!("requests are only counted")
        }
    }

    #[test]
    fn p8_nodes_admit_the_limit_together_and_ask_for_a_sixteenth_at_a_time() {
        let shared = Arc::new(OneWindow::default());
        let node = || ReservedWindows::new("request", (1_000, 160), Arc::<OneWindow>::clone(&shared) as _);
        let nodes = [node(), node()];
        let counts: Vec<u64> = (0..400).map(|n| nodes[n % 2].add(7_u32, 0).unwrap().count).collect();
        assert_eq!(counts.iter().filter(|count| **count <= 160).count(), 160);
        assert_eq!(counts[..4], [1, 11, 2, 12], "unspent requests of this node are left");
        assert!(counts[200..].iter().all(|count| *count == 161));
        let asked = shared.0.lock().unwrap().1;
        assert!((16..=18).contains(&asked), "refusals cost nothing: {asked}");
    }

    #[test]
    fn a_window_that_is_over_is_asked_for_again_and_its_rest_is_not_spent() {
        let shared = Arc::new(OneWindow::default());
        let node = ReservedWindows::new("request", (1_000, 32), Arc::<OneWindow>::clone(&shared) as _);
        assert_eq!(node.add(1_u32, 0).unwrap(), WindowCount { count: 1, left_ms: 1_000 });
        assert_eq!(node.add(1, 999).unwrap(), WindowCount { count: 2, left_ms: 1 });
        shared.0.lock().unwrap().0 = 0;
        assert_eq!(node.add(1, 1_000).unwrap(), WindowCount { count: 1, left_ms: 1_000 });
        assert_eq!(shared.0.lock().unwrap().1, 2);
    }
}
