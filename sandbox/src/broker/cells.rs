//! The cgroups of commands: one each while it runs, and those that still drain afterwards.
//!
//! Owns: what a command's whole tree may take, and that no removal ever holds the broker up.
//! Refuses: to be relied upon. Where there are no cgroups, commands run without.

use std::time::{Duration, Instant};

use crate::clock::now;
use crate::layers::{Cgroups, RunCgroup};
use crate::limits::RunLimits;

/// The supervisor, and itself once more while it forks its command.
const SUPERVISORS: u64 = 2;
/// How long a cgroup that still drains is looked at often.
const PATIENCE: Duration = Duration::from_secs(5);

/// All of them.
pub(super) struct Cells {
    cgroups: Option<Cgroups>,
    made: u64,
    draining: Vec<(RunCgroup, Instant)>,
}

impl Cells {
    /// None are there yet; without a place for them, none will be.
    pub(super) fn new(cgroups: Option<Cgroups>) -> Self {
        Self { cgroups, made: 0, draining: Vec::new() }
    }

    /// One for a command with these limits, if it can be had. `memory_bytes` replaces the address space's number; 0: not bounded.
    pub(super) fn make(&mut self, limits: &RunLimits, memory_bytes: Option<u64>) -> Option<RunCgroup> {
        let cgroups = self.cgroups.as_ref()?;
        self.made += 1;
        let bound = Some(memory_bytes.unwrap_or(limits.address_space_bytes)).filter(|bytes| *bytes > 0);
        let processes = limits.processes.saturating_add(SUPERVISORS);
        cgroups.make(&format!("run-{}", self.made), bound, Some(processes)).ok()
    }

    /// Removes one, if it is one, that nobody is to use any more, now or once it has drained.
    pub(super) fn remove(&mut self, cgroup: Option<RunCgroup>) {
        let busy = cgroup.filter(|cgroup| !cgroup.try_remove());
        self.draining.extend(busy.map(|cgroup| (cgroup, now())));
    }

    /// Tries again what could not be removed.
    pub(super) fn tidy(&mut self) {
        self.draining.retain(|(cgroup, _)| !cgroup.try_remove());
    }

    /// Whether it is worth while to tidy soon.
    pub(super) fn are_draining(&self) -> bool {
        self.draining.iter().any(|(_, since)| since.elapsed() < PATIENCE)
    }

    /// Removes everything, whoever is in it. For the broker's end.
    pub(super) fn leave(&self) {
        if let Some(cgroups) = &self.cgroups {
            cgroups.leave();
        }
    }
}
