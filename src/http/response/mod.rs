//! Answers. Owns their shapes (JSON, text, empty, stream) and the headers that all of one shape carry; refuses to
//! decide what is said.

pub(crate) mod error;
pub(crate) mod file_body;
pub(crate) mod stream_body;

use bytes::Bytes;
use file_body::FileBody;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use stream_body::StreamBody;

/// The name of the header that carries a job's id beside a body that does not.
pub(crate) const X_JOB_ID: HeaderName = HeaderName::from_static("x-job-id");

/// The name of the header that marks the outcome of an earlier request with the same `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// An answer on its way to the socket.
pub(crate) type HttpResponse = Response<ResponseBody>;

/// A body that is there, or one that is pulled out of the log.
pub(crate) enum ResponseBody {
    Whole(Full<Bytes>),
    Pulled(StreamBody),
    File(FileBody),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = crate::http::response::stream_body::BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx).map_err(|never: Infallible| match never {}),
            Self::Pulled(events) => Pin::new(events).poll_frame(cx),
            Self::File(file) => file.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Pulled(_) => false,
            Self::File(file) => file.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Pulled(_) => SizeHint::default(),
            Self::File(file) => SizeHint::with_exact(file.left()),
        }
    }
}

/// A JSON answer. It may speak of a user's job: no cache keeps it.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(mut text) => {
            text.push(b'\n'); // a terminal's prompt starts on its own line
            whole(status, "application/json", text.into())
        }
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// A plain text, exactly as it is.
pub(crate) fn text(status: StatusCode, text: String) -> HttpResponse {
    whole(status, "text/plain; charset=utf-8", text.into())
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut reply = Response::new(ResponseBody::Whole(Full::default()));
    *reply.status_mut() = status;
    reply
}

/// A stream of a job's events.
pub(crate) fn events(content_type: &'static str, body: StreamBody) -> HttpResponse {
    let mut reply = Response::new(ResponseBody::Pulled(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

/// A stream of JSON lines.
pub(crate) fn lines(body: StreamBody) -> HttpResponse {
    events("application/jsonl", body)
}

/// A file, to be kept by whoever asked and by nobody in between.
pub(crate) fn file(body: FileBody) -> HttpResponse {
    let mut reply = Response::new(ResponseBody::File(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// JSON that was made before.
pub(crate) fn prepared(json: Bytes) -> HttpResponse {
    whole(StatusCode::OK, "application/json", json)
}

/// Sets a header whose value is made of this server's own words; one that no header can hold is left out.
pub(crate) fn set(reply: &mut HttpResponse, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> HttpResponse {
    let mut reply = Response::new(ResponseBody::Whole(Full::new(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
