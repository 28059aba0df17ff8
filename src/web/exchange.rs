//! One HTTP request of a tool and its response, decompressed within a size limit. Uses no proxy, follows no
//! redirect and reuses no connection.

use super::resolver::CheckedResolver;
use crate::net::{CallEnd, CallSlot, NetCall, NetClient, client_config, connector, decoded};
use crate::ports::{Semaphore, SemaphorePermit, WebError, WebMethod};
use std::io;
use ureq::config::Config;
use ureq::http::header::{CONTENT_TYPE, LOCATION};
use ureq::http::{HeaderMap, Request, Response};
use ureq::{Agent, Body};
use url::Url;

const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; NanoClaw/", env!("CARGO_PKG_VERSION"), ")");
/// Longest response head, bytes.
const HEADER_BYTES: usize = 32 * 1024;
/// Read buffer of a connection, bytes; a head must fit.
const INPUT_BYTES: usize = 64 * 1024;
/// Write buffer of a connection, bytes.
const OUTPUT_BYTES: usize = 16 * 1024;
/// A longer body is large.
const SMALL_BODY_BYTES: usize = 512 * 1024;
/// Large bodies in memory at once.
static LARGE_BODIES: Semaphore = Semaphore::new(6);
/// Size of one read, bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// Headers that tools cannot set.
const OWN_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "accept-encoding",
    "expect",
];

/// A client that connects only to addresses that the resolver permits.
pub(super) fn client(resolver: CheckedResolver) -> NetClient {
    NetClient::new(move |slot, tls| {
        Agent::with_parts(config(), connector(slot, tls), resolver.for_calls_in(slot))
    })
}

fn config() -> Config {
    client_config()
        .user_agent(USER_AGENT)
        .max_response_header_size(HEADER_BYTES)
        .input_buffer_size(INPUT_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        // A kept connection would skip the check of its address.
        .max_idle_connections(0)
        .max_idle_connections_per_host(0)
        .build()
}

/// A request of a tool.
#[derive(Debug, Clone)]
pub(super) struct OutgoingRequest {
    /// Without a fragment.
    pub(super) url: Url,
    pub(super) method: WebMethod,
    /// In addition to the headers of every request.
    pub(super) headers: Vec<(String, String)>,
}

/// A response whose body has not been read.
#[derive(Debug)]
pub(super) struct UnreadResponse {
    pub(super) status: u16,
    /// The target of a redirect.
    pub(super) location: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) head: Response<Body>,
}

/// Sends a request and reads the head of the response.
pub(super) fn send(call: &NetCall<'_>, sending: &OutgoingRequest) -> Result<UnreadResponse, WebError> {
    let mut builder = Request::builder().uri(sending.url.as_str());
    let own = |name: &str| OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
    for (name, value) in sending.headers.iter().filter(|(name, _)| !own(name)) {
        builder = builder.header(name, value);
    }
    let unusable = |_| WebError::BadUrl("the address or a header cannot be sent".to_owned());
    let answer = match &sending.method {
        WebMethod::Get => call.agent().run(builder.body(()).map_err(unusable)?),
        WebMethod::Post(content_type, body) => {
            let builder = builder.method("POST").header(CONTENT_TYPE, content_type);
            call.agent().run(builder.body(body.clone()).map_err(unusable)?)
        }
    };
    let head = answer.map_err(|error| failure(error, &sending.url))?;
    let status = head.status().as_u16();
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    Ok(UnreadResponse {
        status,
        location: header(head.headers(), LOCATION.as_str()).filter(|_| is_redirect),
        content_type: header(head.headers(), CONTENT_TYPE.as_str()),
        head,
    })
}

/// A header as text; bytes beyond ASCII are read as UTF-8, as browsers do.
fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A decompressed body.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub(super) bytes: Vec<u8>,
    /// Of a large body.
    pub(super) permit: Option<SemaphorePermit>,
}

/// Reads a body. A large one waits while there are too many of them.
pub(super) fn body(head: Response<Body>, slot: &CallSlot, max_bytes: usize) -> Result<ReadBody, WebError> {
    let too_large = WebError::TooLarge { max_bytes };
    if head.body().content_length().is_some_and(|bytes| bytes > u64::try_from(max_bytes).unwrap_or(u64::MAX))
    {
        return Err(too_large);
    }
    let mut reader = decoded(head).ok_or_else(|| {
        WebError::Unreachable("the server packs its answer in a way that was not asked for".to_owned())
    })?;
    let (mut whole, mut piece, mut permit) = (Vec::new(), vec![0; PIECE_BYTES], None);
    loop {
        // Decompression can go on for long without reading from the network.
        slot.check().map_err(|_| WebError::Stopped)?;
        let count = match reader.read(&mut piece) {
            Ok(0) => return Ok(ReadBody { bytes: whole, permit }),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(&error)),
        };
        if whole.len().saturating_add(count) > max_bytes {
            return Err(too_large);
        }
        if permit.is_none() && whole.len().saturating_add(count) > SMALL_BODY_BYTES {
            let acquired = LARGE_BODIES.acquire(|| slot.check().is_err());
            permit = Some(acquired.ok_or(WebError::Stopped)?);
        }
        whole.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

fn broken(error: &io::Error) -> WebError {
    if CallEnd::of(error) == Some(CallEnd::Cancelled) {
        return WebError::Stopped;
    }
    WebError::Unreachable("the answer broke off or cannot be unpacked".to_owned())
}

fn failure(error: ureq::Error, url: &Url) -> WebError {
    use ureq::Error::{
        BadUri, ConnectionFailed, HostNotFound, Http, Io, LargeResponseHeader, Other, Rustls, Tls,
    };
    let host = url.host_str().unwrap_or_default();
    let words = match error {
        Other(inner) => match inner.downcast::<WebError>() {
            Ok(own) => return *own,
            Err(_) => "the request failed".to_owned(),
        },
        Io(error) if CallEnd::of(&error) == Some(CallEnd::Cancelled) => return WebError::Stopped,
        Io(error) if CallEnd::of(&error) == Some(CallEnd::ConnectTimeout) => {
            format!("no connection to '{host}': {}", io::ErrorKind::TimedOut)
        }
        Io(error) => format!("no connection to '{host}': {}", error.kind()),
        HostNotFound => format!("there is no host of the name '{host}'"),
        ConnectionFailed => format!("no connection to '{host}'"),
        Rustls(error) => format!("no safe connection to '{host}': {error}"),
        Tls(reason) => format!("no safe connection to '{host}': {reason}"),
        LargeResponseHeader(..) => "the head of the answer is too long".to_owned(),
        BadUri(_) | Http(_) => return WebError::BadUrl("the address cannot be used".to_owned()),
        _ => format!("'{host}' does not speak HTTP as it should"),
    };
    WebError::Unreachable(words)
}
