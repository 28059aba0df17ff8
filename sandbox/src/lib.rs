//! Runs untrusted Python and JavaScript behind landlock, seccomp and rlimits, or not at all.
//!
//! Owns: the levels and their limits, the kernel policy, the child per run, the verdict, the result record.
//! Refuses: to run anything when a single layer that the level demands cannot be applied (fail closed).
//!
//! The way of a run: [`Sandbox::run`] → `spawn` (this binary again, marked) → `child` (policy, then `QuickJS` in
//! itself or `CPython` by exec) → `watch` (pidfd, pipes, clock) → `verdict` (the parent's own view → [`Record`]).
//!
//! Threat model: the guest is hostile and may own its whole process. Nothing that it can write — output, report
//! frames, exit code — reaches [`Record::status`] beyond telling a clean exit from a failed one. The language
//! check gives models quick and helpful answers; it is never the boundary.

mod broker;
mod child;
mod clock;
mod code;
mod error;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guest;
mod javascript;
mod layers;
mod level;
mod limits;
mod modules;
mod options;
mod policy;
mod program;
mod python;
mod quota;
mod record;
mod report;
mod sandbox;
mod scratch;
mod selftest;
mod shell;
mod slots;
mod stream;
#[allow(unsafe_code, reason = "the one place for system calls that no safe crate offers")]
mod sys;
mod verdict;
mod watch;

pub use child::{BROKER_MARKER, child_hook};
pub use error::Error;
pub use layers::{CgroupReport, LayersReport, NamespaceReport};
pub use level::{Language, Level};
pub use limits::{Levels, Limits};
pub use options::{ExtraModules, Options};
pub use program::Program;
pub use record::{Record, Status};
pub use report::{LevelReport, PythonReport, Report};
pub use sandbox::Sandbox;
