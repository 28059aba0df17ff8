//! The start-up self-test: real children of each level try to get out. One success, and the level is off.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::broker::{Link, Order, Task};
use crate::frame::{self, Stage};
use crate::guest::Ends;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::policy::{Access, FileRule};
use crate::scratch::Scratch;
use crate::stream::Keep;
use crate::sys;
use crate::watch::{self, Bounds, Seen};

/// What a probe child does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Probe {
    /// Everything that must fail with an error, one after the other.
    Quiet {
        /// A file outside that must stay unread and unwritten.
        canary: PathBuf,
        /// Commands may fork, and map what they execute.
        may_fork: bool,
    },
    /// `ptrace`: must kill.
    Ptrace,
    /// `execve`: must kill.
    Execve,
    /// `io_uring_setup`: must kill.
    IoUring,
    /// A system call by its x32 number: must kill.
    X32,
    /// These calls by their raw numbers; each answer is written to standard output.
    #[cfg(feature = "ablation")]
    Calls {
        /// Number and arguments.
        calls: Vec<[u64; 7]>,
        /// Behind the policy of commands that may use the network.
        online: bool,
    },
}

/// The exit code of a quiet probe that got nowhere.
const HELD: i32 = 0;
/// Exit codes from here on name the quiet attempt that succeeded.
const FIRST_ESCAPE: i32 = 100;

/// The quiet attempts, by name; each must fail.
const QUIET: &[&str] = &[
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

/// How long a probe child may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// In the child: makes the attempts; the code says how they went.
pub(crate) fn attempt(probe: &Probe, parent: i32) -> i32 {
    let outcome = match probe {
        Probe::Quiet { canary, may_fork } => return quiet(canary, *may_fork, parent),
        Probe::Ptrace => sys::attempt::ptrace(),
        Probe::Execve => sys::attempt::execve(),
        Probe::IoUring => sys::attempt::io_uring(),
        Probe::X32 => sys::attempt::x32_call(),
        #[cfg(feature = "ablation")]
        Probe::Calls { calls, .. } => return crate::ablation::make_calls(calls),
    };
    // Still alive: whatever the call answered, it did not kill.
    if outcome.is_ok() { FIRST_ESCAPE } else { FIRST_ESCAPE + 1 }
}

fn quiet(canary: &Path, may_fork: bool, parent: i32) -> i32 {
    let elsewhere = canary.with_extension("made");
    let attempts: [bool; 10] = [
        std::fs::read(canary).is_ok(),
        std::fs::OpenOptions::new().append(true).open(canary).is_ok(),
        sys::attempt::socket().is_ok(),
        !may_fork && sys::attempt::fork().is_ok(),
        sys::attempt::signal_parent(parent).is_ok(),
        std::fs::read(format!("/proc/{parent}/status")).is_ok(),
        !may_fork && sys::attempt::executable_memory().is_ok(),
        std::fs::write(elsewhere, "x").is_ok(),
        sys::attempt::truncate(canary).is_ok(),
        rustix::fs::open(canary, OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).is_ok(),
    ];
    match attempts.iter().position(|escaped| *escaped) {
        None => HELD,
        Some(which) => FIRST_ESCAPE + i32::try_from(which).unwrap_or(0),
    }
}

/// In the parent: tests a level, or says what is wrong.
pub(crate) fn test(
    link: &Link,
    options: &SandboxOptions,
    landlock_abi: u32,
    level: Level,
) -> Result<(), String> {
    let outside = Scratch::make(&options.scratch_dir).map_err(|error| error.to_string())?;
    let own = Scratch::make(&options.scratch_dir).map_err(|error| error.to_string())?;
    let canary = outside.path().join("canary");
    std::fs::write(&canary, "canary").map_err(|error| format!("cannot write the canary: {error}"))?;
    let tester = Tester { link, options, landlock_abi, level, own: own.path() };
    tester.must_hold(Probe::Quiet { canary, may_fork: level == Level::Shell })?;
    for (name, probe) in [
        ("ptrace", Probe::Ptrace),
        ("execve", Probe::Execve),
        ("io_uring", Probe::IoUring),
        ("an x32 call", Probe::X32),
    ] {
        // Commands may start programs, and hear that there is no io_uring.
        if level != Level::Shell || !matches!(probe, Probe::Execve | Probe::IoUring) {
            tester.must_kill(name, probe)?;
        }
    }
    own.remove().and_then(|()| outside.remove()).map_err(|error| error.to_string())
}

struct Tester<'a> {
    link: &'a Link,
    options: &'a SandboxOptions,
    landlock_abi: u32,
    level: Level,
    own: &'a Path,
}

impl Tester<'_> {
    fn must_hold(&self, probe: Probe) -> Result<(), String> {
        let seen = self.run(probe)?;
        match seen.ended.exit_code {
            Some(HELD) => Ok(()),
            Some(code) if code >= FIRST_ESCAPE => {
                let which = usize::try_from(code - FIRST_ESCAPE).ok().and_then(|which| QUIET.get(which));
                Err(format!("self-test: a child could {}", which.unwrap_or(&"escape")))
            }
            other => {
                Err(format!("self-test: the child ended with {other:?}, signal {:?}", seen.ended.signal))
            }
        }
    }

    fn must_kill(&self, name: &str, probe: Probe) -> Result<(), String> {
        let seen = self.run(probe)?;
        if seen.ended.signal == Some(libc::SIGSYS) {
            return Ok(());
        }
        Err(format!("self-test: {name} did not kill the child"))
    }

    /// Runs a probe; an error unless it came as far as its attempts.
    fn run(&self, probe: Probe) -> Result<Seen, String> {
        let files = match self.level {
            Level::Lenient | Level::Shell => {
                vec![FileRule { path: self.own.to_owned(), access: Access::OwnTree }]
            }
            Level::Strict | Level::Standard => Vec::new(),
        };
        let order = Order {
            level: self.level,
            limits: RunLimits::of(self.level),
            landlock_abi: self.landlock_abi,
            directory: PathBuf::from("/"),
            subdirectory: None,
            files,
            task: Task::Probe(probe),
        };
        let ends = Ends::make("").map_err(|error| error.to_string())?;
        let guest = self.link.run(&order, ends, &|| false).map_err(|error| error.to_string())?;
        let bounds = Bounds {
            timeout: TIMEOUT,
            tasks: 0,
            stdout_bytes: frame::MAX_TEXT_BYTES,
            stderr_bytes: frame::MAX_TEXT_BYTES,
            keep: Keep::Head,
            cancel: &|| false,
        };
        let seen = watch::watch(guest, &bounds, None, None).map_err(|error| error.to_string())?;
        match frame::stage(seen.frames.head()) {
            Stage::Ran => Ok(seen),
            Stage::Failed(message) => Err(message),
            other => Err(format!(
                "the child of '{}' did not get to its test ({other:?}): does its main call child_hook first?",
                self.options.child_exe.display()
            )),
        }
    }
}
