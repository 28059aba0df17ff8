//! Why a webhook got no response.

use std::io;

/// Maximum length of a stored error, characters.
const REASON_CHARS: usize = 200;

/// Why there is no response, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver's address is not public.
    #[error(
        "the receiver is not on the public internet; if it is yours, the operator can open it with \
         webhooks.allow_private_addresses"
    )]
    Refused,
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl SendError {
    /// A failure with this reason, which must not contain the URL: it may hold a token.
    pub(super) fn because(reason: &(impl ToString + ?Sized)) -> Self {
        Self::Failed(reason.to_string().chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect())
    }
}

/// Describes an error without the URL.
pub(super) fn http_error(error: &hyper::Error) -> SendError {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause {
        Some(cause) => SendError::because(cause),
        None if error.is_parse() => SendError::because("the receiver does not speak HTTP as it should"),
        None => SendError::because(error),
    }
}
