//! Tickets of streams: takes the ticket out of a query, so that no handler sees it, and remembers which
//! streams a ticket opened, so that it can resume them.

use crate::ports::SecretDigest;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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
}

/// When streams that tickets opened were last open, monotonic milliseconds. A restart forgets them.
#[derive(Debug, Default)]
pub(crate) struct TicketStreams(Mutex<HashMap<TicketStream, u64>>);

impl TicketStreams {
    /// The stream is open at this time.
    pub(crate) fn record_open(&self, stream: TicketStream, now_ms: u64) {
        let mut open_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open_at.len() >= MOST_STREAMS && !open_at.contains_key(&stream) {
            open_at.retain(|_, last_ms| now_ms.saturating_sub(*last_ms) < RESUME_MS);
            let oldest = open_at.iter().min_by_key(|(_, last_ms)| **last_ms).map(|(stream, _)| *stream);
            if let (true, Some(oldest)) = (open_at.len() >= MOST_STREAMS, oldest) {
                open_at.remove(&oldest);
            }
        }
        open_at.insert(stream, now_ms);
    }

    /// Whether the ticket opened this stream and may resume it.
    pub(crate) fn may_resume(&self, stream: TicketStream, now_ms: u64) -> bool {
        let open_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open_at.get(&stream).is_some_and(|last_ms| now_ms.saturating_sub(*last_ms) < RESUME_MS)
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

    #[test]
    fn p8_only_so_many_streams_are_remembered() {
        let streams = TicketStreams::default();
        let stream = |number: usize| TicketStream::of(&number.to_string(), "/");
        for number in 0..=MOST_STREAMS {
            streams.record_open(stream(number), number as u64);
        }
        assert_eq!(streams.0.lock().unwrap().len(), MOST_STREAMS);
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
