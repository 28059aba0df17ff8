//! The wire under the dialects: HTTP/1.1, every wait of it on a cancel. The connections are those of `net`, which asks
//! the [`tether`] of the calling thread whether to go on.

mod agent;
pub(super) mod body;
pub(super) mod coding;
pub(super) mod endpoint;
pub(super) mod failure;
pub(super) mod plea;
pub(super) mod post;
mod redact;
pub(super) mod tether;
pub(super) mod upstream;
mod verdict;
mod wait;

pub(super) use agent::agent;
