//! Idempotency keys, stored as hashes only.

use serde::{Deserialize, Serialize};

/// A client's `Idempotency-Key` and its request, both as SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// Hash of the key.
    pub key: [u8; 32],
    /// Hash of the request: kind and body.
    pub fingerprint: [u8; 32],
}
