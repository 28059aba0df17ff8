//! Webhooks on their way out. Owns when a delivery is tried, how it is signed and sent, and what follows from the answer;
//! refuses to make deliveries (the store does, with the end that they report) and to follow a receiver anywhere.
//!
//! The way of a delivery: `round` takes what is due from the outbox → `payload` makes the body → `signature` signs it →
//! `post` sends it, to an address that `resolver` lets pass → `retry` says what follows → the outbox writes it down.

pub mod options;
mod payload;
mod pool;
mod post;
mod resolver;
mod retry;
mod round;
mod secret_file;
mod signature;

pub use payload::StorePayloads;
pub use pool::{Pool, PoolError};
pub use post::{Answer, HttpPost, Parcel, Post, PostError};
pub use round::{Courier, Parts, Round};
pub use secret_file::{keep_secret, secret_in};
pub use signature::{BadSecret, Signer};

#[cfg(test)]
mod tests;
