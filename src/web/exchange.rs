//! One request and its answer. Owns the HTTP client, the unpacking and the bound on what is unpacked; refuses redirects
//! (whoever asks decides), proxies, and to use a connection twice.

use super::resolver::CheckedResolver;
use super::tether::{self, RequestTether};
use crate::net::connector;
use crate::ports::{WebError, WebMethod};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use std::io::{self, Read};
use ureq::http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use ureq::http::{HeaderMap, Request, Response};
use ureq::{Agent, Body};
use url::Url;

/// What the web is told of who asks.
const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; NanoClaw/", env!("CARGO_PKG_VERSION"), ")");
/// The longest head of an answer, bytes.
const HEADER_BYTES: usize = 32 * 1024;
/// Read buffer of a connection, bytes; a head must fit.
const INPUT_BYTES: usize = 64 * 1024;
/// Write buffer of a connection, bytes.
const OUTPUT_BYTES: usize = 16 * 1024;
/// Read at once, bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// Headers that are the connection's own.
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

/// A client that goes where its resolver lets it. Its waits end with the tether.
pub(super) fn agent(resolver: CheckedResolver) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(USER_AGENT)
        .max_response_header_size(HEADER_BYTES)
        .input_buffer_size(INPUT_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        // Each connection goes where its own lookup led.
        .max_idle_connections(0)
        .max_idle_connections_per_host(0)
        .build();
    Agent::with_parts(config, connector(&RequestTether), resolver)
}

/// What is sent.
#[derive(Debug, Clone)]
pub(super) struct Sending {
    /// Without a fragment.
    pub(super) url: Url,
    /// How.
    pub(super) method: WebMethod,
    /// Beside those that every request has.
    pub(super) headers: Vec<(String, String)>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Where it redirects to, if it does.
    pub(super) location: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) head: Response<Body>,
}

/// Sends, and reads the head of the answer.
pub(super) fn send(agent: &Agent, sending: &Sending) -> Result<Reply, WebError> {
    let mut builder = Request::builder().uri(sending.url.as_str());
    let own = |name: &str| OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
    for (name, value) in sending.headers.iter().filter(|(name, _)| !own(name)) {
        builder = builder.header(name, value);
    }
    let unusable = |_| WebError::BadUrl("the address or a header cannot be sent".to_owned());
    let answer = match &sending.method {
        WebMethod::Get => agent.run(builder.body(()).map_err(unusable)?),
        WebMethod::Post(content_type, body) => {
            let builder = builder.method("POST").header(CONTENT_TYPE, content_type);
            agent.run(builder.body(body.clone()).map_err(unusable)?)
        }
    };
    let head = answer.map_err(|error| failure(error, &sending.url))?;
    let status = head.status().as_u16();
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    Ok(Reply {
        status,
        location: header(head.headers(), LOCATION.as_str()).filter(|_| is_redirect),
        content_type: header(head.headers(), CONTENT_TYPE.as_str()),
        head,
    })
}

/// As text; bytes that are no ASCII are taken for UTF-8, as browsers take them.
fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The body, unpacked, of at most so many bytes.
pub(super) fn body(head: Response<Body>, max_bytes: usize) -> Result<Vec<u8>, WebError> {
    let too_large = WebError::TooLarge { max_bytes };
    if head.body().content_length().is_some_and(|bytes| bytes > u64::try_from(max_bytes).unwrap_or(u64::MAX))
    {
        return Err(too_large);
    }
    let mut reader = unpacked(head)?;
    let (mut whole, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        // What is unpacked of little input asks nobody in between.
        tether::check().map_err(|_| WebError::Stopped)?;
        let count = match reader.read(&mut piece) {
            Ok(0) => return Ok(whole),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(&error)),
        };
        if whole.len().saturating_add(count) > max_bytes {
            return Err(too_large);
        }
        whole.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

/// `ureq` undoes plain `gzip` itself and takes the header away; this is what is left.
fn unpacked(head: Response<Body>) -> Result<Box<dyn Read>, WebError> {
    let coding = header(head.headers(), CONTENT_ENCODING.as_str()).unwrap_or_default();
    let body = head.into_body().into_reader();
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" | "none" => Ok(Box::new(body)),
        "gzip" | "x-gzip" => Ok(Box::new(MultiGzDecoder::new(body))),
        "deflate" => Ok(Box::new(ZlibDecoder::new(body))),
        _ => {
            let words = "the server packs its answer in a way that was not asked for";
            Err(WebError::Unreachable(words.to_owned()))
        }
    }
}

fn broken(error: &io::Error) -> WebError {
    if tether::is_cut(error) {
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
        Io(error) if tether::is_cut(&error) => return WebError::Stopped,
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
