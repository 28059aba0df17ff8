//! The readiness checks of the store and its disk.

use crate::ports::{ReadinessProbe, Store, StoreError};
use crate::store::RedbStore;
use std::sync::Arc;

/// Passes if an empty commit reaches the disk. A store with damaged rows is degraded.
pub(super) struct StoreProbe(pub(super) Arc<RedbStore>);

impl ReadinessProbe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> Result<(), String> {
        match self.0.probe().wait() {
            // A full channel means load: submissions are refused one by one, and the server stays ready.
            Ok(()) | Err(StoreError::Busy) => Ok(()),
            Err(error) => Err(format!("{error}; see the server's log, and run 'nanoclaw doctor'")),
        }
    }

    fn degradation(&self) -> Option<String> {
        self.0.damage()
    }
}

/// Always passes: on a nearly full disk only new jobs are refused (507), which counts as degraded.
pub(super) struct DiskProbe(pub(super) Arc<RedbStore>);

impl ReadinessProbe for DiskProbe {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn degradation(&self) -> Option<String> {
        let low = self.0.low_disk()?;
        Some(format!(
            "{low}; new jobs are refused (507), running ones go on: free some space, set retention, or lower \
             limits.disk_free_bytes and limits.disk_free_percent"
        ))
    }
}
