//! The web for tools: requests to public addresses only. Owns the guard, redirects, packing and bounds; refuses to read pages.

pub mod options;

use crate::ports::{Leash, Web, WebAnswer, WebError, WebRequest};
pub use options::WebOptions;

/// The web behind the guard.
#[derive(Debug)]
pub struct GuardedWeb;

impl GuardedWeb {
    /// With these options, which have been checked.
    pub fn new(_options: &WebOptions) -> Self {
        Self
    }
}

impl Web for GuardedWeb {
    fn send(&self, _request: &WebRequest, _leash: &Leash) -> Result<WebAnswer, WebError> {
        Err(WebError::Unreachable("the web is not there yet".to_owned()))
    }
}
