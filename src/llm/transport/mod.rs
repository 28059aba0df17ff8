//! HTTP/1.1 to a provider: request bodies, response bodies and the meaning of failures.

pub(super) mod body;
mod client;
pub(super) mod endpoint;
mod error_kind;
pub(super) mod error_mapper;
pub(super) mod provider_client;
mod redact;
pub(super) mod request_body;
mod retry_after;

pub(super) use client::client;
