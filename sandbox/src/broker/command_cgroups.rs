//! The cgroups of commands: one per running command, and those whose processes have not all exited yet.
//!
//! Removing a cgroup never blocks the broker. Where the machine has no cgroups, commands run without them.

use std::time::{Duration, Instant};

use crate::clock::now;
use crate::layers::{BrokerCgroup, RunCgroup};
use crate::limits::RunLimits;

/// The supervisor, and its fork that becomes the command.
const SUPERVISOR_PROCESSES: u64 = 2;
/// How long removal is retried often.
const FREQUENT_RETRIES: Duration = Duration::from_secs(5);

pub(super) struct CommandCgroups {
    parent: Option<BrokerCgroup>,
    created: u64,
    draining: Vec<(RunCgroup, Instant)>,
}

impl CommandCgroups {
    /// Without a parent cgroup, commands run without cgroups.
    pub(super) fn new(parent: Option<BrokerCgroup>) -> Self {
        Self { parent, created: 0, draining: Vec::new() }
    }

    /// Creates one for a command with these limits, if possible. `memory_bytes` replaces the limit of the
    /// address space; 0 means no limit.
    pub(super) fn create(&mut self, limits: &RunLimits, memory_bytes: Option<u64>) -> Option<RunCgroup> {
        let parent = self.parent.as_ref()?;
        self.created += 1;
        let bound = Some(memory_bytes.unwrap_or(limits.address_space_bytes)).filter(|bytes| *bytes > 0);
        let processes = limits.processes.saturating_add(SUPERVISOR_PROCESSES);
        parent.create(&format!("run-{}", self.created), bound, Some(processes)).ok()
    }

    /// Removes a cgroup now, or later if processes are left in it.
    pub(super) fn remove(&mut self, cgroup: Option<RunCgroup>) {
        let busy = cgroup.filter(|cgroup| !cgroup.try_remove());
        self.draining.extend(busy.map(|cgroup| (cgroup, now())));
    }

    /// Tries again to remove what could not be removed.
    pub(super) fn retry_removals(&mut self) {
        self.draining.retain(|(cgroup, _)| !cgroup.try_remove());
    }

    /// Whether a retry soon may succeed.
    pub(super) fn has_draining(&self) -> bool {
        self.draining.iter().any(|(_, since)| since.elapsed() < FREQUENT_RETRIES)
    }

    /// Kills everything inside and removes the parent. For the broker's shutdown.
    pub(super) fn remove_all(&self) {
        if let Some(parent) = &self.parent {
            parent.remove();
        }
    }
}
