//! HTTP requests of tools, to public addresses only.
//!
//! A guest's request is checked three times: its URL ([`destination`]), each redirect before it is followed,
//! and each address of a name when the connection is made ([`resolver`]). The last check is the boundary.

mod destination;
mod exchange;
pub mod options;
mod resolver;

use crate::domain::address::{AddressPolicy, AddressRangeError};
use crate::net::{CallTimeouts, NameSource, NetCall, NetClient, SystemNames};
use crate::ports::{CancelToken, UrlTrust, Web, WebError, WebMethod, WebRequest, WebResponse};
use exchange::OutgoingRequest;
pub use options::WebOptions;
use resolver::CheckedResolver;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The timeout of a request ends all of its waits; only the time for TCP connections is shorter.
const TIMEOUTS: CallTimeouts = CallTimeouts {
    connect: Duration::MAX,
    dial: Duration::from_secs(10),
    idle: Duration::MAX,
    stall: Duration::MAX,
};

/// The web for tools.
#[derive(Debug)]
pub struct GuardedWeb {
    policy: AddressPolicy,
    guests: NetClient,
    operators: NetClient,
    timeout_s: u64,
    max_bytes: usize,
}

impl GuardedWeb {
    /// Fails with the index of an invalid address range.
    pub fn new(options: &WebOptions) -> Result<Self, (usize, AddressRangeError)> {
        Self::over(options, &(Arc::new(SystemNames) as Arc<dyn NameSource>))
    }

    fn over(options: &WebOptions, names: &Arc<dyn NameSource>) -> Result<Self, (usize, AddressRangeError)> {
        let policy = AddressPolicy::new(&options.allow_private_addresses)?;
        let client = |policy| exchange::client(CheckedResolver::new(policy, Arc::clone(names)));
        Ok(Self {
            guests: client(Some(policy.clone())),
            operators: client(None),
            policy,
            timeout_s: options.timeout_s,
            max_bytes: options.max_bytes,
        })
    }

    fn follow(&self, request: &WebRequest, call: &NetCall<'_>) -> Result<WebResponse, WebError> {
        let max_bytes = request.max_bytes.min(self.max_bytes);
        let (method, headers) = (request.method.clone(), request.headers.clone());
        let mut sending = OutgoingRequest { url: destination::parse(&request.url)?, method, headers };
        if request.trust == UrlTrust::Operator {
            return read(exchange::send(call, &sending)?, &sending.url, call, max_bytes);
        }
        let requested = sending.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            destination::check(&sending.url, &self.policy)?;
            let response = exchange::send(call, &sending)?;
            let Some(location) = &response.location else {
                return read(response, &sending.url, call, max_bytes);
            };
            let next = destination::redirect_target(&sending.url, location)?;
            if request.trust == UrlTrust::Bound && !is_same_origin(&requested, &next) {
                return Err(WebError::Redirects(format!(
                    "it redirects to another host ('{}'), which is not followed here",
                    next.host_str().unwrap_or_default()
                )));
            }
            sending = redirected(sending, next, response.status);
        }
        Err(WebError::Redirects(format!("it redirects more than {MAX_REDIRECTS} times")))
    }
}

impl Web for GuardedWeb {
    fn send(&self, request: &WebRequest, cancel: &CancelToken) -> Result<WebResponse, WebError> {
        let client = if request.trust == UrlTrust::Operator { &self.operators } else { &self.guests };
        let with_timeout = cancel.with_timeout(Duration::from_secs(self.timeout_s));
        // No connection is reused, so the host does not matter.
        let call = client.call("", &with_timeout, TIMEOUTS);
        self.follow(request, &call).map_err(|error| match error {
            WebError::Stopped if !cancel.is_cancelled() => WebError::Timeout { timeout_s: self.timeout_s },
            other => other,
        })
    }
}

fn read(
    response: exchange::UnreadResponse,
    url: &Url,
    call: &NetCall<'_>,
    max_bytes: usize,
) -> Result<WebResponse, WebError> {
    let body = exchange::body(response.head, call.slot(), max_bytes)?;
    Ok(WebResponse {
        url: destination::without_credentials(url),
        status: response.status,
        content_type: response.content_type,
        body: body.bytes,
        permit: body.permit.map(Arc::new),
    })
}

/// The request after a redirect. Another origin gets none of the caller's own headers (keys, cookies), and a
/// body is sent again only if the status asks for it.
fn redirected(before: OutgoingRequest, url: Url, status: u16) -> OutgoingRequest {
    let keeps = |name: &str| matches!(name.to_ascii_lowercase().as_str(), "accept" | "accept-language");
    let is_same = is_same_origin(&before.url, &url);
    let headers = before.headers.into_iter().filter(|(name, _)| is_same || keeps(name)).collect();
    let method = match before.method {
        WebMethod::Post(..) if !matches!(status, 307 | 308) => WebMethod::Get,
        method => method,
    };
    OutgoingRequest { url, method, headers }
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

#[cfg(test)]
mod tests;
