//! What `/readyz` asks of the store and the sandbox.

use crate::ports::{Probe, Store};
use nanoclaw_sandbox::Report;
use std::sync::Arc;

/// The store is well when an empty commit comes back from the disk.
pub(super) struct StoreProbe(pub(super) Arc<dyn Store>);

impl Probe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> Result<(), String> {
        self.0.probe().wait().map_err(|error| error.to_string())
    }
}

/// The sandbox is well when every level held in the self-test at start.
pub(super) struct SandboxProbe(pub(super) Result<(), String>);

impl SandboxProbe {
    pub(super) fn new(report: &Report) -> Self {
        let failed = report.levels.iter().filter(|level| !level.able);
        let reasons: Vec<String> = failed
            .map(|level| {
                format!("{}: {}", level.level, level.reason.as_deref().unwrap_or("cannot be enforced"))
            })
            .collect();
        Self(if reasons.is_empty() {
            Ok(())
        } else {
            Err(format!("{}; run 'nanoclaw doctor'", reasons.join("; ")))
        })
    }
}

impl Probe for SandboxProbe {
    fn name(&self) -> &'static str {
        "sandbox"
    }

    fn check(&self) -> Result<(), String> {
        self.0.clone()
    }
}
