//! The rate limiter and circuit breaker of each provider. A call waits in place if the wait is short, in
//! order of arrival. Otherwise it is deferred. [`limiter`] decides, without threads and without a clock.

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
