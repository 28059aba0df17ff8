//! Tickets of streams: takes the ticket out of a query, so that no handler sees it, and remembers which
//! streams a ticket opened, so that it can resume them.

use crate::domain::hex::hex;
use crate::ports::{RateWindow, RateWindows, SecretDigest};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ticket resumes its stream up to this time after the stream was last open, milliseconds.
const RESUME_MS: u64 = 10 * 60 * 1_000;
/// Streams that are remembered. Beyond it the one that was open least recently is forgotten: its reader
/// needs a new ticket.
const MOST_STREAMS: usize = 10_000;

/// The parameter's name.
const NAME: &str = "ticket=";

/// A ticket and the stream that it opened: the digest of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TicketStream(SecretDigest);

impl TicketStream {
    pub(crate) fn of(ticket: &str, path: &str) -> Self {
        Self(Sha256::new().chain_update(ticket).chain_update([0]).chain_update(path).finalize().into())
    }

    /// Its window in the counts of all nodes.
    fn with_window<T>(self, act: impl FnOnce(&RateWindow<'_>) -> T) -> T {
        act(&RateWindow { name: "ticket stream", owner: &hex(&self.0), window_ms: RESUME_MS, limit: 1 })
    }
}

/// The credential that a ticket was made with, beside the account and its generation: the stream of the
/// ticket ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct TicketOpener {
    /// The digest of the API key, from which nobody can compute the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<SecretDigest>,
    /// When the credential expires, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
}

/// When streams that tickets opened were last open. A restart forgets them, and nodes tell each other.
#[derive(Default)]
pub(crate) struct TicketStreams {
    open_at: Mutex<HashMap<TicketStream, TicketUse>>,
    /// `None`: there are no other nodes.
    windows: Option<Arc<dyn RateWindows>>,
}

/// Monotonic times, milliseconds.
#[derive(Debug, Clone, Copy)]
struct TicketUse {
    last_ms: u64,
    /// When the other nodes were told.
    told_ms: u64,
}

impl TicketStreams {
    pub(crate) fn new(windows: Option<Arc<dyn RateWindows>>) -> Self {
        Self { windows, ..Self::default() }
    }

    /// The stream is open at this time.
    pub(crate) fn record_open(&self, stream: TicketStream, now_ms: u64) {
        let told_ms = self.lock().get(&stream).map(|known| known.told_ms);
        let is_told = told_ms.is_some_and(|told_ms| now_ms.saturating_sub(told_ms) < RESUME_MS / 2);
        let told_ms = told_ms.filter(|_| is_told).unwrap_or(now_ms);
        self.remember(stream, TicketUse { last_ms: now_ms, told_ms });
        if let Some(windows) = self.windows.as_ref().filter(|_| !is_told) {
            let told = stream.with_window(|window| {
                windows.forget(window)?;
                windows.count(window, 1)
            });
            if let Err(error) = told {
                tracing::debug!(%error, "the other nodes do not know of a stream that a ticket opened");
            }
        }
    }

    fn remember(&self, stream: TicketStream, used: TicketUse) {
        let mut open_at = self.lock();
        if open_at.len() >= MOST_STREAMS && !open_at.contains_key(&stream) {
            open_at.retain(|_, known| used.last_ms.saturating_sub(known.last_ms) < RESUME_MS);
            let oldest = open_at.iter().min_by_key(|(_, known)| known.last_ms).map(|(stream, _)| *stream);
            if let (true, Some(oldest)) = (open_at.len() >= MOST_STREAMS, oldest) {
                open_at.remove(&oldest);
            }
        }
        open_at.insert(stream, used);
    }

    /// Whether the ticket opened this stream and may resume it.
    pub(crate) fn may_resume(&self, stream: TicketStream, now_ms: u64) -> bool {
        let known = self.lock().get(&stream).copied();
        let is_recent = known.is_some_and(|known| now_ms.saturating_sub(known.last_ms) < RESUME_MS);
        let is_open = |windows: &Arc<dyn RateWindows>| {
            stream.with_window(|window| windows.is_open(window)).unwrap_or(false)
        };
        is_recent || self.windows.as_ref().is_some_and(is_open)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TicketStream, TicketUse>> {
        self.open_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ticket and the query without it. A second ticket stays in the query, where the handler refuses it.
pub(crate) fn split_query(query: Option<&str>) -> (Option<String>, Option<String>) {
    let Some(query) = query else { return (None, None) };
    let mut ticket = None;
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.strip_prefix(NAME) {
            Some(value) if ticket.is_none() => ticket = Some(value.to_owned()),
            _ => rest.push(part),
        }
    }
    (ticket, Some(rest.join("&")).filter(|rest| !rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{CountedEvents, StoreError};

    #[test]
    fn a_ticket_resumes_only_the_stream_that_it_opened_for_ten_minutes() {
        let streams = TicketStreams::default();
        let opened = TicketStream::of("a", "/v1/jobs/1/events");
        assert!(!streams.may_resume(opened, 0));
        streams.record_open(opened, 5);
        assert!(streams.may_resume(opened, 4 + RESUME_MS) && !streams.may_resume(opened, 5 + RESUME_MS));
        for other in [TicketStream::of("a", "/v1/jobs/2/events"), TicketStream::of("b", "/v1/jobs/1/events")]
        {
            assert!(!streams.may_resume(other, 5));
        }
    }

    /// The windows that are open.
    #[derive(Default)]
    struct OpenWindows(Mutex<Vec<String>>);

    impl RateWindows for OpenWindows {
        fn count(&self, window: &RateWindow<'_>, events: u64) -> Result<CountedEvents, StoreError> {
            self.0.lock().unwrap().push(window.owner.to_owned());
            Ok(CountedEvents { counted: events, total: events, left_ms: window.window_ms })
        }
        fn uncount(&self, _: &RateWindow<'_>) -> Result<(), StoreError> {
            unreachable!("streams are not uncounted")
        }
        fn forget(&self, window: &RateWindow<'_>) -> Result<(), StoreError> {
            self.0.lock().unwrap().retain(|owner| owner != window.owner);
            Ok(())
        }
        fn is_open(&self, window: &RateWindow<'_>) -> Result<bool, StoreError> {
            Ok(self.0.lock().unwrap().iter().any(|owner| owner == window.owner))
        }
    }

    #[test]
    fn a_ticket_resumes_its_stream_at_another_node() {
        let windows = Arc::new(OpenWindows::default());
        let node = || TicketStreams::new(Some(Arc::<OpenWindows>::clone(&windows) as _));
        let (one, other) = (node(), node());
        let (opened, unknown) = (TicketStream::of("a", "/1"), TicketStream::of("a", "/2"));
        one.record_open(opened, 0);
        assert!(other.may_resume(opened, 0) && !other.may_resume(unknown, 0));
        windows.0.lock().unwrap().clear();
        one.record_open(opened, RESUME_MS / 2 - 1);
        assert!(!other.may_resume(opened, 0), "the others are told now and then");
        one.record_open(opened, RESUME_MS / 2);
        assert!(other.may_resume(opened, 0));
    }

    #[test]
    fn p8_only_so_many_streams_are_remembered() {
        let streams = TicketStreams::default();
        let stream = |number: usize| TicketStream::of(&number.to_string(), "/");
        for number in 0..=MOST_STREAMS {
            streams.record_open(stream(number), number as u64);
        }
        assert_eq!(streams.lock().len(), MOST_STREAMS);
        assert!(!streams.may_resume(stream(0), 0) && streams.may_resume(stream(MOST_STREAMS), 0));
    }

    #[test]
    fn the_first_ticket_is_removed_from_the_query() {
        let taken = |query| {
            let (ticket, rest) = split_query(Some(query));
            (ticket.unwrap_or_default(), rest.unwrap_or_default())
        };
        assert_eq!(taken("ticket=a.b.c"), ("a.b.c".into(), String::new()));
        assert_eq!(taken("format=delta&ticket=x&a=b"), ("x".into(), "format=delta&a=b".into()));
        assert_eq!(taken("ticket=x&ticket=y"), ("x".into(), "ticket=y".into()));
        assert_eq!(taken("tickets=1&ticket"), (String::new(), "tickets=1&ticket".into()));
        assert_eq!(split_query(None), (None, None));
    }
}
