//! Models: one directory per wire dialect behind [`Router`], the crate's `ports::Model`.
//! Owns dialects, the wire under them and the reading of streams; refuses to retry (the engine does) and to
//! keep anything between two calls but idle connections.

mod demo;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod json;
mod openai;
pub mod options;
mod router;
pub mod sse;
mod text_calls;
mod wire;

pub use router::{Error, Router};
