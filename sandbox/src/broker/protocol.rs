//! The messages between server, broker and zygotes.
//!
//! The text of a program, and the arguments and the environment of a command, travel in a memory file: only
//! the process that runs it reads it. What the broker reads stays in its memory, which every later child
//! gets.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::packet;
use crate::child::SelfTestProbe;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::policy::{FilterProfile, PathRule};
use crate::process::ChildExit;
use crate::zygote::ZygoteSpec;

/// The first argument that makes this binary the sandbox's broker.
pub const BROKER_MARKER: &str = "__nanoclaw_sandbox_broker";

/// The argument after it that leaves the network to the broker and everything that it starts.
pub(super) const NETWORK_ARGUMENT: &str = "network";

/// One run: server to broker, with the run's descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    /// Selects the policy profile.
    pub level: Level,
    /// The limits of the level, with the call's own timeout applied.
    pub limits: RunLimits,
    /// The landlock ABI of the kernel, as the server found it.
    pub landlock_abi: u32,
    /// The working directory. Lenient Python and commands may write to it.
    pub directory: PathBuf,
    /// Where below it a command starts.
    pub subdirectory: Option<PathBuf>,
    /// The paths that landlock allows.
    pub files: Vec<PathRule>,
    pub task: RunTask,
}

/// The work of a child once the policy is in force.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum RunTask {
    #[serde(rename = "javascript")]
    JavaScript {
        /// Whether `import` gets a helpful refusal instead of a syntax error.
        language_check: bool,
        /// Whether a socket for host calls comes with the request.
        #[serde(default)]
        has_host: bool,
    },
    /// Runs Python in a child of the zygote with this specification.
    Python {
        zygote: Box<ZygoteSpec>,
        /// How long, in seconds, the zygote stays after this run; `None`: until it is replaced. With 0 it
        /// prepares no children for further runs.
        zygote_idle_s: Option<u64>,
        /// The most lenient level that the caller may choose.
        #[serde(default = "strictest")]
        max_level: Level,
        /// Whether modules and builtins are checked.
        language_check: bool,
    },
    /// Runs a command and ends every process that it leaves.
    Shell(ShellTask),
    /// Tries to escape (the self-test).
    Probe(SelfTestProbe),
}

/// A command. Its [`CommandLine`] comes in place of a program's text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShellTask {
    /// The shell, or another program.
    pub shell: PathBuf,
    /// Whether the command may use the network.
    pub network: bool,
    /// TCP ports that it may not connect to all the same.
    #[serde(default)]
    pub closed_ports: Vec<u16>,
    /// Whether a standard input comes with the request; otherwise it is `/dev/null`.
    #[serde(default)]
    pub has_stdin: bool,
    /// The memory limit of the command's cgroup, if it differs from the address space of one process.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

/// What a command is started with. It may hold keys of the operator.
#[derive(Serialize, Deserialize)]
pub(crate) struct CommandLine {
    /// Without the name of the program.
    pub arguments: Vec<String>,
    /// Complete.
    pub environment: Vec<(String, String)>,
}

impl CommandLine {
    /// The text for the memory file.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| format!("cannot encode the command: {error}"))
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("cannot decode the command: {error}"))
    }
}

/// The purpose of the sixth descriptor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtraFd {
    /// A command's standard input.
    Stdin,
    /// A script's socket for host calls.
    Host,
}

impl RunTask {
    /// Announces that the socket for host calls comes with the request.
    pub(crate) fn expect_host(&mut self) {
        match self {
            Self::JavaScript { has_host, .. } => *has_host = true,
            // Only scripts make host calls. In a test, a command stands in for a hostile script.
            Self::Shell(task) => task.has_stdin = true,
            Self::Python { .. } | Self::Probe(_) => {}
        }
    }

    /// The purpose of the sixth descriptor, if the run has one.
    pub(crate) fn extra_fd(&self) -> Option<ExtraFd> {
        match self {
            Self::JavaScript { has_host: true, .. } => Some(ExtraFd::Host),
            Self::Shell(task) if task.has_stdin => Some(ExtraFd::Stdin),
            _ => None,
        }
    }

    /// The system call filters of the task. JavaScript has no files or threads of its own: it is confined at
    /// every level.
    pub(super) fn filter_profile(&self, level: Level) -> FilterProfile {
        match (self, level) {
            #[cfg(feature = "ablation")]
            (Self::Probe(SelfTestProbe::Calls { online: true, .. }), _) => FilterProfile::Online,
            (Self::JavaScript { .. }, _) | (_, Level::Strict | Level::Standard) => FilterProfile::Confined,
            (Self::Shell(task), _) if task.network => FilterProfile::Online,
            (Self::Shell(_), _) | (_, Level::Shell) => FilterProfile::Shell,
            (Self::Python { .. } | Self::Probe(_), Level::Lenient) => FilterProfile::Lenient,
        }
    }
}

/// The fate of a run: broker to server, on the run's own socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum RunReply {
    /// The child runs; its pidfd comes with the message.
    Started { pid: i32 },
    /// The caller has closed its writing end, and the broker has killed the child: proof that the broker
    /// works, however long the child takes.
    Cancelled,
    /// The child has exited and is reaped. The last message of a run, unless processes are left.
    Ended {
        exit_code: Option<i32>,
        signal: Option<i32>,
        /// User and system time.
        cpu_us: u64,
        /// Peak resident memory.
        max_rss_kb: u64,
        /// Processes of its cgroup that the kernel killed for lack of memory.
        oom_kills: u64,
        /// Processes that the child left are killed, but not gone. The message comes again when they are.
        leaves_processes: bool,
    },
    /// The run has no child. The last message of a run.
    Failed { message: String },
}

impl RunReply {
    pub(crate) fn ended(exit: &ChildExit) -> Self {
        Self::Ended {
            exit_code: exit.exit_code,
            signal: exit.signal,
            cpu_us: u64::try_from(exit.cpu.as_micros()).unwrap_or(u64::MAX),
            max_rss_kb: exit.max_rss_kb,
            oom_kills: exit.oom_kills,
            leaves_processes: exit.leaves_processes,
        }
    }

    /// The exit of the child; `None` if it has not exited yet.
    pub(crate) fn into_exit(self) -> Result<Option<ChildExit>, String> {
        match self {
            Self::Ended { exit_code, signal, cpu_us, max_rss_kb, oom_kills, leaves_processes } => {
                let cpu = Duration::from_micros(cpu_us);
                Ok(Some(ChildExit { exit_code, signal, cpu, max_rss_kb, oom_kills, leaves_processes }))
            }
            Self::Cancelled => Ok(None),
            Self::Failed { message } => Err(message),
            Self::Started { pid } => Err(format!("the broker announced process {pid} twice")),
        }
    }
}

/// Reports that a run has no child.
pub(crate) fn send_failure(reply: &OwnedFd, message: String) {
    // A server that has closed the socket no longer waits for the run.
    packet::send(reply.as_fd(), &RunReply::Failed { message }, &[]).ok();
}

/// A request that names no level allows no other.
fn strictest() -> Level {
    Level::Strict
}

/// One run: broker to a zygote's spare child, with the guest's pipes, its text, its landlock ruleset and its
/// standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ZygoteRunRequest {
    /// Whether modules and builtins are checked.
    pub language_check: bool,
    /// The most lenient level that the caller may choose.
    pub max_level: Level,
    /// The working directory.
    pub directory: PathBuf,
    pub limits: RunLimits,
}

/// The messages of a zygote.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "zygote", rename_all = "snake_case")]
pub(crate) enum ZygoteReply {
    /// The interpreter is warm.
    Ready,
    /// A spare child exists. It has the oldest socket that the zygote has not answered for.
    Forked { pid: i32 },
    /// The zygote could not warm up, or could not fork.
    Failed { message: String },
}
