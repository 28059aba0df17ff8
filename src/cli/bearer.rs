//! The key that a client command shows to its server. Owns the one header; refuses to show it anywhere else (P9).

use super::error::CliError;
use crate::domain::secret::Secret;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::http::{Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Body, SendBody};

/// Puts the key into every request; without one it puts nothing.
#[derive(Debug, Default)]
pub(super) struct Bearer(Option<HeaderValue>);

impl Bearer {
    /// Shows this key.
    pub(super) fn new(key: &Secret) -> Result<Self, CliError> {
        let key = key.reveal().trim();
        if key.is_empty() {
            return Ok(Self(None)); // a variable that is set to nothing
        }
        let mut line = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            CliError::usage("the token is none: it has characters that no header can carry")
                .hint("it looks like nck_ and 43 letters, digits, '-' or '_'")
        })?;
        line.set_sensitive(true);
        Ok(Self(Some(line)))
    }
}

impl Middleware for Bearer {
    fn handle(
        &self,
        mut request: Request<SendBody>,
        next: MiddlewareNext,
    ) -> Result<Response<Body>, ureq::Error> {
        if let Some(line) = &self.0 {
            request.headers_mut().insert(AUTHORIZATION, line.clone());
        }
        next.handle(request)
    }
}
