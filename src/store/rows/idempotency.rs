//! The stored row of an idempotency key.

use crate::domain::idempotency::IdempotencyKey;
use crate::domain::webhook::WebhookSubject;
use serde::{Deserialize, Serialize};

/// How an idempotency key was used before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    Never,
    /// For the same request, which created this.
    Same(WebhookSubject),
    /// For another request.
    Other,
}

/// A row of the table `idempotency`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IdempotencyRow {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) effect: WebhookSubject,
    pub(crate) until_ms: u64,
}

impl IdempotencyRow {
    /// What the row says about another request with its key.
    pub(crate) fn key_use(&self, key: &IdempotencyKey, now_ms: u64) -> KeyUse {
        if self.until_ms <= now_ms {
            KeyUse::Never
        } else if self.fingerprint == key.fingerprint {
            KeyUse::Same(self.effect)
        } else {
            KeyUse::Other
        }
    }
}
