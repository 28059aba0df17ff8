//! The optional layers: namespaces and cgroup v2. Used where the machine has them, never relied upon.
//!
//! Owns: the order in which they are entered, and what is told about them to the operator.
//! Refuses: to fail. What cannot be had is left out and named; landlock and seccomp hold without it.

mod cgroup;
mod hierarchy;
mod namespaces;

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use cgroup::{Cgroups, RunCgroup};
use namespaces::Namespaces;

/// The layers of this process and its children.
#[derive(Debug)]
pub(crate) struct Layers {
    /// Where runs get cgroups of their own, if anywhere.
    pub(crate) cgroups: Option<Cgroups>,
    /// What the server is told.
    pub(crate) report: LayersReport,
}

impl Layers {
    /// Enters what can be entered. For a process with one thread, at its very start, whose parent is the server.
    ///
    /// `network`: the operator wants commands to have the network, so it stays.
    pub(crate) fn enter(network: bool) -> Self {
        // In this order: who belongs to the server is read from /proc, and the server's move needs its own rights.
        let (cgroups, cgroup) = match Cgroups::take() {
            Ok(cgroups) => {
                let report = cgroups.report();
                (Some(cgroups), report)
            }
            Err(error) => (None, CgroupReport { advice: error.advice(), ..CgroupReport::without(&error) }),
        };
        let namespaces = Namespaces::enter(network).into_reports();
        Self { cgroups, report: LayersReport { namespaces, cgroup } }
    }
}

/// Which optional layers are in force, for `doctor` and the start-up log. None of them is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayersReport {
    /// The namespaces, each in force or not.
    pub namespaces: Vec<NamespaceReport>,
    /// The cgroup below which runs get one each.
    pub cgroup: CgroupReport,
}

impl LayersReport {
    /// What is said where nobody has told.
    pub(crate) fn unknown(reason: &impl ToString) -> Self {
        Self { namespaces: Vec::new(), cgroup: CgroupReport::without(reason) }
    }

    /// Removes what is left of the place of a broker that has ended. For the server: the broker itself has shed what this
    /// takes in a cgroup that only root's privilege opens, and a killed one has removed nothing.
    pub(crate) fn clean_up(&self) {
        if let Some(holder) = &self.cgroup.path {
            cgroup::remove_holder(holder);
        }
    }
}

/// What is in force, on one line.
impl Display for LayersReport {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let held = self.namespaces.iter().filter(|namespace| namespace.held);
        let kinds: Vec<&str> = held.map(|namespace| namespace.kind.as_str()).collect();
        let mut words = Vec::new();
        if !kinds.is_empty() {
            words.push(format!("namespaces ({})", kinds.join(", ")));
        }
        if self.cgroup.path.is_some() {
            let bound = self.cgroup.controllers.join(", ");
            words.push(format!(
                "a cgroup a command ({})",
                if bound.is_empty() { "kill only" } else { &bound }
            ));
        }
        formatter.write_str(if words.is_empty() { "none" } else { "" })?;
        formatter.write_str(&words.join(", "))
    }
}

/// One kind of namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceReport {
    /// Its kind: `user`, `network`, `ipc` or `uts`.
    pub kind: String,
    /// Whether it is in force.
    pub held: bool,
    /// Why not.
    pub reason: Option<String>,
    /// What the operator can do about it.
    pub advice: Option<String>,
}

/// The cgroup of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// The directory that holds one cgroup a run; none where there is none.
    pub path: Option<PathBuf>,
    /// The controllers that bind there (`memory`, `pids`). Without any, a run can still be killed whole.
    pub controllers: Vec<String>,
    /// What is missing, and why.
    pub reason: Option<String>,
    /// What the operator can do about it.
    pub advice: Option<String>,
}

impl CgroupReport {
    fn without(reason: &impl ToString) -> Self {
        Self { reason: Some(reason.to_string()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
