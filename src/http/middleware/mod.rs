//! What every request passes: host and origin checks, authentication, rate limits, and
//! headers of every response.

pub(crate) mod access_log;
pub(crate) mod admission;
pub(crate) mod cors;
pub(crate) mod host_origin;
pub(crate) mod measurement;
pub(crate) mod request_id;
pub(crate) mod revocation;
pub(crate) mod security_headers;
pub(crate) mod tracker;
