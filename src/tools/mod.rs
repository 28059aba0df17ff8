//! What models may call. Owns the registry, the executor with its validation, and one file per tool; refuses to
//! know jobs, models and the store: whose call it is comes in with the context.
//!
//! A new tool is one file and one line in [`registry`] (P6). A tool sees only its own arguments, already validated
//! against its own schema; parsing, coercion, dedup, parallel runs, timeouts, panics and the result's form are the
//! [`Executor`]'s.

mod arguments;
mod batch;
mod calculator;
mod code;
mod coerce;
mod execute_javascript;
mod execute_python;
mod executor;
mod get_weather;
mod json_process;
mod nearest;
mod outcome;
mod registry;
mod schema;
mod text_process;

pub use code::CodeRunner;
pub use executor::{Bounds, Error, Executor};
pub use registry::{ToolDeps, registered};
