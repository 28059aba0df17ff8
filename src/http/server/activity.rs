//! What a connection does: it serves a request, or it waits for its client. When all places are taken, those
//! that wait are closed, and a connection that is being closed begins no request.

use crate::http::shares::ShareOwner;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// In place of a time: a request is under way.
const SERVING: u64 = u64::MAX;
/// In place of a time: the connection is being closed.
const CLOSING: u64 = u64::MAX - 1;
/// In place of a time: its client takes and sends what it should.
const NEVER: u64 = u64::MAX;

/// A client that neither reads its answer nor sends its body for so long is waited for.
const STALLED: Duration = Duration::from_millis(250);

/// What the server waits for. The lesser one is closed first: requests before transfers, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientWait {
    /// A complete head; or the end of a refused connection.
    Request(Instant),
    /// A body, or the reader of an answer.
    Transfer(Instant),
}

/// Times are milliseconds since `opened_at`.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    opened_at: Instant,
    /// Since when no request is under way.
    idle_ms: AtomicU64,
    /// Since when the client neither reads nor sends.
    stalled_ms: AtomicU64,
    /// The user of the newest request, or its address.
    holder: Mutex<Option<ShareOwner>>,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        Self {
            opened_at: Instant::now(),
            idle_ms: AtomicU64::new(0),
            stalled_ms: AtomicU64::new(NEVER),
            holder: Mutex::default(),
        }
    }
}

impl ConnectionActivity {
    /// Fails if the connection is being closed.
    pub(super) fn begin_request(&self) -> bool {
        let begin = |idle_ms| (idle_ms != CLOSING).then_some(SERVING);
        self.idle_ms.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok()
    }

    /// Fails if the connection is being closed.
    pub(super) fn end_request(&self) -> bool {
        self.idle_ms.compare_exchange(SERVING, self.now_ms(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the client has to read or to send before something can go on.
    pub(super) fn set_stalled(&self, is_stalled: bool) {
        let since_ms = self.stalled_ms.load(Ordering::Relaxed);
        if is_stalled && since_ms == NEVER {
            self.stalled_ms.store(self.now_ms(), Ordering::Relaxed);
        } else if !is_stalled && since_ms != NEVER {
            self.stalled_ms.store(NEVER, Ordering::Relaxed);
        }
    }

    pub(super) fn set_holder(&self, holder: ShareOwner) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(holder);
    }

    pub(super) fn holder(&self) -> Option<ShareOwner> {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.idle_ms.load(Ordering::Acquire) == CLOSING
    }

    /// What the server waits for, if it waits.
    pub(super) fn client_wait(&self) -> Option<ClientWait> {
        let at = |ms| self.opened_at + Duration::from_millis(ms);
        match (self.idle_ms.load(Ordering::Acquire), self.stalled_ms.load(Ordering::Relaxed)) {
            (CLOSING, _) | (SERVING, NEVER) => None,
            (since_ms, NEVER) => Some(ClientWait::Request(at(since_ms))),
            // The end of an answer may wait for its reader, although the request has ended.
            (_, since_ms) => {
                Some(at(since_ms)).filter(|at| at.elapsed() >= STALLED).map(ClientWait::Transfer)
            }
        }
    }

    /// Closes a connection that waits: from now on it begins no request. Fails if it has begun one.
    pub(super) fn close(&self, wait: ClientWait) -> bool {
        let close = |idle_ms| match (idle_ms, wait) {
            (CLOSING, _) | (SERVING, ClientWait::Request(_)) => None,
            _ => Some(CLOSING),
        };
        self.idle_ms.fetch_update(Ordering::AcqRel, Ordering::Acquire, close).is_ok()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened_at.elapsed().as_millis()).map_or(NEVER - 2, |ms| ms.min(NEVER - 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_its_client_between_requests_and_in_stalled_transfers() {
        let activity = ConnectionActivity::default();
        let opened = activity.client_wait().expect("no head has come");
        assert!(activity.begin_request());
        assert_eq!(activity.client_wait(), None);
        activity.set_stalled(true);
        assert_eq!(activity.client_wait(), None, "not at once");
        tokio::time::advance(STALLED).await;
        assert!(
            matches!(activity.client_wait(), Some(stalled @ ClientWait::Transfer(_)) if stalled > opened)
        );
        activity.set_stalled(false);
        assert_eq!(activity.client_wait(), None);
        assert!(activity.end_request());
        activity.set_stalled(true);
        assert_eq!(activity.client_wait(), None, "the end of the answer is under way");
        activity.set_stalled(false);
        assert!(matches!(activity.client_wait(), Some(idle @ ClientWait::Request(_)) if idle > opened));
    }

    #[tokio::test]
    async fn a_connection_that_is_being_closed_begins_no_request_and_one_that_serves_is_not_closed() {
        let activity = ConnectionActivity::default();
        let wait = activity.client_wait().expect("no head has come");
        assert!(activity.begin_request() && !activity.close(wait));
        assert!(activity.end_request() && activity.close(wait) && !activity.close(wait));
        assert!(!activity.begin_request() && !activity.end_request());
        assert_eq!((activity.is_closing(), activity.client_wait()), (true, None));
    }
}
