//! Runs untrusted Python, JavaScript and shell commands behind landlock, seccomp and rlimits, or not at all.
//!
//! ```
//! use nanoclaw_sandbox::{Language, Level, Program, RunStatus, Sandbox, SandboxOptions};
//!
//! // First in `main`: the sandbox starts this binary again as its broker.
//! nanoclaw_sandbox::child_hook();
//!
//! let sandbox = Sandbox::new(SandboxOptions::default())?;
//! sandbox.allow_modules(Level::Standard, &["ipaddress"])?;
//! let code = "import ipaddress\nipaddress.ip_network('10.0.0.0/24').num_addresses";
//! let record = sandbox.run(&Program::new(Language::Python, Level::Standard, code), &|| false);
//! assert_eq!((record.status, record.result.as_deref()), (RunStatus::Ok, Some("256")));
//! # Ok::<(), nanoclaw_sandbox::SandboxError>(())
//! ```
//!
//! The steps of a run:
//! 1. [`Sandbox::run`] sends a request to the broker, a process without secrets that starts every guest.
//! 2. The broker gives the run a child of its own (`QuickJS`, a shell) or of a warm `CPython` (a zygote).
//! 3. The child applies the kernel policy and runs the program.
//! 4. Meanwhile the parent watches pidfd, pipes and clock; afterwards the verdict turns its observations into
//!    a [`RunRecord`].
//!
//! Threat model: the guest is hostile and may control its whole process. Its output, its result and its exit
//! code never decide [`RunRecord::status`], except that exit code 0 differs from other codes. The language
//! check gives models quick and helpful answers; it is not a boundary. If a layer that a level needs cannot
//! be applied, nothing runs at that level.

#[cfg(feature = "ablation")]
#[doc(hidden)]
pub mod ablation;
mod broker;
mod child;
mod child_report;
mod clock;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host_calls;
mod languages;
mod layers;
mod level;
mod level_verdict;
mod limits;
mod memory;
mod memory_file;
mod options;
mod policy;
mod proc_text;
mod process;
mod program;
mod record;
mod report;
mod run;
mod sandbox;
mod scratch;
mod self_test;
mod session;
mod supervised_calls;
#[allow(unsafe_code, reason = "the only place for system calls that no safe crate offers")]
mod sys;
mod tree;
mod verdict;
mod zygote;

pub use broker::{BROKER_MARKER, child_hook};
pub use error::SandboxError;
pub use host_calls::{HostCalls, MAX_HOST_ANSWER_BYTES, MAX_HOST_CALLS, MAX_HOST_REQUEST_BYTES};
pub use layers::{CgroupReport, LayersReport, NamespaceReport};
pub use level::{Language, Level};
pub use limits::{LevelLimits, RunLimits};
pub use memory::{limit_malloc_arenas, release_free_memory, release_startup_memory};
pub use options::{ExtraModules, FreeSpace, SandboxOptions};
pub use program::{Program, WorkdirLimit};
pub use record::{RunRecord, RunStatus};
pub use report::{LevelReport, PythonReport, SandboxReport};
pub use run::{KernelUse, ScarceResource};
pub use sandbox::Sandbox;
pub use session::{SandboxSession, SessionEnd, SessionLimits, SessionSpec, can_close_ports};
pub use tree::{TreeCount, count_tree};

/// The README's example is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
