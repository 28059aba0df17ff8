//! The readiness checks of the store and its disk.

use crate::ports::{NodeStore, PartFault, ReadinessProbe, StoreError};
use std::sync::Arc;

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
