//! The web as tools see it. Owns the trait and what crosses it; refuses to know which addresses are public (whoever
//! stands behind it does).

use super::cancel::CancelToken;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// How.
    pub method: WebMethod,
    /// `http:` or `https:`.
    pub url: String,
    /// Names and values, beside those that every request has.
    pub headers: Vec<(String, String)>,
    /// Who chose the address.
    pub trust: UrlTrust,
    /// Largest body of the answer, unpacked, bytes.
    pub max_bytes: usize,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebMethod {
    /// To read.
    Get,
    /// To hand something over: its content type, and the bytes.
    Post(String, Vec<u8>),
}

/// Who chose the address, and so where it may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlTrust {
    /// A model, or a page: public addresses only, before and after every redirect.
    Guest,
    /// The same, where only the host that was named may be asked: redirects to another origin are refused.
    Bound,
    /// The operator, in the configuration: any address; redirects are not followed.
    Operator,
}

/// An answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebResponse {
    /// Where it came from in the end, without credentials and fragment.
    pub url: String,
    /// HTTP's.
    pub status: u16,
    /// As the server says, if it does.
    pub content_type: Option<String>,
    /// Unpacked.
    pub body: Vec<u8>,
}

/// Why there is no answer. The text is for the model: it names neither credentials nor addresses behind a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// It is no address that can be fetched.
    #[error("{0}")]
    BadUrl(String),
    /// It leads where guests may not go. Trying again is of no use.
    #[error("{0}")]
    Forbidden(String),
    /// It redirects more often than is followed, or to what is no address.
    #[error("{0}")]
    Redirects(String),
    /// The answer is larger than may be.
    #[error("the answer has more than {max_bytes} bytes")]
    TooLarge {
        /// The bound.
        max_bytes: usize,
    },
    /// It took too long.
    #[error("no complete answer within {timeout_s} s")]
    Timeout {
        /// The bound.
        timeout_s: u64,
    },
    /// There is no such host, it does not answer, or it broke off.
    #[error("{0}")]
    Unreachable(String),
    /// The cancel was pulled.
    #[error("the request was stopped")]
    Stopped,
}

/// The web. Blocking; returns within a second of the cancel being pulled.
pub trait Web: Send + Sync {
    /// Sends a request and reads the answer.
    fn send(&self, request: &WebRequest, cancel: &CancelToken) -> Result<WebResponse, WebError>;
}
