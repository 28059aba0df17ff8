//! The way to other hosts under `ureq`: name lookups and TCP, every wait of them on a tether.
//!
//! `ureq` blocks, and its own timeouts cannot be pulled from outside. So the lowest layer is ours: each wait for the
//! network is cut into slices ([`socket`], [`lookup`]), and between two slices the [`Tether`] is asked whether to go on.
//! TLS runs on top of it and is cut short in the same way. Owns that layer; refuses to know who calls and why a wait
//! ends, and to judge where a call may lead.

mod lookup;
mod socket;
mod tether;

pub(crate) use lookup::{Lookups, Names, SystemNames, host_of};
pub(crate) use socket::connector;
pub(crate) use tether::{Held, Tether, cut_of};
