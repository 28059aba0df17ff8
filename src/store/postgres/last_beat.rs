//! What this node knows from its last heartbeats.

use crate::ports::ClusterNode;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;

/// What the last heartbeats have found. Times are those of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct LastBeat {
    /// When the last heartbeat began that renewed the lease.
    pub(crate) renewed_ms: u64,
    /// When the database has answered last.
    pub(crate) answered_ms: u64,
    /// All nodes, without their jobs.
    pub(crate) nodes: Vec<ClusterNode>,
    /// Why the lease is lost.
    pub(crate) lost: Option<String>,
    /// The last time without an answer that was long enough to end leases: its begin and its end.
    pub(crate) outage: Option<(u64, u64)>,
}

/// Nodes beat at different moments: each may have beaten so long before the begin of an outage.
const BETWEEN_BEATS_MS: u64 = 2_000;

impl LastBeat {
    /// The database has answered at `now_ms`.
    pub(crate) fn note_answer(&mut self, now_ms: u64, lease: Duration) {
        if Duration::from_millis(now_ms.saturating_sub(self.answered_ms)) >= lease / 2 {
            self.outage = Some((self.answered_ms, now_ms));
        }
        self.answered_ms = now_ms;
    }

    /// Whether a node that was last heard of at `beat_ms` lived when the last outage of the database began:
    /// then it could not renew its lease, and no job is to blame.
    pub(crate) fn is_outage(&self, beat_ms: u64) -> bool {
        let lived = |(began_ms, ended_ms)| {
            beat_ms.saturating_add(BETWEEN_BEATS_MS) >= began_ms && beat_ms <= ended_ms
        };
        self.outage.is_some_and(lived)
    }
}

/// Whether the database hangs: a heartbeat got neither an answer nor a refusal in its time. A connection says
/// so much later, or never, and each request that waits for one holds a thread.
#[derive(Debug)]
pub(crate) struct Silence(watch::Sender<bool>);

impl Default for Silence {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Silence {
    /// Learns whether the last heartbeat was left without an answer.
    pub(crate) fn set(&self, is_silent: bool) {
        let is_new = self.0.send_replace(is_silent) != is_silent;
        if is_new && is_silent {
            tracing::error!("the database does not answer; requests get 503 until it does");
        } else if is_new {
            tracing::info!("the database answers again");
        }
    }

    /// Whether the database hangs.
    pub(crate) fn is_silent(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs this until it ends; `None`: the database hangs, so it was given up.
    pub(crate) async fn unless_silent<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut silence = self.0.subscribe();
        tokio::select! {
            biased;
            _ = silence.wait_for(|is_silent| *is_silent) => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_lived_when_the_database_went_away_did_not_crash() {
        let lease = Duration::from_secs(15);
        let mut last = LastBeat { answered_ms: 100_000, ..LastBeat::default() };
        last.note_answer(101_000, lease);
        assert!(!last.is_outage(100_500), "the database was there all the time");
        last.note_answer(121_000, lease);
        last.note_answer(122_000, lease);
        assert!(last.is_outage(100_200), "its next heartbeat met nobody");
        assert!(!last.is_outage(90_000), "it was dead before");
        assert!(!last.is_outage(121_500), "it came back, and died then");
    }

    #[tokio::test]
    async fn what_waits_for_a_silent_database_is_given_up() {
        let silence = Silence::default();
        assert_eq!(silence.unless_silent(std::future::ready(1)).await, Some(1));
        let hangs = silence.unless_silent(std::future::pending::<()>());
        let (given_up, ()) = tokio::join!(hangs, async { silence.set(true) });
        assert!(given_up.is_none() && silence.is_silent());
        assert_eq!(silence.unless_silent(std::future::ready(1)).await, None, "and nothing else begins");
        silence.set(false);
        assert_eq!(silence.unless_silent(std::future::ready(2)).await, Some(2));
    }
}
