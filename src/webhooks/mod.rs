//! Webhook deliveries: signed, sent and retried after Standard Webhooks 1.0.
//!
//! [`dispatcher`] takes a due delivery from the outbox, [`payload`] makes its body, [`signature`] signs it,
//! [`sender`] sends it to a permitted address, [`retry`] decides what follows, and the outbox records the
//! attempt. The store creates deliveries, in the transaction of the end that they report.

mod connections;
mod dispatcher;
mod error;
mod names;
pub mod options;
mod payload;
mod retry;
mod sender;
mod signature;
mod threads;

pub use dispatcher::{DispatchOutcome, Dispatcher, DispatcherPorts};
pub use error::SendError;
pub use payload::StorePayloads;
pub use sender::{AttemptEnd, HttpSender, WebhookRequest, WebhookResponse, WebhookSender};
pub use signature::{InvalidSecret, Signer, secret_from_key};
pub use threads::{DispatcherThread, DispatcherThreadError};

#[cfg(test)]
mod tests;
