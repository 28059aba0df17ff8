//! Long-lived sandboxed programs with pipes, such as MCP servers.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// A program to start, and its permissions.
#[derive(Clone, Default)]
pub struct ProcessSpec {
    /// A path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Arguments without the program's name.
    pub arguments: Vec<String>,
    /// Variables added to the sandbox's own; values may be secrets.
    pub environment: Vec<(String, String)>,
    /// Working directory; a private one when absent.
    pub workdir: Option<PathBuf>,
    /// Whether the program may write to `workdir`.
    pub writable: bool,
    /// Further paths that it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Further files and directories that it may read and write.
    pub writable_paths: Vec<PathBuf>,
    /// Further directories that it may read, write and execute programs from.
    pub program_dirs: Vec<PathBuf>,
    /// A directory that outlives it, made when it does not exist: it may do the same there.
    pub own_dir: Option<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// TCP ports that it may not connect to all the same.
    pub closed_ports: Vec<u16>,
    /// Whether it runs with all rights of this process's user.
    pub without_sandbox: bool,
}

/// The server's ends of the program's pipes, blocking.
#[derive(Debug)]
pub struct GuestPipes {
    /// The program's standard input.
    pub stdin: File,
    /// The program's standard output.
    pub stdout: File,
    /// The program's standard error.
    pub stderr: File,
}

/// A running program. Dropping it kills the program and all its descendants, which may take a moment.
pub trait GuestProcess: Send {
    /// The pipes; `Some` once.
    fn take_pipes(&mut self) -> Option<GuestPipes>;
    /// Exit status as a text without secrets. Waits for the end, at most `timeout`.
    fn ended(&self, timeout: Duration) -> Option<String>;
}

/// Starts programs. Blocking: a start may take seconds.
pub trait Processes: Send + Sync {
    /// Starts a program; the error text contains no secrets.
    fn start(&self, order: &ProcessSpec) -> Result<Box<dyn GuestProcess>, String>;
}
