//! JavaScript: `QuickJS` inside the sandboxed child itself.
//!
//! There are no modules and no host objects except `console`, `print`, timers and `queueMicrotask`, and
//! `__host` in runs that have a host. The guest cannot choose the exit code.

mod engine;
mod evaluate;
mod host_call;
mod parse;
mod run;

pub(crate) use engine::JavaScriptEngine;
pub(crate) use run::{OUT_OF_MEMORY_EXIT, ScriptOptions, VERSION, run, warm_up};
