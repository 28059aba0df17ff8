//! Headers of a model's requests. Owns the check of `extra_headers`; refuses those that would break the request.

use crate::domain::secret::Secret;
use std::collections::BTreeMap;
use ureq::RequestBuilder;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ureq::typestate::WithBody;

/// What the request itself is responsible for.
const OURS: [&str; 5] = ["content-type", "content-length", "host", "transfer-encoding", "connection"];

/// The headers of every request to a model.
#[derive(Debug, Clone)]
pub(super) struct Headers(HeaderMap);

impl Headers {
    /// Those of the dialect, with the bearer token if there is one, and `extra` over them; or which is bad and why.
    pub(super) fn new(
        key: &Secret,
        extra: &BTreeMap<String, Secret>,
    ) -> Result<Self, (String, &'static str)> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if let Some(bearer) = bearer(key) {
            headers.insert(AUTHORIZATION, bearer);
        }
        for (name, value) in extra {
            let bad = |reason: &'static str| (name.clone(), reason);
            let parsed: HeaderName = name.parse().map_err(|_| bad("it is no name of a header"))?;
            if OURS.contains(&parsed.as_str()) {
                return Err(bad("the request itself sets it"));
            }
            let mut value: HeaderValue = value
                .reveal()
                .parse()
                .map_err(|_| bad("its value has characters that no header may have"))?;
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        Ok(Self(headers))
    }

    /// Puts them on a request.
    pub(super) fn put_on(&self, mut call: RequestBuilder<WithBody>) -> RequestBuilder<WithBody> {
        for (name, value) in &self.0 {
            call = call.header(name, value);
        }
        call
    }
}

/// The router has checked that the key is visible ASCII.
fn bearer(key: &Secret) -> Option<HeaderValue> {
    if key.reveal().is_empty() {
        return None;
    }
    let mut value: HeaderValue = format!("Bearer {}", key.reveal()).parse().ok()?;
    value.set_sensitive(true);
    Some(value)
}
