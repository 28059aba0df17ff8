//! One cgroup per run: its whole tree can be killed at once. Where the cgroup is delegated, memory and
//! processes are limited, too.
//!
//! The cgroups are `nanoclaw-PID-START/RUN` below our own. Nothing outside a delegated cgroup is moved or
//! changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};

use super::cgroup_tree::{self, CgroupBase, CgroupError, SERVER_LEAF};
use super::report::CgroupReport;
use crate::sys::{self, ForkResult};

/// The start of the name of a broker's cgroup. The broker's process id and start time follow.
const PREFIX: &str = "nanoclaw-";

/// The controllers that limit a run.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// How often removal is tried while processes exit, and the pause between two attempts.
const REMOVE_ATTEMPTS: usize = 20;
const DRAIN_WAIT_MS: i64 = 10;

/// How often the processes of a cgroup are listed and killed if the kernel has no `cgroup.kill`.
const KILL_ROUNDS: usize = 16;

/// How often processes are moved to the server's leaf: one may fork meanwhile.
const MOVE_ROUNDS: usize = 8;

/// The parent of this broker's run cgroups.
#[derive(Debug)]
pub(crate) struct BrokerCgroup {
    path: PathBuf,
    controllers: Vec<&'static str>,
    /// Why controllers are missing.
    missing: Option<String>,
}

impl BrokerCgroup {
    /// Creates it below our own cgroup. If that is delegated to us, the server and its descendants move to a
    /// leaf, and the controllers are enabled. Cgroups of earlier brokers are removed.
    pub(crate) fn create_below_own() -> Result<Self, CgroupError> {
        let server = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        Self::create_in(&cgroup_tree::find(server)?)
    }

    fn create_in(base: &CgroupBase) -> Result<Self, CgroupError> {
        sweep(&base.path);
        let prepared = if base.is_delegated {
            move_to_leaf(&base.path).map_err(|error| format!("controllers are off: {error}"))
        } else {
            Err("controllers are off: the cgroup is not delegated".to_owned())
        };
        let pid = std::process::id();
        let started = cgroup_tree::started_at(pid).unwrap_or_default();
        let path = base.path.join(format!("{PREFIX}{pid}-{started}"));
        make_directory(&path).map_err(|source| CgroupError::Make { path: path.clone(), source })?;
        let enabled = prepared.and_then(|()| {
            let outer = enable(&base.path).map_err(|error| format!("controllers are off: {error}"))?;
            let inner = enable(&path).map_err(|error| format!("controllers are off: {error}"))?;
            Ok(inner.into_iter().filter(|name| outer.contains(name)).collect::<Vec<_>>())
        });
        let (controllers, missing) = match enabled {
            Ok(controllers) => {
                let absent: Vec<_> =
                    CONTROLLERS.iter().filter(|name| !controllers.contains(name)).copied().collect();
                let missing = (!absent.is_empty())
                    .then(|| format!("the cgroup above has no controller {}", absent.join(", ")));
                (controllers, missing)
            }
            Err(missing) => (Vec::new(), Some(missing)),
        };
        Ok(Self { path, controllers, missing })
    }

    /// Creates the cgroup of a run. Limits without a controller are left out; rlimits hold without them.
    pub(crate) fn create(
        &self,
        name: &str,
        memory_bytes: Option<u64>,
        processes: Option<u64>,
    ) -> io::Result<RunCgroup> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        let created =
            self.set_limits(&path, memory_bytes, processes).and_then(|()| RunCgroup::open(path.clone()));
        if created.is_err() {
            // It is empty. If it cannot be removed now, the next broker removes it.
            fs::remove_dir(&path).ok();
        }
        created
    }

    fn set_limits(&self, path: &Path, memory_bytes: Option<u64>, processes: Option<u64>) -> io::Result<()> {
        if let Some(bytes) = memory_bytes.filter(|_| self.controllers.contains(&"memory")) {
            write_value(path, "memory.max", &bytes.to_string())?;
            // If the kernel kills one process for lack of memory, it kills the whole run.
            write_value(path, "memory.oom.group", "1")?;
            // A kernel without swap accounting has no such file.
            write_value(path, "memory.swap.max", "0").or_else(ignore_absent)?;
        }
        if let Some(count) = processes.filter(|_| self.controllers.contains(&"pids")) {
            write_value(path, "pids.max", &count.to_string())?;
        }
        Ok(())
    }

    /// Kills everything inside and removes it. For the broker's shutdown.
    pub(crate) fn remove(&self) {
        remove_with_runs(&self.path);
    }

    pub(super) fn report(&self) -> CgroupReport {
        let advice = self.missing.is_some().then(|| "set Delegate=memory pids in the unit".to_owned());
        CgroupReport {
            path: Some(self.path.clone()),
            controllers: self.controllers.iter().map(ToString::to_string).collect(),
            reason: self.missing.clone(),
            advice,
        }
    }
}

/// The cgroup of one run. Dropping it does nothing, because a forked child drops its copy, too.
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

    /// Forks a child into the cgroup. If the kernel or a filter forbids that, the child moves itself before
    /// this function returns in it. The calling process must have one thread.
    ///
    /// A child that cannot move runs outside. No level needs the cgroup, and the end of a run does not depend
    /// on it.
    pub(crate) fn fork(&self) -> io::Result<ForkResult> {
        if let Ok(forked) = sys::fork_into_cgroup(self.directory.as_fd()) {
            return Ok(forked);
        }
        let forked = sys::fork()?;
        if matches!(forked, ForkResult::Child) {
            self.join().ok();
        }
        Ok(forked)
    }

    /// Moves the calling process into the cgroup. For a forked child, before its policy is in force: leaving
    /// needs files that no policy allows.
    fn join(&self) -> io::Result<()> {
        (&self.processes).write_all(b"0")
    }

    /// Kills every process left in it. Returns how many the kernel had killed for lack of memory.
    pub(crate) fn end(&self) -> u64 {
        let before = self.memory_events();
        // It is usually empty. The broker ends processes that this does not kill.
        self.kill().ok();
        before.oom_kill
    }

    /// Kills every process in it, whatever its session or parent is.
    fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }

    /// The kernel's memory events; zero without the controller.
    fn memory_events(&self) -> MemoryEvents {
        MemoryEvents::parse(&fs::read_to_string(self.path.join("memory.events")).unwrap_or_default())
    }

    /// Removes it unless processes are left in it. True if no further attempt is needed. Never waits.
    pub(crate) fn try_remove(&self) -> bool {
        let outcome = fs::remove_dir(&self.path);
        // After other errors it is removed with its parent.
        !matches!(outcome, Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
    }
}

/// Memory events of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemoryEvents {
    /// Processes that the kernel killed at the limit.
    oom_kill: u64,
}

impl MemoryEvents {
    fn parse(text: &str) -> Self {
        Self { oom_kill: number(text, "oom_kill") }
    }
}

/// The number after a key in a file of "key number" lines; 0 if it is missing.
fn number(text: &str, key: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Writes a file of the kernel. Never creates one.
fn write_value(cgroup: &Path, file: &str, value: &str) -> io::Result<()> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{file}: {error}"));
    let mut file = OpenOptions::new().write(true).open(cgroup.join(file)).map_err(explain)?;
    file.write_all(value.as_bytes()).map_err(explain)
}

fn ignore_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Moves the processes of a delegated cgroup into its leaf. The caller has checked that all are the server's.
fn move_to_leaf(base: &Path) -> io::Result<()> {
    let leaf = base.join(SERVER_LEAF);
    make_directory(&leaf)?;
    for _ in 0..MOVE_ROUNDS {
        let processes = fs::read_to_string(base.join("cgroup.procs"))?;
        if processes.trim().is_empty() {
            return Ok(());
        }
        for pid in processes.lines() {
            match write_value(&leaf, "cgroup.procs", pid) {
                // It has exited meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
    }
    Err(io::Error::other("new processes keep appearing in our cgroup"))
}

/// Enables the controllers below a cgroup and returns the enabled ones.
fn enable(cgroup: &Path) -> io::Result<Vec<&'static str>> {
    let available = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    let usable =
        CONTROLLERS.iter().filter(|name| available.split_whitespace().any(|listed| listed == **name));
    let mut enabled = Vec::new();
    for name in usable {
        write_value(cgroup, "cgroup.subtree_control", &format!("+{name}"))?;
        enabled.push(*name);
    }
    Ok(enabled)
}

/// Kills every process of a cgroup and of those below it.
fn kill(cgroup: &Path) -> io::Result<()> {
    match write_value(cgroup, "cgroup.kill", "1") {
        // Linux before 5.14 has no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && cgroup.exists() => kill_each(cgroup),
        other => other.or_else(ignore_absent),
    }
}

/// Kills one by one. Frozen processes cannot fork meanwhile, and SIGKILL works on them.
fn kill_each(cgroup: &Path) -> io::Result<()> {
    write_value(cgroup, "cgroup.freeze", "1").or_else(ignore_absent)?;
    for _ in 0..KILL_ROUNDS {
        let processes = fs::read_to_string(cgroup.join("cgroup.procs"))?;
        let mut pids =
            processes.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).peekable();
        if pids.peek().is_none() {
            return Ok(());
        }
        for pid in pids {
            // It may have exited already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        wait_for_exits(cgroup);
    }
    Ok(())
}

/// Waits a short time, or until the last process has exited: `cgroup.events` reports it.
fn wait_for_exits(cgroup: &Path) {
    let Ok(mut events) = File::open(cgroup.join("cgroup.events")) else { return };
    let mut text = String::new();
    if events.read_to_string(&mut text).is_err() || number(&text, "populated") == 0 {
        return;
    }
    let wait = Timespec { tv_sec: 0, tv_nsec: DRAIN_WAIT_MS * 1_000_000 };
    // The caller checks again in any case.
    rustix::event::poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&wait)).ok();
}

/// Removes a cgroup. Waits up to 200 ms for killed processes to exit.
fn remove(cgroup: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..REMOVE_ATTEMPTS {
        outcome = fs::remove_dir(cgroup).or_else(ignore_absent);
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => wait_for_exits(cgroup),
            _ => return outcome,
        }
    }
    outcome
}

/// Removes the cgroups of dead brokers below `base`. A cgroup that cannot be removed stays, without effect.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_leftover) {
            remove_with_runs(&entry.path());
        }
    }
}

/// Whether a name is that of a cgroup whose broker has exited.
fn is_leftover(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let Some((pid, started)) = parts else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    cgroup_tree::started_at(pid).is_none_or(|current| current != started)
}

/// Kills and removes a broker's cgroup and the runs in it. Best effort: nothing depends on it.
pub(super) fn remove_with_runs(parent: &Path) {
    let runs: Vec<PathBuf> = fs::read_dir(parent)
        .map(|entries| entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
        .unwrap_or_default();
    for path in runs.iter().map(PathBuf::as_path).chain([parent]) {
        kill(path).ok();
        remove(path).ok();
    }
}

#[cfg(test)]
mod tests;
