//! The request that opens a WebSocket (RFC 6455, section 4.2).

use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::tokens::has_token;
use crate::http::response::error::ErrorFormat;
use crate::http::response::upgrade::Upgrade;
use crate::http::response::{self, HttpResponse, ResponseBody};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use hyper::header::{SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::{HeaderMap, Method, Response, StatusCode, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

const PROTOCOL: &str = "websocket";
/// The only version that was ever standardised.
const VERSION: &str = "13";
/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// A valid request for a WebSocket.
#[derive(Debug)]
pub(crate) struct Handshake {
    accept: String,
}

/// Why no WebSocket is opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// A plain request.
    #[error(
        "this address is for WebSockets: open it with 'Connection: Upgrade' and 'Upgrade: websocket'; a request for \
         one response is POST /v1/responses"
    )]
    NoUpgrade,
    #[error("the header 'Sec-WebSocket-Version' must be {VERSION}")]
    Version,
    #[error("{0}")]
    Malformed(&'static str),
}

impl HandshakeError {
    pub(crate) fn into_response(self) -> HttpResponse {
        let header = match self {
            Self::NoUpgrade => Some((UPGRADE, PROTOCOL)),
            Self::Version => Some((SEC_WEBSOCKET_VERSION, VERSION)),
            Self::Malformed(_) => None,
        };
        let error = match self {
            Self::Malformed(text) => ApiError::malformed(text),
            other => ApiError::Refused {
                status: StatusCode::UPGRADE_REQUIRED,
                code: "upgrade_required",
                message: other.to_string(),
            },
        };
        let mut response = error.into_response(ErrorFormat::Plain);
        if let Some((name, value)) = header {
            response::set(&mut response, name, value);
        }
        response
    }
}

impl Handshake {
    /// Reads the head of a request.
    pub(crate) fn of(request: &RequestContext, has_body: bool) -> Result<Self, HandshakeError> {
        let line = (&request.method, request.version);
        Self::read(line, &request.headers, has_body)
    }

    fn read(
        (method, version): (&Method, Version),
        headers: &HeaderMap,
        has_body: bool,
    ) -> Result<Self, HandshakeError> {
        if !has_token(headers, &UPGRADE, PROTOCOL) {
            return Err(HandshakeError::NoUpgrade);
        }
        if *method != Method::GET || version != Version::HTTP_11 {
            return Err(HandshakeError::Malformed("a WebSocket is opened with GET over HTTP/1.1"));
        }
        if !has_token(headers, &CONNECTION, "upgrade") {
            let text =
                "'Upgrade: websocket' needs 'Connection: Upgrade', which a proxy on the way may have removed";
            return Err(HandshakeError::Malformed(text));
        }
        if has_body {
            return Err(HandshakeError::Malformed("a request that opens a WebSocket has no body"));
        }
        if only(headers, &SEC_WEBSOCKET_VERSION) != Some(VERSION) {
            return Err(HandshakeError::Version);
        }
        let key = only(headers, &SEC_WEBSOCKET_KEY);
        let is_key = |key: &&str| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES);
        let Some(key) = key.filter(is_key) else {
            let text = "the header 'Sec-WebSocket-Key' must be 16 bytes in base64, given once";
            return Err(HandshakeError::Malformed(text));
        };
        Ok(Self { accept: derive_accept_key(key.as_bytes()) })
    }

    /// The response, behind which the connection belongs to `upgrade`.
    pub(crate) fn answer(self, upgrade: Upgrade) -> HttpResponse {
        let mut response = Response::new(ResponseBody::Upgrade(Some(upgrade)));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
        response::set(&mut response, SEC_WEBSOCKET_ACCEPT, &self.accept);
        response
    }
}

/// The value of a header that is given once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?.to_str().ok()?;
    lines.next().is_none().then_some(first.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn status(lines: &[(&'static str, &'static str)], line: (&Method, Version), has_body: bool) -> u16 {
        match Handshake::read(line, &headers(lines), has_body) {
            Ok(_) => 101,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    #[test]
    fn the_key_of_the_rfc_is_answered_as_the_rfc_has_it() {
        let read = Handshake::read((&Method::GET, Version::HTTP_11), &headers(&GOOD), false).expect("valid");
        assert_eq!(read.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn everything_else_is_refused() {
        let get = || (&Method::GET, Version::HTTP_11);
        assert_eq!(status(&GOOD, (&Method::HEAD, Version::HTTP_11), false), 400);
        assert_eq!(status(&GOOD, (&Method::GET, Version::HTTP_10), false), 400);
        assert_eq!(status(&GOOD, get(), true), 400, "a body");
        assert_eq!(status(&[], get(), false), 426);
        for (at, bad, expected) in
            [(0, "h2c", 426), (1, "keep-alive", 400), (2, "8", 426), (3, "short", 400), (3, "AAAA", 400)]
        {
            let mut lines = GOOD;
            lines[at].1 = bad;
            assert_eq!(status(&lines, get(), false), expected, "{bad}");
        }
        let twice: Vec<_> = GOOD.iter().chain(GOOD.last()).copied().collect();
        assert_eq!(status(&twice, get(), false), 400);
    }
}
