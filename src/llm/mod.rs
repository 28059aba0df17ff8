//! Models: one directory per wire dialect behind [`Router`], the crate's `ports::Model`.
//! Owns dialects, the wire under them, the reading of streams, and the gates before each provider; refuses to retry (the
//! engine does) and to keep anything between two calls but idle connections and what the gates count.

mod anthropic;
mod catalogue;
mod demo;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod ids;
mod json;
mod openai;
pub mod options;
mod router;
pub mod sse;
mod terms;
mod text_calls;
mod watch;
mod wire;

pub use router::{Error, Router};
