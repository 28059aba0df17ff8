//! Adds the API key to every request as an `Authorization` header (P9: and nowhere else).

use crate::cli::error::CliError;
use crate::domain::secret::Secret;
use ureq::SendBody;
use ureq::http::Request;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::middleware::{Middleware, MiddlewareNext};

/// Adds nothing without a key.
pub(crate) fn bearer_auth(key: Option<&Secret>) -> Result<impl Middleware, CliError> {
    // $NANOCLAW_TOKEN may be empty.
    let key = key.map(|key| key.reveal().trim()).filter(|key| !key.is_empty());
    let mut line =
        key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))).transpose().map_err(|_| {
            CliError::usage("the token is invalid: it has characters that a header cannot carry")
                .hint("it looks like nck_ and 43 letters, digits, '-' or '_'")
        })?;
    if let Some(line) = &mut line {
        line.set_sensitive(true);
    }
    Ok(move |mut request: Request<SendBody>, next: MiddlewareNext| {
        request.headers_mut().extend(line.clone().map(|line| (AUTHORIZATION, line)));
        next.handle(request)
    })
}
