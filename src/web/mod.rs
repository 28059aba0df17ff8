//! The web for tools: requests to public addresses only. Owns the guard, redirects, packing and bounds; refuses to read pages.
//!
//! What a guest asks for is checked three times: the address as it is written ([`destination`]), each redirect before it is
//! requested, and each address that a name leads to, at the moment of connecting ([`resolver`]). The last is what counts.

mod destination;
mod exchange;
pub mod options;
mod resolver;
mod tether;

use crate::domain::address::{AddressPolicy, AddressRangeError};
use crate::net::{Names, SystemNames};
use crate::ports::{CancelToken, UrlTrust, Web, WebError, WebMethod, WebRequest, WebResponse};
use exchange::Sending;
pub use options::WebOptions;
use resolver::CheckedResolver;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use url::Url;

/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// The web behind the guard.
#[derive(Debug)]
pub struct GuardedWeb {
    policy: AddressPolicy,
    guests: Agent,
    operators: Agent,
    timeout_s: u64,
    max_bytes: usize,
}

impl GuardedWeb {
    /// With these options; a range that is none fails with its place in the list.
    pub fn new(options: &WebOptions) -> Result<Self, (usize, AddressRangeError)> {
        Self::over(options, &(Arc::new(SystemNames) as Arc<dyn Names>))
    }

    fn over(options: &WebOptions, names: &Arc<dyn Names>) -> Result<Self, (usize, AddressRangeError)> {
        let policy = AddressPolicy::new(&options.allow_private_addresses)?;
        let agent = |policy| exchange::agent(CheckedResolver::new(policy, Arc::clone(names)));
        Ok(Self {
            guests: agent(Some(policy.clone())),
            operators: agent(None),
            policy,
            timeout_s: options.timeout_s,
            max_bytes: options.max_bytes,
        })
    }

    fn follow(&self, request: &WebRequest) -> Result<WebResponse, WebError> {
        let max_bytes = request.max_bytes.min(self.max_bytes);
        let (method, headers) = (request.method.clone(), request.headers.clone());
        let mut sending = Sending { url: destination::parse(&request.url)?, method, headers };
        if request.trust == UrlTrust::Operator {
            return answer(exchange::send(&self.operators, &sending)?, &sending.url, max_bytes);
        }
        let asked = sending.url.clone();
        for _ in 0..=REDIRECTS {
            destination::check(&sending.url, &self.policy)?;
            let reply = exchange::send(&self.guests, &sending)?;
            let Some(location) = &reply.location else { return answer(reply, &sending.url, max_bytes) };
            let next = destination::joined(&sending.url, location)?;
            if request.trust == UrlTrust::Bound && !is_same_origin(&asked, &next) {
                return Err(WebError::Redirects(format!(
                    "it redirects to another host ('{}'), which is not followed here",
                    next.host_str().unwrap_or_default()
                )));
            }
            sending = redirected(sending, next, reply.status);
        }
        Err(WebError::Redirects(format!("it redirects more than {REDIRECTS} times")))
    }
}

impl Web for GuardedWeb {
    fn send(&self, request: &WebRequest, cancel: &CancelToken) -> Result<WebResponse, WebError> {
        let _held = tether::hold(&cancel.with_timeout(Duration::from_secs(self.timeout_s)));
        self.follow(request).map_err(|error| match error {
            WebError::Stopped if !cancel.is_cancelled() => WebError::Timeout { timeout_s: self.timeout_s },
            other => other,
        })
    }
}

fn answer(reply: exchange::Reply, url: &Url, max_bytes: usize) -> Result<WebResponse, WebError> {
    Ok(WebResponse {
        url: destination::shown(url),
        status: reply.status,
        content_type: reply.content_type,
        body: exchange::body(reply.head, max_bytes)?,
    })
}

/// What is sent after a redirect: nothing of the caller's own (keys, cookies) to another origin, and no body unless the
/// status asks for it.
fn redirected(before: Sending, url: Url, status: u16) -> Sending {
    let keeps = |name: &str| matches!(name.to_ascii_lowercase().as_str(), "accept" | "accept-language");
    let is_same = is_same_origin(&before.url, &url);
    let headers = before.headers.into_iter().filter(|(name, _)| is_same || keeps(name)).collect();
    let method = match before.method {
        WebMethod::Post(..) if !matches!(status, 307 | 308) => WebMethod::Get,
        method => method,
    };
    Sending { url, method, headers }
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

#[cfg(test)]
mod tests;
