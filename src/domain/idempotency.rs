//! Requests that must take effect once. Owns what a key and a request are remembered by; refuses to keep either in clear.

use serde::{Deserialize, Serialize};

/// A client's `Idempotency-Key` and the request that it came with, each as its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// Of the key as the client wrote it.
    pub key: [u8; 32],
    /// Of the request: its kind and its body.
    pub fingerprint: [u8; 32],
}
