//! Responses: JSON, text, empty, file and stream, with the headers that each kind carries.

pub(crate) mod error;
pub(crate) mod file_body;
pub(crate) mod held;
pub(crate) mod stream_body;
pub(crate) mod upgrade;

use crate::http::error::ApiError;
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
use upgrade::Upgrade;

/// Names the job of a response whose body does not.
pub(crate) const X_JOB_ID: HeaderName = HeaderName::from_static("x-job-id");

/// Marks the response to a repeated `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The outcome of a handler.
pub(crate) type HandlerResult = Result<HttpResponse, ApiError>;

pub(crate) type HttpResponse = Response<ResponseBody>;

/// A complete body, one that is read while it is sent, or another protocol.
pub(crate) enum ResponseBody {
    Whole(Full<Bytes>),
    Pulled(StreamBody),
    File(FileBody),
    /// Behind the head of a 101; `None` once it was taken.
    Upgrade(Option<Upgrade>),
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
            Self::Upgrade(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Pulled(_) => false,
            Self::File(file) => file.left() == 0,
            Self::Upgrade(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Pulled(_) => SizeHint::default(),
            Self::Upgrade(_) => SizeHint::with_exact(0),
            Self::File(file) => SizeHint::with_exact(file.left()),
        }
    }
}

/// Bytes of a body that belongs to one response alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnBytes(pub(crate) usize);

/// JSON. It may hold private data, so no cache keeps it.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(mut text) => {
            text.push(b'\n'); // a terminal's prompt starts on its own line
            own(status, "application/json", text.into())
        }
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

pub(crate) fn text(status: StatusCode, text: String) -> HttpResponse {
    own(status, "text/plain; charset=utf-8", text.into())
}

pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(Full::default()));
    *response.status_mut() = status;
    response
}

/// A stream of a job's events.
pub(crate) fn events(content_type: &'static str, body: StreamBody) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Pulled(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// A stream of JSON lines.
pub(crate) fn lines(body: StreamBody) -> HttpResponse {
    events("application/jsonl", body)
}

/// A file; caches on the way may not keep it.
pub(crate) fn file(body: FileBody) -> HttpResponse {
    let mut response = Response::new(ResponseBody::File(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A file of this media type that is part of the binary.
pub(crate) fn bytes(content_type: &'static str, body: Bytes) -> HttpResponse {
    whole(StatusCode::OK, content_type, body)
}

/// JSON that was rendered before.
pub(crate) fn prepared(json: Bytes) -> HttpResponse {
    whole(StatusCode::OK, "application/json", json)
}

/// Sets a header. A value that no header can hold is left out.
pub(crate) fn set(response: &mut HttpResponse, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn own(status: StatusCode, content_type: &'static str, body: Bytes) -> HttpResponse {
    let bytes = OwnBytes(body.len());
    let mut response = whole(status, content_type, body);
    response.extensions_mut().insert(bytes);
    response
}

fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(Full::new(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
