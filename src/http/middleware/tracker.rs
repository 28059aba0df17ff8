//! Follows a request from its head to its answer, for metrics and the access log. A client that leaves before
//! the answer is recorded, too.

use super::access_log::{AccessLogEntry, MeteredBody, RequestDetails};
use super::measurement;
use super::request_id::RequestId;
use crate::http::auth::RateLimitStatus;
use crate::http::context::ServerContext;
use crate::http::response::{self, HttpResponse};
use crate::http::shares::HeldShare;
use crate::ports::Measurement;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;

/// Filled in while a request is handled; used by its response and by the log.
#[derive(Default)]
pub(crate) struct RequestNotes {
    pub(crate) rate_limit: Option<RateLimitStatus>,
    /// The origin of the page that sent the request, if that page is allowed.
    pub(crate) origin: Option<HeaderValue>,
    pub(crate) details: RequestDetails,
    /// The places of its user and of its address among the requests under way, and the memory of a large
    /// answer.
    pub(crate) held: Vec<HeldShare>,
    /// The route does not have the method. Counted as `other`, so that clients cannot add label values to
    /// the metrics.
    pub(crate) is_unknown_method: bool,
}

/// The status recorded for a client that left before the response began, as nginx does.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// A request until its response begins. Dropped before that, it records that the client left.
pub(crate) struct RequestTracker<'c> {
    context: &'c ServerContext,
    method: &'static str,
    begun_us: u64,
    pub(crate) notes: RequestNotes,
    /// `None` once the response has begun.
    entry: Option<AccessLogEntry>,
}

impl<'c> RequestTracker<'c> {
    pub(crate) fn begin(context: &'c ServerContext, method: &Method, id: &RequestId) -> Self {
        let clock = &context.app.clock;
        let entry = AccessLogEntry {
            throttle: Arc::clone(&context.log_throttle),
            clock: Arc::clone(clock),
            id: id.clone(),
            method: method.clone(),
            began_ms: clock.monotonic_ms(),
            details: RequestDetails::default(),
        };
        let (method, begun_us) = (measurement::method_label(method), clock.monotonic_us());
        Self { context, method, begun_us, notes: RequestNotes::default(), entry: Some(entry) }
    }

    fn record(&self, status: u16) {
        let took_us = self.context.app.clock.monotonic_us().saturating_sub(self.begun_us);
        let method = if self.notes.is_unknown_method { measurement::OTHER } else { self.method };
        let route = self.notes.details.route;
        self.context.app.meter.record(Measurement::Answered { method, route, status, took_us });
    }

    /// The response begins: it is counted now and logged when its body has ended.
    pub(crate) fn answered(mut self, response: HttpResponse) -> Response<MeteredBody> {
        self.record(response.status().as_u16());
        let held = std::mem::take(&mut self.notes.held);
        let Some(entry) = self.entry.take() else { return MeteredBody::unlogged(response) };
        let mut details = std::mem::take(&mut self.notes.details);
        details.job = details.job.or_else(|| new_job(response.headers()));
        AccessLogEntry { details, ..entry }.follow(response, held)
    }
}

impl Drop for RequestTracker<'_> {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        self.record(CLIENT_CLOSED_REQUEST);
        if let Ok(status) = StatusCode::from_u16(CLIENT_CLOSED_REQUEST) {
            AccessLogEntry { details: std::mem::take(&mut self.notes.details), ..entry }.log(status, 0);
        }
    }
}

/// The job that the request has made.
fn new_job(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(response::X_JOB_ID)?.to_str().ok()?;
    Some(id.to_owned())
}
