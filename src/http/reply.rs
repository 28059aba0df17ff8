//! Answers. Owns their shapes (JSON, text, empty, stream) and the headers that all of one shape carry; refuses to
//! decide what is said.

use super::file_body::FileBody;
use super::stream::PulledBody;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The name of the header that carries a job's id beside a body that does not.
pub(crate) const X_JOB_ID: HeaderName = HeaderName::from_static("x-job-id");

/// The name of the header that marks the outcome of an earlier request with the same `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// An answer on its way to the socket.
pub(crate) type Reply = Response<ReplyBody>;

/// A body that is there, or one that is pulled out of the log.
pub(crate) enum ReplyBody {
    Whole(Full<Bytes>),
    Pulled(PulledBody),
    File(FileBody),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = super::stream::Cut;

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
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
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
pub(crate) fn text(status: StatusCode, text: String) -> Reply {
    whole(status, "text/plain; charset=utf-8", text.into())
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::default()));
    *reply.status_mut() = status;
    reply
}

/// A stream of a job's events.
pub(crate) fn events(content_type: &'static str, body: PulledBody) -> Reply {
    let mut reply = Response::new(ReplyBody::Pulled(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

/// A stream of JSON lines.
pub(crate) fn lines(body: PulledBody) -> Reply {
    events("application/jsonl", body)
}

/// A file, to be kept by whoever asked and by nobody in between.
pub(crate) fn file(body: FileBody) -> Reply {
    let mut reply = Response::new(ReplyBody::File(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// JSON that was made before.
pub(crate) fn prepared(json: Bytes) -> Reply {
    whole(StatusCode::OK, "application/json", json)
}

/// Sets a header whose value is made of this server's own words; one that no header can hold is left out.
pub(crate) fn set(reply: &mut Reply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::new(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
