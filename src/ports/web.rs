//! HTTP requests of tools. The implementation decides which addresses are allowed.

use super::clock::CancelToken;
use super::semaphore::SemaphorePermit;
use std::sync::Arc;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Method and body.
    pub method: WebMethod,
    /// `http:` or `https:` URL.
    pub url: String,
    /// Additional header names and values.
    pub headers: Vec<(String, String)>,
    /// Who chose the URL.
    pub trust: UrlTrust,
    /// Maximum size of the decompressed body, bytes.
    pub max_bytes: usize,
}

/// HTTP method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebMethod {
    /// GET.
    Get,
    /// POST with content type and body.
    Post(String, Vec<u8>),
}

/// Who chose the URL. Decides where it may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlTrust {
    /// A model or a page: public addresses only, checked again after every redirect.
    Guest,
    /// A model, limited to the named host: a redirect to another origin is refused.
    Bound,
    /// The operator: any address, and no redirect is followed.
    Operator,
}

/// A response of any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebResponse {
    /// Final URL without credentials and fragment.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// Content type, if the server sent one.
    pub content_type: Option<String>,
    /// Decompressed body.
    pub body: Vec<u8>,
    /// Of a large body: limits how many there are at once.
    pub permit: Option<Arc<SemaphorePermit>>,
}

/// Why there is no response. The text is for the model: it contains neither credentials nor resolved
/// addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The URL cannot be fetched.
    #[error("{0}")]
    BadUrl(String),
    /// The URL leads to a forbidden address. A retry does not help.
    #[error("{0}")]
    Forbidden(String),
    /// Too many redirects, or a redirect to an invalid URL.
    #[error("{0}")]
    Redirects(String),
    /// The body exceeds the limit.
    #[error("the answer has more than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The response took too long.
    #[error("no complete answer within {timeout_s} s")]
    Timeout {
        /// The limit.
        timeout_s: u64,
    },
    /// The host does not exist, does not answer, or broke off.
    #[error("{0}")]
    Unreachable(String),
    /// The token was cancelled.
    #[error("the request was stopped")]
    Stopped,
}

/// Sends requests. Blocking; returns within a second after the token is cancelled.
pub trait Web: Send + Sync {
    /// Sends a request and reads the response.
    fn send(&self, request: &WebRequest, cancel: &CancelToken) -> Result<WebResponse, WebError>;
}
