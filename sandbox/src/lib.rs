//! Runs untrusted Python and JavaScript behind landlock, seccomp and rlimits, or not at all.
//!
//! Owns: the levels and their limits, the kernel policy, the child per run, the verdict, the result record.
//! Refuses: to run anything when a single layer that the level demands cannot be applied (fail closed).
//!
//! ```no_run
//! use nanoclaw_sandbox::{Language, Level, SandboxOptions, Program, Sandbox, RunStatus};
//!
//! // First thing in `main`: the sandbox starts this very binary again, as its broker.
//! nanoclaw_sandbox::child_hook();
//!
//! let sandbox = Sandbox::new(SandboxOptions::default())?;
//! sandbox.allow_modules(Level::Standard, &["numpy"])?;
//! let code = "import numpy as np\nint(np.arange(10).sum())";
//! let record = sandbox.run(&Program::new(Language::Python, Level::Standard, code), &|| false);
//! assert_eq!((record.status, record.result.as_deref()), (RunStatus::Ok, Some("45")));
//! # Ok::<(), nanoclaw_sandbox::SandboxError>(())
//! ```
//!
//! The way of a run: [`Sandbox::run`] → the broker, a process without secrets that alone starts programs → a child of
//! its own (`QuickJS`, a shell) or of a warm `CPython` → the kernel policy → the program; beside it the watch (pidfd, pipes,
//! clock), and after it the verdict: the parent's own view becomes a [`RunRecord`].
//!
//! Threat model: the guest is hostile and may own its whole process. Nothing that it can write — output, words on
//! its own end, exit code — reaches [`RunRecord::status`] beyond telling a clean exit from a failed one. The language
//! check gives models quick and helpful answers; it is never the boundary. The crate's README has the levels, what is
//! needed of the kernel, and what is not promised.

#[cfg(feature = "ablation")]
#[doc(hidden)]
pub mod ablation;
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
mod heap;
mod host;
mod javascript;
mod layers;
mod level;
mod limits;
mod modules;
mod options;
mod pipes;
mod policy;
mod program;
mod python;
mod quota;
mod record;
mod report;
mod sandbox;
mod scratch;
mod selftest;
mod session;
mod shell;
mod slots;
mod stream;
#[allow(unsafe_code, reason = "the one place for system calls that no safe crate offers")]
mod sys;
mod verdict;
mod watch;

pub use child::{BROKER_MARKER, child_hook};
pub use error::SandboxError;
pub use heap::{limit_malloc_arenas, release_startup_memory};
pub use host::{HostCalls, MAX_HOST_ANSWER_BYTES, MAX_HOST_CALLS, MAX_HOST_REQUEST_BYTES};
pub use layers::{CgroupReport, LayersReport, NamespaceReport};
pub use level::{Language, Level};
pub use limits::{LevelLimits, RunLimits};
pub use options::{ExtraModules, SandboxOptions};
pub use program::Program;
pub use record::{RunRecord, RunStatus};
pub use report::{LevelReport, PythonReport, SandboxReport};
pub use sandbox::Sandbox;
pub use session::{SandboxSession, SessionEnd, SessionLimits, SessionSpec};

/// The README's example is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
