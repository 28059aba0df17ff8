//! The wire under the dialects: HTTP/1.1 over TCP and TLS, every wait of it on a leash.
//!
//! `ureq` blocks, and its own timeouts cannot be pulled from outside. So the lowest layer, plain TCP, is ours
//! ([`socket`], [`resolver`]): each wait for the network is cut into slices, and between two slices the [`tether`] of
//! the calling thread is asked whether to go on. TLS runs on top of it and is cut short in the same way.

mod agent;
pub(super) mod body;
pub(super) mod coding;
pub(super) mod endpoint;
pub(super) mod failure;
pub(super) mod plea;
pub(super) mod post;
mod redact;
mod resolver;
mod socket;
pub(super) mod tether;
pub(super) mod upstream;
mod verdict;
mod wait;

pub(super) use agent::agent;
