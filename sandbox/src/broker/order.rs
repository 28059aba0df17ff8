//! What server, broker and zygotes say to each other. The program's text itself travels in a memory file: only the
//! process that runs it ever reads it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::packet;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::policy::FileRule;
use crate::python::ZygoteSpec;
use crate::selftest::Probe;
use crate::sys::Ended;

/// One run: server to broker, with the descriptors of [`Ends`](super::Ends).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The level, for the policy's profile and for messages.
    pub level: Level,
    /// The limits, with a call's own timeout worked in.
    pub limits: RunLimits,
    /// The kernel's landlock ABI as the server found it.
    pub landlock_abi: u32,
    /// The directory to start in; lenient Python and shell commands own it.
    pub directory: PathBuf,
    /// Where below it a command starts.
    pub subdirectory: Option<PathBuf>,
    /// The paths that stay open.
    pub files: Vec<FileRule>,
    /// What to do behind the policy.
    pub task: Task,
}

/// What a child does once the policy is in force.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Runs JavaScript.
    #[serde(rename = "javascript")]
    JavaScript {
        /// Whether `import` is answered with a refusal rather than a bare syntax error.
        language_check: bool,
        /// Whether a socket to the server's host comes along, for the program's host calls.
        #[serde(default)]
        has_host: bool,
    },
    /// Runs Python in a child of the zygote that fits the description.
    Python {
        /// Which zygote.
        zygote: Box<ZygoteSpec>,
        /// Whether modules and builtins are checked.
        language_check: bool,
    },
    /// Runs a command line, and ends every process that it left.
    Shell(ShellTask),
    /// Tries to get out (the self-test).
    Probe(Probe),
}

/// A command line's surroundings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShellTask {
    /// The shell.
    pub shell: PathBuf,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Whether the operator lets commands use the network.
    pub network: bool,
    /// Whether a standard input comes along; else it is `/dev/null`.
    #[serde(default)]
    pub has_stdin: bool,
    /// What the shell, then any program, is given instead of `-c` and the text.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// What the cgroup of the tree holds at most, if that is not a process's address space.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

/// What a run's sixth descriptor is, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// A command's standard input.
    Stdin,
    /// A script's socket to the server's host.
    Host,
}

impl Task {
    /// Says that the socket to the server's host comes along.
    pub(crate) fn expect_host(&mut self) {
        match self {
            Self::JavaScript { has_host, .. } => *has_host = true,
            // Nobody else makes host calls; a test has a command stand in for a hostile script.
            Self::Shell(task) => task.has_stdin = true,
            Self::Python { .. } | Self::Probe(_) => {}
        }
    }

    /// Whether a sixth descriptor belongs to it, and which.
    pub(crate) fn extra(&self) -> Option<Extra> {
        match self {
            Self::JavaScript { has_host: true, .. } => Some(Extra::Host),
            Self::Shell(task) if task.has_stdin => Some(Extra::Stdin),
            _ => None,
        }
    }
}

/// What becomes of a run: broker to server, on the run's own socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The child lives; a pidfd comes with it.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// It has ended and is reaped. The last word.
    Ended {
        /// The exit code, if it exited.
        exit_code: Option<i32>,
        /// The signal, if one ended it.
        signal: Option<i32>,
        /// User and system time.
        cpu_us: u64,
        /// Peak resident memory.
        max_rss_kb: u64,
        /// Processes of its cgroup that were killed for want of memory.
        oom_kills: u64,
    },
    /// There is no child. The last word.
    Failed {
        /// Why.
        message: String,
    },
}

impl Reply {
    /// The last word about a child that was reaped.
    pub(crate) fn ended(ended: &Ended) -> Self {
        Self::Ended {
            exit_code: ended.exit_code,
            signal: ended.signal,
            cpu_us: u64::try_from(ended.cpu.as_micros()).unwrap_or(u64::MAX),
            max_rss_kb: ended.max_rss_kb,
            oom_kills: ended.oom_kills,
        }
    }

    /// What the kernel counted, if this is the end of a child.
    pub(crate) fn into_ended(self) -> Result<Ended, String> {
        match self {
            Self::Ended { exit_code, signal, cpu_us, max_rss_kb, oom_kills } => {
                let cpu = Duration::from_micros(cpu_us);
                Ok(Ended { exit_code, signal, cpu, max_rss_kb, oom_kills })
            }
            Self::Failed { message } => Err(message),
            Self::Started { pid } => Err(format!("the broker announced process {pid} twice")),
        }
    }
}

/// Tells a run's server that there is no child.
pub(super) fn refuse(reply: &OwnedFd, message: String) {
    // A server that no longer listens has let go of the run.
    packet::send(reply.as_fd(), &Reply::Failed { message }, &[]).ok();
}

/// One run: broker to a zygote's spare child, with the guest's pipes, its text and its landlock ruleset.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Birth {
    /// Whether modules and builtins are checked.
    pub language_check: bool,
    /// The directory to start in.
    pub directory: PathBuf,
    /// The limits.
    pub limits: RunLimits,
}

/// What a zygote says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "zygote", rename_all = "snake_case")]
pub(crate) enum ZygoteReply {
    /// It is warm.
    Ready,
    /// It has a spare child, which is the broker's; the socket to it comes along.
    Born {
        /// The child's process id.
        pid: i32,
    },
    /// It could not warm up, or has no child.
    Failed {
        /// Why.
        message: String,
    },
}
