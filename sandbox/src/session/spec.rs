//! The specification of a session, its limits, and its end.

use std::path::{Path, PathBuf};

const MIB: u64 = 1024 * 1024;

/// The program of a session and what it may use.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// The program: a path (a relative one from the directory where it starts), or a name to find in `PATH`.
    pub program: PathBuf,
    /// Its arguments without its own name. For a command line: the shell as program, `-c` and the line.
    pub arguments: Vec<String>,
    /// Environment variables besides the sandbox's own (`PATH`, `HOME`, `TMPDIR`, `LANG`, `TERM`, `SHELL`).
    /// One with the same name replaces the sandbox's.
    pub environment: Vec<(String, String)>,
    /// The directory where it starts. `None`: a private one, writable and removed with the session.
    pub workdir: Option<PathBuf>,
    /// Whether it may write to `workdir`, which then is its `HOME`, too. Programs in a writable directory
    /// cannot be executed, but an interpreter can read them. Otherwise the session reads `workdir`, executes
    /// programs in it, and has a private directory as its `HOME`.
    pub writable: bool,
    /// Other directories and files that it may read and execute programs from, such as installed packages.
    pub readable: Vec<PathBuf>,
    /// Other directories and files that it may read and write.
    pub writable_paths: Vec<PathBuf>,
    /// Other directories that it may read, write and execute programs from, such as the cache of a package
    /// runner. The caller limits their size.
    pub program_dirs: Vec<PathBuf>,
    /// Whether it may use the network: every address that the server reaches. Otherwise it has no sockets.
    pub network: bool,
    /// TCP ports that it may not connect to, at any address, such as that of a server that trusts all local
    /// clients. Needs [`crate::can_close_ports`]. A start then takes up to a second longer.
    pub closed_ports: Vec<u16>,
    /// Its limits.
    pub limits: SessionLimits,
}

impl SessionSpec {
    /// Whether the session may write to this canonical path already.
    pub(super) fn is_granted(&self, path: &Path) -> bool {
        let mut granted = self.writable_paths.iter().chain(&self.program_dirs);
        granted.any(|tree| tree.canonicalize().is_ok_and(|tree| path.starts_with(tree)))
    }

    /// A program in a private directory, without the network, with the default limits.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            workdir: None,
            writable: false,
            readable: Vec::new(),
            writable_paths: Vec::new(),
            program_dirs: Vec::new(),
            network: false,
            closed_ports: Vec::new(),
            limits: SessionLimits::default(),
        }
    }
}

/// The limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Address space of each process; 0: no limit, as JavaScript's V8 needs (it reserves tens of gigabytes).
    pub address_space_bytes: u64,
    /// Memory of the whole tree, where the machine gives runs cgroups with the memory controller; 0: no
    /// limit.
    pub memory_bytes: u64,
    /// Open descriptors of each process.
    pub open_files: u64,
    /// Threads and processes of the whole tree, including its supervisor. More end the session.
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
    /// Its exit code; 128 plus the number of the signal that ended it, as in shells.
    pub exit_code: Option<i32>,
    /// The signal that ended its supervisor, and with it everything.
    pub signal: Option<i32>,
    /// Why it was ended, if it did not end by itself.
    pub reason: Option<String>,
}
