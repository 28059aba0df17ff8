//! What the nodes of a cluster share about providers of models: their rates, which they divide, and the
//! pauses that providers ask for.

/// This node among the live nodes of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShare {
    /// Live nodes, this one included; at least 1.
    pub nodes: u64,
    /// Live nodes before this one.
    pub rank: u64,
}

impl NodeShare {
    /// The share of a node that is alone.
    pub const ALL: Self = Self { nodes: 1, rank: 0 };

    /// This node's part of a limit. The parts of all nodes add up to the limit, but a part is at least 1.
    pub fn of(self, limit: u64) -> u64 {
        let nodes = self.nodes.max(1);
        let whole = limit.checked_div(nodes).unwrap_or(limit);
        let rest = limit.checked_rem(nodes).unwrap_or(0);
        whole.saturating_add(u64::from(self.rank < rest)).max(1)
    }
}

/// What a node knows of the others, as of the last heartbeat. Never blocks.
pub trait ProviderCluster: Send + Sync + std::fmt::Debug {
    /// This node's share of the rates.
    fn share(&self) -> NodeShare;
    /// Rest of the pause that a provider asked any node for, milliseconds. `account` names an account at a
    /// provider, without its key.
    fn pause_left_ms(&self, account: &str) -> u64;
    /// A provider asked this node for a pause. The others learn of it within a heartbeat.
    fn pause(&self, account: &str, pause_ms: u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_nodes_add_up_to_the_limit_and_each_is_at_least_one() {
        let parts =
            |nodes, limit| (0..nodes).map(|rank| NodeShare { nodes, rank }.of(limit)).collect::<Vec<_>>();
        assert_eq!(parts(1, 10), [10]);
        assert_eq!(parts(3, 10), [4, 3, 3]);
        assert_eq!(parts(4, 2), [1, 1, 1, 1]);
        assert_eq!(NodeShare { nodes: 0, rank: 0 }.of(5), 5);
        assert_eq!(NodeShare::ALL.of(0), 1);
    }
}
