//! The child's side of the self-test: attempts that the policy must stop.

use std::io;
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
/// The exit code when no attempt succeeded, but one failed for another reason than the policy.
pub(crate) const UNDECIDED: i32 = 50;
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
            return exit_code(files.iter().map(|file| std::fs::File::open(file).map(drop)));
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
    let skip_if = |is_allowed: bool, attempt: fn() -> io::Result<()>| {
        if is_allowed { Err(io::ErrorKind::PermissionDenied.into()) } else { attempt() }
    };
    let attempts: [io::Result<()>; QUIET_ATTEMPTS.len()] = [
        std::fs::read(canary).map(drop),
        std::fs::OpenOptions::new().append(true).open(canary).map(drop),
        sys::attempt::socket(),
        skip_if(may_fork, sys::attempt::fork),
        sys::attempt::signal_parent(parent),
        std::fs::read(format!("/proc/{parent}/status")).map(drop),
        skip_if(may_fork, sys::attempt::executable_memory),
        std::fs::write(new_file, "x"),
        sys::attempt::truncate(canary),
        rustix::fs::open(canary, OFlags::RDONLY | OFlags::TRUNC, Mode::empty())
            .map(drop)
            .map_err(io::Error::from),
    ];
    exit_code(attempts.into_iter())
}

/// Names the first attempt that succeeded. A lack of resources hides what the policy would have done.
fn exit_code(attempts: impl Iterator<Item = io::Result<()>>) -> i32 {
    let mut code = ALL_BLOCKED;
    for (index, attempt) in attempts.enumerate() {
        match attempt.map_err(|error| error.raw_os_error()) {
            Ok(()) => return FIRST_ESCAPE + i32::try_from(index).unwrap_or(i32::MAX).min(LAST_INDEX),
            Err(Some(
                libc::EMFILE | libc::ENFILE | libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EIO,
            )) => {
                code = UNDECIDED;
            }
            Err(_) => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn p5_an_attempt_that_fails_for_lack_of_resources_proves_nothing() {
        let refused = || failed(libc::EACCES);
        assert_eq!(exit_code([refused(), failed(libc::EPERM)].into_iter()), ALL_BLOCKED);
        assert_eq!(exit_code([failed(libc::EMFILE), refused()].into_iter()), UNDECIDED);
        assert_eq!(exit_code([failed(libc::ENOSPC), Ok(())].into_iter()), FIRST_ESCAPE + 1);
    }
}
