//! The report of the optional layers.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Which optional layers are in force, for `doctor` and the start-up log. No level needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayersReport {
    /// The namespaces, each in force or not.
    pub namespaces: Vec<NamespaceReport>,
    /// The parent of the cgroups of runs.
    pub cgroup: CgroupReport,
}

impl LayersReport {
    /// The report for a broker that did not send one.
    pub(crate) fn unknown(reason: &impl ToString) -> Self {
        Self { namespaces: Vec::new(), cgroup: CgroupReport::without(reason) }
    }
}

/// The layers in force, on one line.
impl Display for LayersReport {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let in_force = self.namespaces.iter().filter(|namespace| namespace.held);
        let kinds: Vec<&str> = in_force.map(|namespace| namespace.kind.as_str()).collect();
        let mut parts = Vec::new();
        if !kinds.is_empty() {
            parts.push(format!("namespaces ({})", kinds.join(", ")));
        }
        if self.cgroup.path.is_some() {
            let controllers = self.cgroup.controllers.join(", ");
            parts.push(format!(
                "a cgroup a command ({})",
                if controllers.is_empty() { "kill only" } else { &controllers }
            ));
        }
        formatter.write_str(if parts.is_empty() { "none" } else { "" })?;
        formatter.write_str(&parts.join(", "))
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
    /// Advice for the operator.
    pub advice: Option<String>,
}

/// The cgroup of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// The directory that contains one cgroup per run; `None` where runs have no cgroups.
    pub path: Option<PathBuf>,
    /// The controllers that limit runs (`memory`, `pids`). Without any, a run can still be killed as a whole.
    pub controllers: Vec<String>,
    /// The missing parts, and why.
    pub reason: Option<String>,
    /// Advice for the operator.
    pub advice: Option<String>,
}

impl CgroupReport {
    pub(super) fn without(reason: &impl ToString) -> Self {
        Self { reason: Some(reason.to_string()), ..Self::default() }
    }
}
