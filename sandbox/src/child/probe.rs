//! The child's side of the self-test: attempts that the policy must stop.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::sys;

/// The attempts of a self-test's child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SelfTestProbe {
    /// Makes all attempts that must fail with an error.
    Quiet {
        /// A file outside that must stay unread and unchanged.
        canary: PathBuf,
        /// Whether forks and executable mappings are allowed, as for commands.
        may_fork: bool,
    },
    /// Opens files that must stay closed.
    OpenFiles {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// `ptrace`: must kill.
    Ptrace,
    /// `execve`: must kill.
    Execve,
    /// `io_uring_setup`: must kill.
    IoUring,
    /// A system call by its x32 number: must kill.
    X32,
    /// Makes these calls by their raw numbers and writes each answer to standard output.
    #[cfg(feature = "ablation")]
    Calls {
        /// Number and arguments.
        calls: Vec<[u64; 7]>,
        /// Whether the policy of commands with the network applies.
        online: bool,
    },
}

/// The exit code when every quiet attempt failed.
pub(crate) const ALL_BLOCKED: i32 = 0;
/// This exit code plus an index into [`QUIET_ATTEMPTS`], or into the files, names the attempt that succeeded.
pub(crate) const FIRST_ESCAPE: i32 = 100;
/// The largest index that an exit code can name.
const LAST_INDEX: i32 = 255 - FIRST_ESCAPE;

/// The quiet attempts, by name.
pub(crate) const QUIET_ATTEMPTS: [&str; 10] = [
    "read the canary",
    "write the canary",
    "open a socket",
    "fork",
    "signal the parent",
    "read /proc of the parent",
    "map executable memory",
    "write below /tmp",
    "truncate the canary",
    "truncate the canary by opening it",
];

/// Makes the attempts and returns the exit code.
pub(crate) fn run_probe(probe: &SelfTestProbe, parent: i32) -> i32 {
    let outcome = match probe {
        SelfTestProbe::Quiet { canary, may_fork } => return run_quiet(canary, *may_fork, parent),
        SelfTestProbe::OpenFiles { files } => {
            return exit_code(files.iter().map(|file| std::fs::File::open(file).is_ok()));
        }
        SelfTestProbe::Ptrace => sys::attempt::ptrace(),
        SelfTestProbe::Execve => sys::attempt::execve(),
        SelfTestProbe::IoUring => sys::attempt::io_uring(),
        SelfTestProbe::X32 => sys::attempt::x32_call(),
        #[cfg(feature = "ablation")]
        SelfTestProbe::Calls { calls, .. } => return crate::ablation::make_calls(calls),
    };
    // The process is still alive: the call has not killed it.
    if outcome.is_ok() { FIRST_ESCAPE } else { FIRST_ESCAPE + 1 }
}

fn run_quiet(canary: &Path, may_fork: bool, parent: i32) -> i32 {
    let new_file = canary.with_extension("made");
    let has_escaped: [bool; QUIET_ATTEMPTS.len()] = [
        std::fs::read(canary).is_ok(),
        std::fs::OpenOptions::new().append(true).open(canary).is_ok(),
        sys::attempt::socket().is_ok(),
        !may_fork && sys::attempt::fork().is_ok(),
        sys::attempt::signal_parent(parent).is_ok(),
        std::fs::read(format!("/proc/{parent}/status")).is_ok(),
        !may_fork && sys::attempt::executable_memory().is_ok(),
        std::fs::write(new_file, "x").is_ok(),
        sys::attempt::truncate(canary).is_ok(),
        rustix::fs::open(canary, OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).is_ok(),
    ];
    exit_code(has_escaped.into_iter())
}

/// Names the first attempt that succeeded.
fn exit_code(mut has_escaped: impl Iterator<Item = bool>) -> i32 {
    match has_escaped.position(|escaped| escaped) {
        None => ALL_BLOCKED,
        Some(index) => FIRST_ESCAPE + i32::try_from(index).unwrap_or(i32::MAX).min(LAST_INDEX),
    }
}
