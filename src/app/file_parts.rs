//! The files of users: those of projects and jobs, and uploads.

use super::data_dir;
use super::shared_dir::SharedDir;
use super::shared_dir_watch::SharedDirWatch;
use super::workspace_files::{self, StoreWorkspaceFiles};
use crate::config::Config;
use crate::domain::workspace::UserDirectories;
use crate::ports::{Clock, Contents, Entropy, NodeStore, Workspaces};
use std::sync::Arc;

/// The files of users.
pub(super) struct FileParts {
    /// The directory that nodes share, if there are several.
    pub(super) shared: Option<Arc<SharedDir>>,
    pub(super) watch: Option<Arc<SharedDirWatch>>,
    pub(super) workspaces: Arc<dyn Workspaces>,
    /// The workspaces as tools use them.
    pub(super) tools: Arc<StoreWorkspaceFiles>,
    pub(super) contents: Arc<dyn Contents>,
}

impl FileParts {
    pub(super) fn open(
        config: &Config,
        store: &Arc<dyn NodeStore>,
        users: UserDirectories,
        clock: &Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> std::io::Result<Self> {
        let shared = SharedDir::open(config, store, clock, entropy);
        let watch = shared.as_ref().map(|shared| SharedDirWatch::start(shared, clock)).transpose()?;
        if let Some(watch) = &watch {
            store.set_shared_dir(Arc::<SharedDirWatch>::clone(watch));
        }
        let host_files = workspace_files::host_files(config, users, clock, shared.as_ref());
        let workspaces: Arc<dyn Workspaces> = Arc::new(host_files);
        let tools = Arc::new(StoreWorkspaceFiles::new(config, store, &workspaces, clock));
        let contents = data_dir::open_contents(config, store, shared.as_ref());
        Ok(Self { shared, watch, workspaces, tools, contents })
    }
}
