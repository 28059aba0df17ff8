//! The callers of answers under way, and the signals that end their answers when they lose their access.

use super::caller::Caller;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Why an answer ends that is under way.
pub(crate) const ACCESS_LOST: &str = "the account or its credential is no longer valid";

/// The callers of answers under way.
#[derive(Debug, Default)]
pub(crate) struct WatchedCallers(Mutex<CallerWatches>);

#[derive(Debug, Default)]
struct CallerWatches {
    by_caller: HashMap<Caller, watch::Sender<bool>>,
    /// Somebody confirms them.
    is_confirming: bool,
}

/// Becomes ready when its caller has lost its access. Only `middleware::revocation` makes one: its caller is
/// then confirmed again and again.
#[derive(Debug, Clone)]
pub(crate) struct RevocationSignal(Option<watch::Receiver<bool>>);

impl RevocationSignal {
    /// The signal of a caller that always has its access.
    pub(crate) const NEVER: Self = Self(None);

    /// Waits until the caller has lost its access. Nothing is lost if the future is dropped.
    pub(crate) async fn revoked(&mut self) {
        let Some(is_revoked) = &mut self.0 else { return std::future::pending().await };
        // Only a caller that has lost its access has no sender any more.
        drop(is_revoked.wait_for(|is_revoked| *is_revoked).await);
    }
}

impl WatchedCallers {
    /// A signal for an answer to this caller, and whether the caller of this function now has to confirm all
    /// of them until [`Self::watched`] has none.
    pub(crate) fn watch(&self, caller: Caller) -> (RevocationSignal, bool) {
        let mut watches = self.lock();
        let sender = watches.by_caller.entry(caller).or_insert_with(|| watch::Sender::new(false));
        let signal = RevocationSignal(Some(sender.subscribe()));
        (signal, !std::mem::replace(&mut watches.is_confirming, true))
    }

    /// Those that have answers under way. When there are none, nobody confirms them any more.
    pub(crate) fn watched(&self) -> Vec<Caller> {
        let mut watches = self.lock();
        watches.by_caller.retain(|_, sender| sender.receiver_count() > 0);
        watches.is_confirming = !watches.by_caller.is_empty();
        watches.by_caller.keys().copied().collect()
    }

    /// The caller has lost its access.
    pub(crate) fn revoke(&self, caller: Caller) {
        if let Some(sender) = self.lock().by_caller.remove(&caller) {
            sender.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallerWatches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn all_answers_of_a_caller_end_at_once_and_a_new_one_begins_anew() {
        let (watched, caller) = (WatchedCallers::default(), Caller::SINGLE);
        let ((mut one, begins), (mut two, also_begins)) = (watched.watch(caller), watched.watch(caller));
        assert!(begins && !also_begins, "one task confirms all");
        assert_eq!(watched.watched(), [caller], "one look for both answers");
        assert!(one.revoked().now_or_never().is_none());
        watched.revoke(caller);
        assert!(one.revoked().now_or_never().is_some() && two.revoked().now_or_never().is_some());
        assert!(one.clone().revoked().now_or_never().is_some(), "it stays revoked");
        let (mut again, begins) = watched.watch(caller);
        assert!(!begins && again.revoked().now_or_never().is_none());
    }

    #[test]
    fn p8_callers_without_answers_are_forgotten() {
        let watched = WatchedCallers::default();
        drop(watched.watch(Caller::SINGLE));
        assert_eq!(watched.watched(), []);
        assert!(watched.watch(Caller::SINGLE).1, "the next one begins again");
        let mut never = RevocationSignal::NEVER;
        assert!(never.revoked().now_or_never().is_none());
    }
}
