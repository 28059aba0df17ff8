//! Sessions: long-lived programs behind the policy of commands, with pipes of their own (servers that talk over stdio).
//!
//! Owns: what a session is given, and its end: the whole tree, the private directory, the place among the open ones.
//! Refuses: a wall clock and a limit of processor time; whoever opens a session ends it.

mod life;
mod open;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;

use crate::scratch::{Remover, Scratch};
use life::Life;
pub(crate) use open::{Sessions, Surroundings, open};

const MIB: u64 = 1024 * 1024;

/// What to start as a session, and on what terms.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// The program: a path (a relative one from the directory where it starts), or a name for `PATH` to find.
    pub program: PathBuf,
    /// What it is given, without its own name. A command line: the shell as program, `-c` and the line.
    pub arguments: Vec<String>,
    /// Its environment beside the sandbox's own few variables (`PATH`, `HOME`, `TMPDIR`, `LANG`, `TERM`, `SHELL`); one of
    /// the same name replaces ours.
    pub environment: Vec<(String, String)>,
    /// Where it starts. None: a private directory, removed with the session, which it may write to.
    pub workdir: Option<PathBuf>,
    /// Whether it may write to `workdir`, which then is its `HOME`, too, and no program in there can be started (an
    /// interpreter reads it all the same). Else it reads it, starts programs in it, and has a private directory for a home.
    pub writable: bool,
    /// Directories and files elsewhere that it may read, and start programs from: installed packages, say.
    pub readable: Vec<PathBuf>,
    /// Whether it may use the network: every address that the server reaches. Off, it has no sockets at all.
    pub network: bool,
    /// How much it may use.
    pub limits: SessionLimits,
}

impl SessionSpec {
    /// A program in a private directory, without the network, with the usual limits.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            workdir: None,
            writable: false,
            readable: Vec::new(),
            network: false,
            limits: SessionLimits::default(),
        }
    }
}

/// How much a session may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Address space of each process; 0: not bounded, which JavaScript's V8 needs (it reserves tens of gigabytes).
    pub address_space_bytes: u64,
    /// Memory of the whole tree, bounded where the machine gives runs cgroups with the memory controller; 0: not bounded.
    pub memory_bytes: u64,
    /// Open descriptors of each process.
    pub open_files: u64,
    /// Threads and processes of the whole tree, its supervisor included; more end it.
    pub processes: u64,
    /// The largest file.
    pub file_size_bytes: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            address_space_bytes: 0,
            memory_bytes: 2_048 * MIB,
            open_files: 1_024,
            processes: 128,
            file_size_bytes: 256 * MIB,
        }
    }
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// Its exit code; 128 and the number of the signal if one ended it, as shells have it.
    pub exit_code: Option<i32>,
    /// The signal that ended its supervisor, and with that everything.
    pub signal: Option<i32>,
    /// Why it was ended, if it did not end by itself: in words.
    pub reason: Option<String>,
}

/// A running session. Dropped, it ends with everything that it has started; its private directory is removed.
#[derive(Debug)]
pub struct SandboxSession {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    life: Arc<Life>,
    pidfd: OwnedFd,
    watcher: Option<JoinHandle<()>>,
    own: Option<Scratch>,
    remover: Arc<Remover>,
    _place: open::Place,
}

impl SandboxSession {
    /// The writing end of its standard input, blocking; once. Dropped, the program reads the end of its input.
    pub fn take_stdin(&mut self) -> Option<File> {
        self.stdin.take()
    }

    /// The reading end of its standard output, blocking; once. Whoever does not read lets the program wait.
    pub fn take_stdout(&mut self) -> Option<File> {
        self.stdout.take()
    }

    /// The reading end of its standard error, likewise.
    pub fn take_stderr(&mut self) -> Option<File> {
        self.stderr.take()
    }

    /// How it has ended, if it has. Nothing of it runs any more then.
    pub fn try_wait(&self) -> Option<SessionEnd> {
        self.life.ended()
    }

    /// Waits for its end, at most so long.
    pub fn wait_for(&self, patience: Duration) -> Option<SessionEnd> {
        self.life.wait_for(patience)
    }

    /// Waits for its end.
    pub fn wait(&self) -> SessionEnd {
        self.life.wait()
    }

    /// Ends it with everything that it has started. Returns at once; [`SandboxSession::wait`] tells when it is over.
    pub fn kill(&self) {
        self.life.give_up();
        // It may be gone already; that is what is wanted. The watcher insists.
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::TERM).ok();
    }
}

impl Drop for SandboxSession {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
            self.kill();
        }
        if let Some(watcher) = self.watcher.take() {
            // It never panics; if it did, its guest is dropped, which ends the tree.
            watcher.join().ok();
        }
        if let Some(own) = self.own.take() {
            // What cannot even be renamed is swept at a later start.
            own.discard(&self.remover).ok();
        }
    }
}
