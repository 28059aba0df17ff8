//! Digests of what jobs may use on this node, which other nodes compare with theirs.

use crate::domain::hex::hex;
use crate::ports::{CatalogueDigests, CatalogueSource, Model, Toolbox};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Bytes of a digest: enough to tell a few catalogues apart.
const BYTES: usize = 6;

/// The catalogues of a server.
pub(super) struct ServerCatalogues {
    pub(super) tools: Arc<dyn Toolbox>,
    pub(super) model: Arc<dyn Model>,
}

impl CatalogueSource for ServerCatalogues {
    fn digests(&self) -> CatalogueDigests {
        let mut tools: Vec<String> = self
            .tools
            .tool_infos()
            .into_iter()
            .map(|info| {
                let spec = info.spec;
                format!("{} {} {} {}", spec.name, spec.description, spec.parameters, info.needs_approval)
            })
            .collect();
        // The order says nothing: files of tools are found in that of their directory.
        tools.sort_unstable();
        let models = self.model.models().into_iter().map(|info| format!("{info:?}")).collect::<Vec<_>>();
        CatalogueDigests { tools: Some(digest(&tools)), models: Some(digest(&models)) }
    }
}

fn digest(entries: &[String]) -> String {
    let mut hash = Sha256::new();
    for entry in entries {
        hash.update(entry);
        hash.update([0]);
    }
    hex(hash.finalize().get(..BYTES).unwrap_or_default())
}
