//! Builds all tools, for the server and for `nanoclaw tools` without a server.

use super::catalogue::ServerCatalogues;
use super::error::AppError;
use super::shared_dir::SharedDir;
use super::{audit, job_services, secret_files, system, workspace_files};
use crate::config::Config;
use crate::domain::limits::Limits;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::ToolChoice;
use crate::llm::Router;
use crate::mcp::{McpServers, beginning_of};
use crate::ports::{
    Audit, Clock, Entropy, JobServices, Meter, Model, NodeStore, NoopMeter, PartFault, ReadinessProbe,
    ToolNamespace, ToolScope, ToolSource, Toolbox, Workspaces,
};
use crate::tools::{
    AgentServices, ApprovalRules, BashRules, BatchLimits, CodeRunner, CommandTools, DefaultTools, Executor,
    ExecutorOptions, JavaScriptTools, MeasuredCode, SharedCode, Skills, ToolCacheOptions, ToolDeps,
    ToolOptions, registered,
};
use crate::web::GuardedWeb;
use crate::workspace::HostDirectory;
use nanoclaw_sandbox::{FreeSpace, Sandbox, SandboxError, SandboxOptions};
use std::sync::{Arc, Weak};
use system::SystemEntropy;
use workspace_files::StoreWorkspaceFiles;

/// The tools of the server, over a store that no server has open. Without MCP servers: they start slowly.
pub fn local_tools(
    config: &Config,
    store: &Arc<dyn NodeStore>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Toolbox>, AppError> {
    let model: Arc<dyn Model> = Arc::new(Router::new(config.models.clone(), &config.limits)?);
    let sandbox = Arc::new(sandbox(config)?);
    let bash = BashRules::new(&config.bash, system::variable)?;
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let shared = SharedDir::open(config, store, clock, &*entropy);
    let users = secret_files::shared_user_directories(&config.data_dir, &entropy, &**store)
        .map_err(AppError::LogKey)?;
    let host_files = workspace_files::host_files(config, users, clock, shared.as_ref());
    let workspaces: Arc<dyn Workspaces> = Arc::new(host_files);
    let files = Arc::new(StoreWorkspaceFiles::new(config, store, &workspaces, clock));
    let meter: Arc<dyn Meter> = Arc::new(NoopMeter);
    let dependencies = ExecutorDependencies {
        sandbox: &sandbox,
        bash,
        store,
        model: &model,
        clock,
        entropy: &entropy,
        files: &files,
        audit: &audit::open(config, store)?,
        mcp: None,
        meter: &meter,
    };
    Ok(executor(config, dependencies)?)
}

pub(super) struct ExecutorDependencies<'a> {
    pub(super) sandbox: &'a Arc<Sandbox>,
    pub(super) bash: BashRules,
    pub(super) store: &'a Arc<dyn NodeStore>,
    pub(super) model: &'a Arc<dyn Model>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) entropy: &'a Arc<dyn Entropy>,
    pub(super) files: &'a Arc<StoreWorkspaceFiles>,
    pub(super) audit: &'a Arc<dyn Audit>,
    /// `None` without a server.
    pub(super) mcp: Option<&'a Arc<McpServers>>,
    pub(super) meter: &'a Arc<dyn Meter>,
}

/// The options of the sandbox. Its self-test tries to open the session key.
pub fn sandbox_options(config: &Config) -> SandboxOptions {
    // Programs start in other directories.
    let data_dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let private_files = vec![secret_files::session_key_file(&data_dir)];
    let Limits { disk_free_bytes: bytes, disk_free_percent: percent, .. } = config.limits;
    SandboxOptions {
        private_files,
        // Scripts of skills.
        read_dirs: config.skills.dir.iter().cloned().collect(),
        kept_free: FreeSpace { bytes, percent },
        ..config.code_execution.clone()
    }
}

/// The sandbox, with slots for all shares.
pub(super) fn sandbox(config: &Config) -> Result<Sandbox, SandboxError> {
    let mut options = sandbox_options(config);
    if let Some(share) = config.slot_share() {
        options.max_parallel = share.places();
    }
    Sandbox::new(options)
}

/// Runs programs; users share its slots.
fn code_runner(config: &Config, sandbox: &Arc<Sandbox>) -> Arc<dyn CodeRunner> {
    let runner: Arc<dyn CodeRunner> = Arc::<Sandbox>::clone(sandbox);
    match config.slot_share() {
        Some(share) => Arc::new(SharedCode::new(runner, share)),
        None => runner,
    }
}

/// All tools of a server. Its node compares them, and the models, with those of other nodes.
pub(super) fn server_executor(
    config: &Config,
    dependencies: ExecutorDependencies<'_>,
) -> Result<Arc<Executor>, AppError> {
    let (store, model) = (dependencies.store, Arc::clone(dependencies.model));
    let mcp = dependencies.mcp;
    let executor = executor(config, dependencies)?;
    if let Some(servers) = mcp {
        servers.on_change(look_for_unknown_names(&executor));
    }
    let tools: Arc<dyn Toolbox> = Arc::<Executor>::clone(&executor);
    store.set_catalogue(Arc::new(ServerCatalogues { tools, model }));
    Ok(executor)
}

/// Looks for names that no tool has, which logs them, when the tools of an MCP server have come.
fn look_for_unknown_names(executor: &Arc<Executor>) -> impl Fn() + Send + Sync + use<> {
    let executor = Arc::downgrade(executor);
    move || {
        let executor = Weak::clone(&executor);
        let look = move || executor.upgrade().map(|executor| executor.unknown_names());
        if let Err(error) = std::thread::Builder::new().name("tool_names".to_owned()).spawn(look) {
            tracing::warn!(%error, "the names of tools in the configuration are checked at the next call");
        }
    }
}

/// Names of tools of the MCP servers that this process does not start.
fn dormant_tools(config: &Config, has_mcp: bool) -> Vec<ToolNamespace> {
    let dormant = config.mcp_servers.iter().filter(|(_, server)| server.disabled || !has_mcp);
    let beginnings = dormant.map(|(name, _)| beginning_of(name));
    beginnings.map(|beginning| ToolNamespace { beginning, is_listed: false }).collect()
}

/// The probe of the tools' names, if the configuration has any.
pub(super) fn names_probe(config: &Config, tools: &Arc<dyn Toolbox>) -> Option<Box<dyn ReadinessProbe>> {
    config.names_tools().then(|| -> Box<dyn ReadinessProbe> { Box::new(ToolNamesProbe(Arc::clone(tools))) })
}

/// Degraded while the configuration names tools that there are not.
struct ToolNamesProbe(Arc<dyn Toolbox>);

impl ReadinessProbe for ToolNamesProbe {
    fn name(&self) -> &'static str {
        "tool_names"
    }

    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }

    fn degradation(&self) -> Option<PartFault> {
        let notes = self.0.unknown_names().join("; ");
        let advice =
            "correct the names in the configuration, or see why the tools are missing: nanoclaw tools";
        (!notes.is_empty()).then(|| PartFault::new(notes, advice))
    }
}

/// All tools, those of the operator included.
fn executor(config: &Config, dependencies: ExecutorDependencies<'_>) -> Result<Arc<Executor>, AppError> {
    let ExecutorDependencies { sandbox, bash, store, model, clock, entropy, files, audit, mcp, meter } =
        dependencies;
    let jobs: Arc<dyn JobServices> =
        Arc::new(job_services::StoreJobServices::new(config, store, clock, entropy));
    let agents =
        AgentServices { jobs, model: Arc::clone(model), toolbox: Arc::default(), clock: Arc::clone(clock) };
    let deps = ToolDeps {
        code: Arc::new(MeasuredCode::new(code_runner(config, sandbox), Arc::clone(meter))),
        results: Arc::<dyn NodeStore>::clone(store),
        files: Arc::<StoreWorkspaceFiles>::clone(files),
        web: Arc::new(GuardedWeb::new(&config.web).map_err(|(_, bad)| AppError::BadWebRange(bad))?),
        memories: files.memories(config, store),
        skills: skills(config, files, clock)?,
        agents,
        options: Arc::new(ToolOptions {
            bash,
            sub_agent: config.sub_agent,
            channels: config.channels.clone(),
            limits: config.limits.clone(),
            web_timeout_s: config.web.timeout_s,
            web_search: config.web_search.clone(),
            weather: config.weather.clone(),
        }),
    };
    let toolbox = Arc::clone(&deps.agents.toolbox);
    let approval = ApprovalRules::new(&config.approval).map_err(|(_, bad)| AppError::BadApproval(bad))?;
    let cache = ToolCacheOptions { shares_files: config.store.url.is_some(), ..config.tool_cache };
    let limits = BatchLimits::new(&config.limits, config.tool_max_workers, cache);
    let options = ExecutorOptions {
        default_tools: default_tools(config),
        approval,
        dormant: dormant_tools(config, mcp.is_some()),
        audit: Some(Arc::clone(audit)),
        meter: Arc::clone(meter),
        ..ExecutorOptions::new(limits)
    };
    // Models see the tools in this order.
    let mut sources = custom_tools(config, &deps)?;
    sources.extend(mcp.map(|servers| -> Arc<dyn ToolSource> { Arc::<McpServers>::clone(servers) }));
    let executor = Arc::new(Executor::new(registered(&deps), sources, options)?);
    let shared_toolbox: Arc<dyn Toolbox> = Arc::<Executor>::clone(&executor);
    // Set only here, so it is still empty.
    toolbox.get_or_init(|| Arc::downgrade(&shared_toolbox));
    warn_of_small_windows(config, executor.as_ref());
    Ok(executor)
}

/// The skills; `None` if the configuration has none.
fn skills(
    config: &Config,
    files: &Arc<StoreWorkspaceFiles>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Skills>>, AppError> {
    if !config.skills.are_on() {
        return Ok(None);
    }
    let dir = config.skills.dir.clone().unwrap_or_default();
    let operator = Arc::new(HostDirectory::new(dir, Arc::clone(clock)));
    let files = Arc::<StoreWorkspaceFiles>::clone(files);
    let skills = Skills::start(config.skills.clone(), operator, files, clock).map_err(AppError::Runtime)?;
    Ok(Some(Arc::new(skills)))
}

/// The configured default sets. The demo model gets every tool unless the configuration names a set, because
/// its tokens cost nothing and its script may call any tool.
fn default_tools(config: &Config) -> DefaultTools {
    let every_model = config.tools.default.clone();
    let mut per_model = config.tools.per_model.clone();
    for model in config.models.iter().filter(|model| every_model.is_none() && model.is_demo()) {
        let names = || [ToolChoice::EVERY_GROUP, "get_weather"].map(str::to_owned).to_vec();
        per_model.entry(model.id.clone()).or_insert_with(names);
    }
    DefaultTools { every_model, per_model }
}

/// The largest share of a context window that the definitions of the default tools may take, percent.
const TOOL_SHARE_PERCENT: u64 = 50;

/// Logs each model whose context window is too small for the tools that its jobs are offered.
fn warn_of_small_windows(config: &Config, toolbox: &dyn Toolbox) {
    for model in &config.models {
        let Some(window) = model.context_window else { continue };
        let choice = toolbox.resolve(&ToolChoice::Default, &model.id);
        let tools = toolbox.offered(&ToolScope { choice: &choice, strictness: None, has_results: false });
        let name = model.upstream_id.as_deref().unwrap_or(&model.id);
        let tokens = TokenEstimator::of_model(name).tools(&tools);
        if tokens.saturating_mul(100) > u64::from(window).saturating_mul(TOOL_SHARE_PERCENT) {
            tracing::warn!(
                model = model.id,
                context_window = window,
                tools = tools.len(),
                tool_tokens = tokens,
                "context_window is too small for the definitions of the tools; name fewer in tools.per_model"
            );
        }
    }
}

/// The operator's tools: commands first, then the files of `tools_dir`.
fn custom_tools(config: &Config, deps: &ToolDeps) -> Result<Vec<Arc<dyn ToolSource>>, AppError> {
    let commands = CommandTools::new(&config.tools.commands, &deps.code, &deps.files);
    let mut sources: Vec<Arc<dyn ToolSource>> = vec![Arc::new(commands)];
    if let Some(dir) = config.tools_dir.clone() {
        let web_and_files = (Arc::clone(&deps.web), Arc::clone(&deps.files));
        let clock = Arc::clone(&deps.agents.clock);
        let files = JavaScriptTools::start(dir, Arc::clone(&deps.code), web_and_files, clock);
        sources.push(Arc::new(files.map_err(AppError::Runtime)?));
    }
    Ok(sources)
}
