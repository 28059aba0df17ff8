//! One cgroup a run: its whole tree can be killed at once, and bound in memory and processes where delegated.
//!
//! Owns: the directories `nanoclaw-PID-START/RUN` below our place in the tree, and the leaf for the server.
//! Refuses: to touch a controller of, or to move, anything that is not ours; to be relied upon.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use thiserror::Error as ThisError;

use super::CgroupReport;
use super::hierarchy::{self, Place, SERVER_LEAF};
use crate::sys::{self, Fork};

/// The start of every holder's name; the broker's process id and start time follow.
const PREFIX: &str = "nanoclaw-";

/// The controllers that a run is bound by.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// How often a cgroup that still drains is tried again, and how long each time.
const REMOVE_ATTEMPTS: usize = 20;
const DRAIN_WAIT_MS: i64 = 10;

/// How often the processes of a cgroup are gone through where the kernel has no `cgroup.kill`.
const KILL_ROUNDS: usize = 16;

/// How often the server's cgroup is emptied into its leaf: a process may fork meanwhile.
const MOVE_ROUNDS: usize = 8;

/// Why runs get no cgroups.
#[derive(Debug, ThisError)]
pub(crate) enum NoCgroup {
    /// There is no v2 tree.
    #[error("no cgroup v2 tree is mounted")]
    Absent,
    /// The mounts do not show our place.
    #[error("our cgroup '{path}' lies outside of the mounted tree")]
    Outside {
        /// Our place.
        path: String,
    },
    /// A container's tree, or the unit's `ProtectControlGroups=`.
    #[error("'{}' is read-only", path.display())]
    ReadOnly {
        /// Our place.
        path: PathBuf,
    },
    /// Not ours.
    #[error("'{}' is not ours to arrange: {source}", path.display())]
    Denied {
        /// Our place.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's tables could not be read.
    #[error("cannot read '{}': {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The first directory of ours could not be made.
    #[error("cannot make '{}': {source}", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl NoCgroup {
    /// What an operator can do about it.
    pub(super) fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Absent => "boot with systemd.unified_cgroup_hierarchy=1 to have cgroup v2",
            Self::ReadOnly { .. } => {
                "under systemd: Delegate=memory pids and ReadWritePaths=-/sys/fs/cgroup/system.slice/%n in the unit; \
                 in a container: mount its cgroup tree writable"
            }
            Self::Denied { .. } | Self::Make { .. } => "set Delegate=memory pids in the unit",
            Self::Outside { .. } | Self::Read { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

/// The place of this broker's runs.
#[derive(Debug)]
pub(crate) struct Cgroups {
    holder: PathBuf,
    controllers: Vec<&'static str>,
    /// Why controllers are missing.
    lack: Option<String>,
}

impl Cgroups {
    /// Takes a place below our own cgroup. Where that is delegated to us, our parent, the server, and all that descends
    /// from it move to a leaf, and the controllers are switched on. What earlier brokers left there is removed.
    pub(crate) fn take() -> Result<Self, NoCgroup> {
        let server = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        Self::take_in(&hierarchy::find(server)?)
    }

    fn take_in(place: &Place) -> Result<Self, NoCgroup> {
        sweep(&place.base);
        let prepared = if place.is_delegated {
            make_room(&place.base).map_err(|error| format!("controllers are off: {error}"))
        } else {
            Err("controllers are off: the cgroup is not delegated".to_owned())
        };
        let pid = std::process::id();
        let started = hierarchy::started_at(pid).unwrap_or_default();
        let holder = place.base.join(format!("{PREFIX}{pid}-{started}"));
        make_directory(&holder).map_err(|source| NoCgroup::Make { path: holder.clone(), source })?;
        let enabled = prepared.and_then(|()| {
            let outer = enable(&place.base).map_err(|error| format!("controllers are off: {error}"))?;
            let inner = enable(&holder).map_err(|error| format!("controllers are off: {error}"))?;
            Ok(inner.into_iter().filter(|name| outer.contains(name)).collect::<Vec<_>>())
        });
        let (controllers, lack) = match enabled {
            Ok(controllers) => {
                let missing: Vec<_> =
                    CONTROLLERS.iter().filter(|name| !controllers.contains(name)).copied().collect();
                let lack = (!missing.is_empty())
                    .then(|| format!("the cgroup above has no controller {}", missing.join(", ")));
                (controllers, lack)
            }
            Err(lack) => (Vec::new(), Some(lack)),
        };
        Ok(Self { holder, controllers, lack })
    }

    /// Makes a run's cgroup. Limits whose controller is missing are left out: rlimits hold without them.
    pub(crate) fn make(
        &self,
        name: &str,
        memory_bytes: Option<u64>,
        processes: Option<u64>,
    ) -> io::Result<RunCgroup> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = self.holder.join(name);
        fs::create_dir(&path)?;
        let made = self.bind(&path, memory_bytes, processes).and_then(|()| RunCgroup::open(path.clone()));
        if made.is_err() {
            // Nobody is in it yet; what cannot be removed now, the next broker sweeps.
            fs::remove_dir(&path).ok();
        }
        made
    }

    fn bind(&self, path: &Path, memory_bytes: Option<u64>, processes: Option<u64>) -> io::Result<()> {
        if let Some(bytes) = memory_bytes.filter(|_| self.controllers.contains(&"memory")) {
            write_value(path, "memory.max", &bytes.to_string())?;
            // One process killed for want of memory ends the whole run.
            write_value(path, "memory.oom.group", "1")?;
            // A kernel without swap accounting has no such file; then there is nothing to bound.
            write_value(path, "memory.swap.max", "0").or_else(absent_is_fine)?;
        }
        if let Some(count) = processes.filter(|_| self.controllers.contains(&"pids")) {
            write_value(path, "pids.max", &count.to_string())?;
        }
        Ok(())
    }

    /// Removes the place of this broker, killing what is still in it. For the broker's orderly end.
    pub(crate) fn leave(&self) {
        remove_holder(&self.holder);
    }

    /// In words for the operator.
    pub(super) fn report(&self) -> CgroupReport {
        let advice = self.lack.is_some().then(|| "set Delegate=memory pids in the unit".to_owned());
        CgroupReport {
            path: Some(self.holder.clone()),
            controllers: self.controllers.iter().map(ToString::to_string).collect(),
            reason: self.lack.clone(),
            advice,
        }
    }
}

/// The cgroup of one run. Dropping it does nothing: a forked child drops its copy too. [`RunCgroup::try_remove`] ends
/// it.
#[derive(Debug)]
pub(crate) struct RunCgroup {
    path: PathBuf,
    directory: File,
    processes: File,
}

impl RunCgroup {
    fn open(path: PathBuf) -> io::Result<Self> {
        let directory = File::open(&path)?;
        let processes = OpenOptions::new().write(true).open(path.join("cgroup.procs"))?;
        Ok(Self { path, directory, processes })
    }

    /// Forks a child that is in it from its first instant, or, where the kernel or a filter forbids that, moves there
    /// before this returns in it. The calling process must have one thread.
    ///
    /// A child that could not move runs outside: the layer is never relied upon, whoever ends a run kills it otherwise
    /// too.
    pub(crate) fn fork(&self) -> io::Result<Fork> {
        if let Ok(forked) = sys::fork_into_cgroup(self.directory.as_fd()) {
            return Ok(forked);
        }
        let forked = sys::fork()?;
        if matches!(forked, Fork::Child) {
            self.join().ok();
        }
        Ok(forked)
    }

    /// Moves the calling process in: for a forked child, before its policy closes. Nothing it starts can leave again
    /// without opening files of the tree, which no policy of ours allows.
    fn join(&self) -> io::Result<()> {
        (&self.processes).write_all(b"0")
    }

    /// Ends its run: kills whoever is left in it, and says how many were killed for want of memory before.
    pub(crate) fn end(&self) -> u64 {
        let before = self.memory_events();
        // It may be empty, and is as a rule; what cannot be killed this way the broker hunts down.
        self.kill().ok();
        before.oom_kill
    }

    /// Kills every process in it, whatever session or parent it gave itself.
    fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }

    /// What the kernel counted of its memory; nothing where the controller is missing.
    fn memory_events(&self) -> MemoryEvents {
        MemoryEvents::parse(&fs::read_to_string(self.path.join("memory.events")).unwrap_or_default())
    }

    /// Removes it unless processes are left in it; says whether there is nothing more to do. Never waits.
    pub(crate) fn try_remove(&self) -> bool {
        let outcome = fs::remove_dir(&self.path);
        // Whatever else resists goes with the broker's place.
        !matches!(outcome, Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
    }
}

/// Counts of a run's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemoryEvents {
    /// Processes killed because the limit was met.
    oom_kill: u64,
}

impl MemoryEvents {
    fn parse(text: &str) -> Self {
        Self { oom_kill: number(text, "oom_kill") }
    }
}

/// The number after a key in a file of "key number" lines; 0 without it.
fn number(text: &str, key: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Writes one of the kernel's files; never makes one.
fn write_value(cgroup: &Path, file: &str, value: &str) -> io::Result<()> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{file}: {error}"));
    let mut file = OpenOptions::new().write(true).open(cgroup.join(file)).map_err(explain)?;
    file.write_all(value.as_bytes()).map_err(explain)
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Moves the processes of a delegated cgroup into its leaf. They were looked at before: all are the server's.
fn make_room(base: &Path) -> io::Result<()> {
    let leaf = base.join(SERVER_LEAF);
    make_directory(&leaf)?;
    for _ in 0..MOVE_ROUNDS {
        let processes = fs::read_to_string(base.join("cgroup.procs"))?;
        if processes.trim().is_empty() {
            return Ok(());
        }
        for pid in processes.lines() {
            match write_value(&leaf, "cgroup.procs", pid) {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
    }
    Err(io::Error::other("new processes keep appearing in our cgroup"))
}

/// Switches our controllers on below a cgroup; says which are on.
fn enable(cgroup: &Path) -> io::Result<Vec<&'static str>> {
    let there = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    let wanted = CONTROLLERS.iter().filter(|name| there.split_whitespace().any(|other| other == **name));
    let mut enabled = Vec::new();
    for name in wanted {
        write_value(cgroup, "cgroup.subtree_control", &format!("+{name}"))?;
        enabled.push(*name);
    }
    Ok(enabled)
}

/// Kills every process of a cgroup and of those below it.
fn kill(cgroup: &Path) -> io::Result<()> {
    match write_value(cgroup, "cgroup.kill", "1") {
        // Before Linux 5.14 there is no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && cgroup.exists() => kill_each(cgroup),
        other => other.or_else(absent_is_fine),
    }
}

/// Kills one by one. Frozen, nobody can fork away meanwhile; SIGKILL reaches the frozen too.
fn kill_each(cgroup: &Path) -> io::Result<()> {
    write_value(cgroup, "cgroup.freeze", "1").or_else(absent_is_fine)?;
    for _ in 0..KILL_ROUNDS {
        let processes = fs::read_to_string(cgroup.join("cgroup.procs"))?;
        let mut pids =
            processes.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).peekable();
        if pids.peek().is_none() {
            return Ok(());
        }
        for pid in pids {
            // It may be gone already; that is what is wanted.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        wait_for_drain(cgroup);
    }
    Ok(())
}

/// Waits a little, or until the last process has left: the kernel tells on `cgroup.events`.
fn wait_for_drain(cgroup: &Path) {
    let Ok(mut events) = File::open(cgroup.join("cgroup.events")) else { return };
    let mut text = String::new();
    if events.read_to_string(&mut text).is_err() || number(&text, "populated") == 0 {
        return;
    }
    let wait = Timespec { tv_sec: 0, tv_nsec: DRAIN_WAIT_MS * 1_000_000 };
    // However it ends, the caller looks again.
    rustix::event::poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&wait)).ok();
}

/// Removes a cgroup, waiting up to a fifth of a second while killed processes drain.
fn remove(cgroup: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..REMOVE_ATTEMPTS {
        outcome = fs::remove_dir(cgroup).or_else(absent_is_fine);
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => wait_for_drain(cgroup),
            _ => return outcome,
        }
    }
    outcome
}

/// Removes what brokers that are no more left below `base`; what resists stays, out of every run's way.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            remove_holder(&entry.path());
        }
    }
}

/// Whether a name is that of a holder whose broker has ended.
fn is_left_over(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let Some((pid, started)) = parts else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    hierarchy::started_at(pid).is_none_or(|other| other != started)
}

/// Kills and removes a holder and the runs in it. Best effort: nothing depends on it.
pub(super) fn remove_holder(holder: &Path) {
    let runs: Vec<PathBuf> = fs::read_dir(holder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
        .unwrap_or_default();
    for path in runs.iter().map(PathBuf::as_path).chain([holder]) {
        kill(path).ok();
        remove(path).ok();
    }
}

#[cfg(test)]
mod tests;
