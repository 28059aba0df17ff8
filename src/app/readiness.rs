//! The readiness checks of the store and its disk.

use crate::ports::{NodeState, NodeStore, PartFault, ReadinessProbe, StoreError};
use std::sync::Arc;

/// How long the database may leave heartbeats unanswered, milliseconds.
const SILENCE_MS: u64 = 5_000;

/// Passes if an empty commit reaches the disk. A store with damaged rows is degraded.
pub(super) struct StoreProbe(pub(super) Arc<dyn NodeStore>);

impl ReadinessProbe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> Result<(), PartFault> {
        match self.0.probe().wait() {
            // A full channel means load: submissions are refused one by one, and the server stays ready.
            Ok(()) | Err(StoreError::Busy) => Ok(()),
            Err(error) => {
                Err(PartFault::new(error.to_string(), "see the server's log, and run 'nanoclaw doctor'"))
            }
        }
    }

    fn degradation(&self) -> Option<PartFault> {
        let damage = self.0.damage()?;
        Some(PartFault::new(damage, "stop the server, run 'nanoclaw check', and restore a backup"))
    }
}

/// Always passes: on a nearly full disk only new jobs are refused (507), which counts as degraded.
pub(super) struct DiskProbe(pub(super) Arc<dyn NodeStore>);

impl ReadinessProbe for DiskProbe {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }

    fn degradation(&self) -> Option<PartFault> {
        let low = self.0.low_disk()?;
        Some(PartFault::new(
            format!("{low} (507)"),
            "free some space, set retention, or lower limits.disk_free_bytes and limits.disk_free_percent",
        ))
    }
}

/// Passes while this node has a lease and the database answers; always without `store.url`. Nodes that differ
/// are degraded.
pub(super) struct NodeProbe(pub(super) Arc<dyn NodeStore>);

impl ReadinessProbe for NodeProbe {
    fn name(&self) -> &'static str {
        "node"
    }

    fn check(&self) -> Result<(), PartFault> {
        self.0.node_state().map_or(Ok(()), |state| check_node(&state))
    }

    fn degradation(&self) -> Option<PartFault> {
        let warnings = self.0.node_state()?.warnings;
        (!warnings.is_empty()).then(|| PartFault::new(warnings.join("; "), "see 'nanoclaw nodes'"))
    }
}

fn check_node(state: &NodeState) -> Result<(), PartFault> {
    let advice =
        "it comes back by itself when the database answers; see the server's log, and run 'nanoclaw doctor'";
    if let Some(reason) = &state.lost {
        let reason = format!("this node has no lease and runs no jobs: {reason}");
        return Err(PartFault::new(reason, advice));
    }
    if let Some(reason) = &state.outdated {
        return Err(PartFault::new(reason.clone(), "install the newer version here, and restart this node"));
    }
    if state.silent_ms > SILENCE_MS {
        let silent_s = state.silent_ms / 1_000;
        return Err(PartFault::new(format!("the database has not answered for {silent_s} s"), advice));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_lease_or_with_a_silent_database_is_not_ready() {
        let fine = NodeState {
            id: 1,
            lease_ms: 9_000,
            lost: None,
            outdated: None,
            silent_ms: 900,
            jobs: 0,
            live_nodes: 1,
            lost_nodes: 0,
            takes_jobs: true,
            warnings: Vec::new(),
        };
        assert_eq!(check_node(&fine), Ok(()));
        let lost = NodeState { lost: Some("its lease had ended".to_owned()), ..fine.clone() };
        let reason = check_node(&lost).unwrap_err().reason;
        assert_eq!(reason, "this node has no lease and runs no jobs: its lease had ended");
        let silent = NodeState { silent_ms: 6_100, ..fine };
        assert_eq!(check_node(&silent).unwrap_err().reason, "the database has not answered for 6 s");
    }
}
