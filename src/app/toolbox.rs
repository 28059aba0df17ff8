//! All tools without a server, for the command line. Owns nothing: they are the server's, over the same store.

use super::{AppError, Means, audit, executor, system, workplaces};
use crate::config::Config;
use crate::llm::Router;
use crate::ports::{Clock, Model, Toolbox, Workplaces, Workspaces};
use crate::store::RedbStore;
use crate::tools::BashRules;
use crate::workspace::HostFiles;
use nanoclaw_sandbox::Sandbox;
use std::sync::Arc;

/// Tools, and where projects lie.
pub struct Workbench {
    /// All tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// Directories of projects.
    pub workplaces: Arc<dyn Workplaces>,
}

/// The tools as the server has them, over a store that no server holds.
pub fn workbench(
    config: &Config,
    store: &Arc<RedbStore>,
    clock: &Arc<dyn Clock>,
) -> Result<Workbench, AppError> {
    let model: Arc<dyn Model> = Arc::new(Router::new(config.models.clone(), &config.limits)?);
    let sandbox = Arc::new(Sandbox::new(config.code_execution.clone())?);
    let bash = BashRules::new(&config.bash, system::variable)?;
    let audit = audit::open(config)?;
    let toolbox = executor(config, &sandbox, bash, store, &Means { model: &model, clock, audit: &audit })?;
    let files: Arc<dyn Workspaces> =
        Arc::new(HostFiles::new(config.workspace_root.clone(), &config.limits, Arc::clone(clock)));
    Ok(Workbench { toolbox, workplaces: workplaces(store, &files) })
}
