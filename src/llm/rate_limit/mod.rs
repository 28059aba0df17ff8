//! The rate limiter and circuit breaker of each provider. A call waits in place if the wait is short;
//! otherwise it is deferred. Users take turns ([`call_queue`]). [`limiter`] decides, without threads and
//! without a clock.
//!
//! Nodes of a cluster divide the rates among them and share the pauses that providers ask for. Circuit
//! breakers are each node's own: a node without a network must not stop the others.

mod call_queue;
mod circuit_breaker;
mod deferred;
mod health;
mod limiter;
mod permit;
mod registry;
mod sliding_window;
#[cfg(test)]
mod tests;
mod waiter;

pub(super) use health::ProviderHealth;
pub(super) use registry::{LimiterRegistry, ProviderLimiter};
