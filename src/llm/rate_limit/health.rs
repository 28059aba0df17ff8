//! The health of a provider as its limiter knows it.

use super::circuit_breaker::BreakerDecision;
use super::registry::ProviderLimiter;

/// The health of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::llm) enum ProviderHealth {
    /// Calls go through, as far as is known.
    Open,
    /// The provider asked for a pause.
    Paused {
        /// What is left of it, milliseconds.
        left_ms: u64,
    },
    /// The circuit breaker is open, or a call tests whether the provider is back.
    Broken {
        /// Time until the next test, milliseconds; 0 when it runs, or the next call is the test.
        left_ms: u64,
    },
}

impl ProviderLimiter {
    /// The health at this monotonic time.
    pub(in crate::llm) fn health(&self, now_ms: u64) -> ProviderHealth {
        let limiter = self.lock_at(now_ms);
        match limiter.breaker_decision(now_ms) {
            BreakerDecision::Reject { left_ms, .. } => ProviderHealth::Broken { left_ms },
            BreakerDecision::Probe | BreakerDecision::Probing => ProviderHealth::Broken { left_ms: 0 },
            BreakerDecision::Allow => match limiter.pause_left_ms(now_ms) {
                0 => ProviderHealth::Open,
                left_ms => ProviderHealth::Paused { left_ms },
            },
        }
    }
}
