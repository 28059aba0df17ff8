//! Long-lived programs behind the sandbox, with pipes. Owns the trait and what crosses it; refuses to know what confines
//! them.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// What to start, and what it may reach.
#[derive(Clone, Default)]
pub struct ProcessSpec {
    /// A path, or a name for `PATH` to find.
    pub program: PathBuf,
    /// Without its own name.
    pub arguments: Vec<String>,
    /// Beside the sandbox's own few variables; the values may be secrets.
    pub environment: Vec<(String, String)>,
    /// Where it starts; a private directory when absent.
    pub workdir: Option<PathBuf>,
    /// Whether it may write to `workdir`.
    pub writable: bool,
    /// What else it may read and start.
    pub readable: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
}

/// Our ends of a program's pipes, blocking.
#[derive(Debug)]
pub struct GuestPipes {
    /// What it reads.
    pub stdin: File,
    /// What it writes.
    pub stdout: File,
    /// What it complains about.
    pub stderr: File,
}

/// A running program. Dropped, it ends with all that it has started; that may take a moment.
pub trait GuestProcess: Send {
    /// Its pipes; once.
    fn take_pipes(&mut self) -> Option<GuestPipes>;
    /// How it ended, in words without secrets; waits for its end at most so long.
    fn ended(&self, patience: Duration) -> Option<String>;
}

/// Starts programs. Blocking: a start may take seconds.
pub trait Processes: Send + Sync {
    /// A program, or why there is none: words without secrets.
    fn start(&self, order: &ProcessSpec) -> Result<Box<dyn GuestProcess>, String>;
}
