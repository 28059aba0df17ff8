//! Adds the API key to every request as an `Authorization` header (P9: and nowhere else).

use crate::cli::error::CliError;
use crate::domain::secret::Secret;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::http::{Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Body, SendBody};

/// The header, or none without a key.
#[derive(Debug, Default)]
pub(crate) struct BearerAuth(Option<HeaderValue>);

impl BearerAuth {
    pub(crate) fn new(key: &Secret) -> Result<Self, CliError> {
        let key = key.reveal().trim();
        if key.is_empty() {
            return Ok(Self(None)); // an empty $NANOCLAW_TOKEN
        }
        let mut line = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            CliError::usage("the token is invalid: it has characters that a header cannot carry")
                .hint("it looks like nck_ and 43 letters, digits, '-' or '_'")
        })?;
        line.set_sensitive(true);
        Ok(Self(Some(line)))
    }
}

impl Middleware for BearerAuth {
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
