//! The nodes that share a store, and how one of them is doing.

use super::shared_files::SharedDirState;
use super::store_error::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Short digests of what jobs may use on a node. Nodes of a cluster should have the same: a job may run on
/// any of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueDigests {
    /// Of the tools; `None`: not known yet.
    pub tools: Option<String>,
    /// Of the models.
    pub models: Option<String>,
}

/// Computes the digests of this node. MCP servers and files of tools come and go, so it is asked repeatedly.
pub trait CatalogueSource: Send + Sync {
    /// The digests now.
    fn digests(&self) -> CatalogueDigests;
}

/// A node, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Number of its lease; a node that starts again, or has lost its lease, gets another one.
    pub id: i64,
    /// `store.node_name`.
    pub name: String,
    /// Version of its build.
    pub version: String,
    /// The newest layout of the database that its build knows.
    pub layout: i32,
    /// When its lease began, unix milliseconds by the clock of the database.
    pub started_at_ms: u64,
    /// Time since its last heartbeat by the clock of the database, milliseconds.
    pub beat_age_ms: Option<u64>,
    /// Rest of its lease, milliseconds; 0: the node is lost.
    pub lease_ms: u64,
    /// Maximum connections that it makes to the database.
    pub connections: Option<u64>,
    /// Jobs that it runs.
    pub jobs: u64,
    /// What its jobs may use.
    #[serde(flatten)]
    pub catalogue: CatalogueDigests,
}

impl ClusterNode {
    /// Whether its lease has not ended.
    pub fn is_live(&self) -> bool {
        self.lease_ms > 0
    }
}

/// All nodes of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The number of the node that was asked; `None`: no node was.
    pub own: Option<i64>,
    /// The layout of the database.
    pub layout: i32,
    /// By their numbers.
    pub nodes: Vec<ClusterNode>,
}

impl ClusterView {
    /// What an operator should look at.
    pub fn warnings(&self) -> Vec<String> {
        node_warnings(&self.nodes)
    }
}

/// Reads what nodes are compared by; `None`: not known.
type NodeValue = fn(&ClusterNode) -> Option<&str>;

/// Differences between the live nodes, for people.
pub fn node_warnings(nodes: &[ClusterNode]) -> Vec<String> {
    let catalogues = "jobs may find other ones after a take-over: give all nodes the same configuration";
    let parts: [(&str, NodeValue, &str); 3] = [
        ("tools", |node| node.catalogue.tools.as_deref(), catalogues),
        ("models", |node| node.catalogue.models.as_deref(), catalogues),
        ("versions", |node| Some(&node.version), "finish the upgrade"),
    ];
    parts.iter().filter_map(|(part, value, advice)| difference(nodes, (part, advice), *value)).collect()
}

fn difference(nodes: &[ClusterNode], (part, advice): (&str, &str), value: NodeValue) -> Option<String> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.is_live()) {
        if let Some(value) = value(node) {
            groups.entry(value).or_default().push(format!("{} (node {})", node.name, node.id));
        }
    }
    let told: Vec<String> =
        groups.iter().map(|(value, nodes)| format!("{value} on {}", nodes.join(", "))).collect();
    (told.len() > 1).then(|| format!("the nodes have different {part}: {}; {advice}", told.join("; ")))
}

/// This node as of its last heartbeat. Reading it asks no database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Number of its lease.
    pub id: i64,
    /// Rest of its lease by this node's clock, milliseconds; 0: it has no lease, and runs no jobs.
    pub lease_ms: u64,
    /// Why it has no lease.
    pub lost: Option<String>,
    /// Time since the database answered a heartbeat, milliseconds.
    pub silent_ms: u64,
    /// Jobs that this node runs.
    pub jobs: u64,
    /// Nodes with a lease, this one included.
    pub live_nodes: u64,
    /// Nodes whose lease has ended and whose jobs are not taken over yet.
    pub lost_nodes: u64,
    /// Why it needs a newer version: it cannot read what the others write, and takes no jobs.
    pub outdated: Option<String>,
    /// Whether it takes jobs: it has a lease, reads what the others write, and sees their files.
    pub takes_jobs: bool,
    /// What an operator should look at.
    pub warnings: Vec<String>,
}

/// What is known of the cluster. A store of one node is none, and answers `None`.
pub trait Cluster: Send + Sync {
    /// All nodes; reads the database.
    fn cluster_view(&self) -> Result<Option<ClusterView>, StoreError> {
        Ok(None)
    }
    /// This node; reads memory.
    fn node_state(&self) -> Option<NodeState> {
        None
    }
    /// Sets what the digests of this node come from. Only the first source is used.
    fn set_catalogue(&self, _source: Arc<dyn CatalogueSource>) {}
    /// Sets the directory that the nodes share. While it has a fault, this node takes no jobs; while its disk
    /// is nearly full, it accepts no new work. Only the first one is used.
    fn set_shared_dir(&self, _dir: Arc<dyn SharedDirState>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: i64, version: &str, tools: Option<&str>, lease_ms: u64) -> ClusterNode {
        ClusterNode {
            id,
            name: format!("n{id}"),
            version: version.to_owned(),
            layout: 11,
            started_at_ms: 0,
            beat_age_ms: Some(0),
            lease_ms,
            connections: None,
            jobs: 0,
            catalogue: CatalogueDigests { tools: tools.map(str::to_owned), models: None },
        }
    }

    #[test]
    fn live_nodes_with_different_tools_or_versions_are_named() {
        let same =
            [node(1, "1.0.0", Some("aa"), 9), node(2, "1.0.0", Some("aa"), 9), node(3, "1.0.0", None, 9)];
        assert_eq!(node_warnings(&same), Vec::<String>::new());
        let lost = [node(1, "1.0.0", Some("aa"), 9), node(2, "0.9.0", Some("bb"), 0)];
        assert_eq!(node_warnings(&lost), Vec::<String>::new(), "a lost node does not count");
        let warnings = node_warnings(&[node(1, "1.0.0", Some("aa"), 9), node(2, "1.1.0", Some("bb"), 9)]);
        assert_eq!(warnings.len(), 2);
        assert!(
            warnings[0].contains("different tools: aa on n1 (node 1); bb on n2 (node 2)"),
            "{warnings:?}"
        );
        assert!(
            warnings[1].contains("different versions: 1.0.0 on n1 (node 1); 1.1.0 on n2"),
            "{warnings:?}"
        );
    }
}
