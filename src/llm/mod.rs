//! Calls models over HTTP: [`Router`] is the crate's `ports::Model`, with one folder for each wire dialect.
//! Between calls it keeps idle connections, rate limits and known unsupported parameters; retries are the
//! engine's.

mod answer_output;
mod anthropic;
mod call_ids;
mod call_metrics;
mod catalogue;
mod demo;
mod dialect_options;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod images;
mod json;
mod last_call;
mod openai;
pub mod options;
mod rate_limit;
mod router;
pub mod sse;
#[cfg(test)]
mod testing;
mod text_calls;
mod think_tags;
mod transport;

pub use error::ModelConfigError;
pub use identity::model_identities;
pub use images::ImageLoader;
pub use router::Router;
