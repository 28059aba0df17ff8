//! One line in the server's log for each request, when its answer is over. Owns what is told of a request and how loudly;
//! refuses to tell what a client may hide in it: no query, no header, no body, and of a path the route alone.

use super::reply::{Reply, ReplyBody};
use super::request_id::RequestId;
use crate::domain::log_rate_limit::LogRateLimit;
use crate::ports::Clock;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Method, Response, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tracing::Level;

/// How many lines there were lately: clients that are refused in a rush must not drown the rest of the log, least of all
/// what this server fails at.
#[derive(Debug, Default)]
pub(crate) struct Rush {
    faults: LogRateLimit,
    refusals: LogRateLimit,
}

impl Rush {
    /// What there is for lines as loud as this.
    fn of(&self, wanted: Level) -> &LogRateLimit {
        if wanted == Level::WARN { &self.faults } else { &self.refusals }
    }
}

/// A request under way, as the log tells of it.
pub(crate) struct Line {
    pub(crate) rush: Arc<Rush>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) id: RequestId,
    pub(crate) method: Method,
    pub(crate) began_ms: u64,
    pub(crate) about: About,
}

/// What is found out about it on its way.
#[derive(Default)]
pub(crate) struct About {
    /// The pattern of its route.
    pub(crate) route: Option<&'static str>,
    /// The job that it is about.
    pub(crate) job: Option<String>,
    /// Who asks, where there are accounts.
    pub(crate) user: Option<u32>,
    /// What went wrong with this server.
    pub(crate) error: Option<String>,
}

impl Line {
    /// Lets the answer go, and tells when it is over. What nobody would read is not kept for it.
    pub(crate) fn follow(self, reply: Reply) -> Response<Metered> {
        let status = reply.status();
        let is_told = loudness(status) < Level::DEBUG || tracing::enabled!(Level::DEBUG);
        let line = is_told.then(|| Box::new((self, status)));
        reply.map(|body| Metered { body, bytes: 0, line })
    }

    /// Tells of a client that left before there was an answer.
    pub(crate) fn leave(&self, status: StatusCode) {
        self.tell(status, 0);
    }

    fn tell(&self, status: StatusCode, bytes: u64) {
        let now_ms = self.clock.monotonic_ms();
        let duration_ms = now_ms.saturating_sub(self.began_ms);
        let About { route, job, user, error } = &self.about;
        let (request, method, route) = (&self.id, &self.method, route.unwrap_or("(none)"));
        let (job, user, error) = (job.as_deref(), *user, error.as_deref());
        let status_code = status.as_u16();
        let wanted = loudness(status);
        let room = if wanted == Level::DEBUG { None } else { self.rush.of(wanted).enter(now_ms) };
        let held_back = room.filter(|count| *count > 0);
        macro_rules! tell {
            ($level:expr) => {
                tracing::event!($level, %request, %method, route, status = status_code, duration_ms, bytes, job, user,
                    error, held_back, "request")
            };
        }
        match (room, wanted) {
            (Some(_), Level::WARN) => tell!(Level::WARN),
            (Some(_), _) => tell!(Level::INFO),
            (None, _) => tell!(Level::DEBUG),
        }
    }
}

/// What the server failed at is somebody's to mend, and who is not let in may be trying keys.
fn loudness(status: StatusCode) -> Level {
    match status {
        status if status.is_server_error() => Level::WARN,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Level::INFO,
        _ => Level::DEBUG,
    }
}

/// An answer's body that counts what is sent of it, and tells when it is over.
pub(crate) struct Metered {
    body: ReplyBody,
    bytes: u64,
    line: Option<Box<(Line, StatusCode)>>,
}

impl Metered {
    /// An answer of which nothing is told.
    pub(crate) fn untold(reply: Reply) -> Response<Self> {
        reply.map(|body| Self { body, bytes: 0, line: None })
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if let Some(told) = &self.line {
            told.0.tell(told.1, self.bytes);
        }
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = <ReplyBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.bytes = self.bytes.saturating_add(data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::log_rate_limit::LINES_PER_S;

    #[test]
    fn refused_callers_cannot_hide_what_the_server_fails_at() {
        let rush = Rush::default();
        for _ in 0..=LINES_PER_S {
            rush.of(Level::INFO).enter(5_000);
        }
        assert_eq!(rush.of(Level::INFO).enter(5_000), None);
        assert_eq!(rush.of(Level::WARN).enter(5_000), Some(0));
    }

    #[test]
    fn what_goes_well_is_told_to_who_asks_for_it_alone() {
        let of = |code| loudness(StatusCode::from_u16(code).expect("a status"));
        assert_eq!([200, 204, 302, 404, 409, 422, 429].map(of), [Level::DEBUG; 7]);
        assert_eq!(([401, 403].map(of), [500, 503, 507].map(of)), ([Level::INFO; 2], [Level::WARN; 3]));
    }
}
