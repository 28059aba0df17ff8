//! One log line for each request, written when its response has ended. It holds nothing a client could hide
//! text in: no query, no header, no body, and of the path only the route.

use super::request_id::RequestId;
use crate::domain::log_rate_limit::LogRateLimit;
use crate::http::response::upgrade::Upgrade;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::server::client_socket::ActiveRequest;
use crate::http::shares::HeldShare;
use crate::ports::Clock;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Method, Response, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tracing::Level;

/// Bounds the lines per second, failures of the server apart from refusals: clients that are refused must
/// not hide them.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    faults: LogRateLimit,
    refusals: LogRateLimit,
}

impl LogThrottle {
    fn of(&self, level: Level) -> &LogRateLimit {
        if level == Level::WARN { &self.faults } else { &self.refusals }
    }
}

/// The log line of a request.
pub(crate) struct AccessLogEntry {
    pub(crate) throttle: Arc<LogThrottle>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) id: RequestId,
    pub(crate) method: Method,
    pub(crate) began_ms: u64,
    pub(crate) details: RequestDetails,
}

/// What becomes known while the request is handled.
#[derive(Default)]
pub(crate) struct RequestDetails {
    /// The pattern of its route.
    pub(crate) route: Option<&'static str>,
    pub(crate) job: Option<String>,
    /// Who asks, where there are accounts.
    pub(crate) user: Option<u32>,
    /// What went wrong in this server.
    pub(crate) error: Option<String>,
}

impl AccessLogEntry {
    /// Logs the response once its body has ended. A line that no level would show is not kept.
    /// What the request holds is free when its body has ended.
    pub(crate) fn follow(self, response: HttpResponse, held: Vec<HeldShare>) -> Response<MeteredBody> {
        let status = response.status();
        let is_logged = level(status) < Level::DEBUG || tracing::enabled!(Level::DEBUG);
        let entry = is_logged.then(|| Box::new((self, status)));
        response.map(|body| MeteredBody { body, bytes: 0, entry, _held: held, active: None })
    }

    pub(crate) fn log(&self, status: StatusCode, bytes: u64) {
        let now_ms = self.clock.monotonic_ms();
        let duration_ms = now_ms.saturating_sub(self.began_ms);
        let RequestDetails { route, job, user, error } = &self.details;
        let (request, method, route) = (&self.id, &self.method, route.unwrap_or("(none)"));
        let (job, user, error) = (job.as_deref(), *user, error.as_deref());
        let status_code = status.as_u16();
        let wanted = level(status);
        let free = if wanted == Level::DEBUG { None } else { self.throttle.of(wanted).enter(now_ms) };
        let held_back = free.filter(|count| *count > 0);
        macro_rules! line {
            ($level:expr) => {
                tracing::event!($level, %request, %method, route, status = status_code, duration_ms, bytes, job, user,
                    error, held_back, "request")
            };
        }
        match (free, wanted) {
            (Some(_), Level::WARN) => line!(Level::WARN),
            (Some(_), _) => line!(Level::INFO),
            (None, _) => line!(Level::DEBUG),
        }
    }
}

/// Failures of the server are warnings. 401 and 403 may be somebody who tries keys.
fn level(status: StatusCode) -> Level {
    match status {
        status if status.is_server_error() => Level::WARN,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Level::INFO,
        _ => Level::DEBUG,
    }
}

/// A response body that counts its bytes and logs the request at its end.
pub(crate) struct MeteredBody {
    body: ResponseBody,
    bytes: u64,
    entry: Option<Box<(AccessLogEntry, StatusCode)>>,
    _held: Vec<HeldShare>,
    /// Until the body has ended.
    active: Option<ActiveRequest>,
}

impl MeteredBody {
    /// The request is active until this body has ended.
    pub(crate) fn keep_active(&mut self, request: ActiveRequest) {
        self.active = Some(request);
    }

    /// Whether it may have nothing to send for a long time.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.body, ResponseBody::Pulled(_))
    }

    /// Whether it is the body of a 101.
    pub(crate) fn is_upgrade(&self) -> bool {
        matches!(self.body, ResponseBody::Upgrade(_))
    }

    /// The protocol that follows a 101.
    pub(crate) fn take_upgrade(&mut self) -> Option<Upgrade> {
        match &mut self.body {
            ResponseBody::Upgrade(upgrade) => upgrade.take(),
            _ => None,
        }
    }

    pub(crate) fn unlogged(response: HttpResponse) -> Response<Self> {
        response.map(|body| Self { body, bytes: 0, entry: None, _held: Vec::new(), active: None })
    }
}

impl Drop for MeteredBody {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            entry.0.log(entry.1, self.bytes);
        }
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = <ResponseBody as Body>::Error;

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
    fn info_lines_do_not_use_up_the_log_rate_limit_of_warnings() {
        let throttle = LogThrottle::default();
        for _ in 0..=LINES_PER_S {
            throttle.of(Level::INFO).enter(5_000);
        }
        assert_eq!(throttle.of(Level::INFO).enter(5_000), None);
        assert_eq!(throttle.of(Level::WARN).enter(5_000), Some(0));
    }

    #[test]
    fn successful_requests_are_logged_at_debug_only() {
        let of = |code| level(StatusCode::from_u16(code).expect("a status"));
        assert_eq!([200, 204, 302, 404, 409, 422, 429].map(of), [Level::DEBUG; 7]);
        assert_eq!(([401, 403].map(of), [500, 503, 507].map(of)), ([Level::INFO; 2], [Level::WARN; 3]));
    }
}
