//! The optional layers: namespaces and cgroup v2. A layer that the machine does not permit is left out and
//! reported.
//!
//! Landlock and seccomp hold without them.

mod cgroup;
mod cgroup_tree;
mod memory_left;
mod namespaces;
mod report;

use namespaces::Namespaces;

pub(crate) use cgroup::{BrokerCgroup, RunCgroup};
pub(crate) use memory_left::{MemoryGauge, MemoryLeft};
pub use report::{CgroupReport, LayersReport, NamespaceReport};

/// The layers of this process and its children.
#[derive(Debug)]
pub(crate) struct OptionalLayers {
    /// The parent of the cgroups of runs, where the machine permits it.
    pub(crate) cgroup: Option<BrokerCgroup>,
    pub(crate) report: LayersReport,
}

impl OptionalLayers {
    /// Enters every permitted layer. For a process with one thread whose parent is the server, at its start.
    /// With `network`, the process keeps the network.
    pub(crate) fn enter(network: bool) -> Self {
        // cgroups first: this reads the server's processes from /proc, and moving the server needs the
        // current rights.
        let (cgroup, cgroup_report) = match BrokerCgroup::create_below_own() {
            Ok(cgroup) => {
                let report = cgroup.report();
                (Some(cgroup), report)
            }
            Err(error) => (None, CgroupReport { advice: error.advice(), ..CgroupReport::without(&error) }),
        };
        let namespaces = Namespaces::enter(network).reports;
        Self { cgroup, report: LayersReport { namespaces, cgroup: cgroup_report } }
    }
}

/// Removes the cgroups that a broker left. Called by the server: a killed broker has removed nothing, and a
/// broker has dropped the privilege that removal may need.
pub(crate) fn remove_leftovers(report: &LayersReport) {
    if let Some(parent) = &report.cgroup.path {
        cgroup::remove_with_runs(parent);
    }
}

#[cfg(test)]
mod tests;
