//! The rate limiter and circuit breaker before each provider. Short waits are waited for, in order of arrival; for a
//! longer one the caller has to come again. [`limiter`] decides, without threads and clocks.

mod circuit_breaker;
mod deferred;
mod limiter;
mod permit;
mod provider;
mod registry;
mod request_window;
#[cfg(test)]
mod tests;
mod token_window;
mod waiter;

pub(super) use provider::ProviderLimiter;
pub(super) use registry::LimiterRegistry;
