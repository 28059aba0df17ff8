//! HTTP calls that a [`crate::ports::CancelToken`] ends within a second.
//!
//! `ureq` blocks, and its own timeouts cannot be cancelled. So name lookups ([`lookup`]) and TCP ([`socket`])
//! wait in short slices and check the call between two of them. TLS runs on top of TCP.

mod call;
mod client;
mod decode;
mod lookup;
mod retry_after;
mod socket;
mod tls;

pub(crate) use call::{CallEnd, CallSlot, CallTimeouts};
pub(crate) use client::{NetCall, NetClient, client_config};
pub(crate) use decode::decoded;
pub(crate) use lookup::{Lookups, NameSource, SystemNames, host_of, is_own_address};
pub(crate) use retry_after::retry_after_s;
pub(crate) use socket::{Tls, connector};
pub(crate) use tls::client_tls;
