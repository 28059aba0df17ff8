//! Starts a server: builds every part in order and hands each the ports that it needs.

use super::App;
use super::control_file::{self, ControlFile};
use super::data_dir;
use super::error::AppError;
use super::file_parts::FileParts;
use super::job_directories::{CleanerPorts, JobDirectoryCleaner};
use super::mcp::McpProbe;
use super::readiness::{DiskProbe, NodeProbe, StoreProbe};
use super::secret_files::{PendingSecret, PendingSecrets, user_directories};
use super::self_test::{LevelStates, SandboxSelfTest, SelfTestListener};
use super::setup_link;
use super::shared_dir_watch::{FilesProbe, SharedDirWatch};
use super::signals::StopSignals;
use super::socket_activation::{self, InheritedSocket};
use super::status::StatusSources;
use super::system::{self, SystemClock, SystemEntropy};
use super::tools::{self, ExecutorDependencies};
use super::{audit, mcp, process, project_cleanup, service_manager, telemetry, webhooks};
use crate::config::{Config, Listen};
use crate::domain::address::AddressPolicy;
use crate::domain::fair_share::FairShare;
use crate::domain::id::IdGenerator;
use crate::domain::log_chain::LogSigningKey;
use crate::domain::tool::Strictness;
use crate::engine::pool::WorkerPool;
use crate::engine::scheduler::{SchedulerPorts, SchedulerThread};
use crate::engine::stall_detector::StallDetector;
use crate::engine::{Backoff, EngineLimits, EnginePorts};
use crate::http::api_key::{self, SecretKind};
use crate::http::{
    AppDependencies, AuthSettings, BLOCKING_THREADS, BoundAddress, HttpListener, SharedThreads,
    ShutdownSender, serve,
};
use crate::llm::{ImageLoader, Router};
use crate::mcp::McpServers;
use crate::metrics::{Metrics, Scrape, ServerInfo};
use crate::ports::{
    Audit, Clock, Contents, Entropy, KernelShortage, KernelTables, Meter, Model, NodeStore, ReadinessProbe,
    SecretDigest, SharedFiles,
};
use crate::store::{DAMAGED_EXIT, WriterLossCause};
use crate::tools::BashRules;
use nanoclaw_sandbox::{KernelUse, Sandbox, ScarceResource};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Threads that serve HTTP: sockets and small reads, no computation.
const HTTP_THREADS: usize = 2;

/// Exit code when the store cannot be written any more: `EX_IOERR` of sysexits.h. The unit restarts the
/// server.
const STORE_LOST_EXIT: i32 = 74;

impl App {
    /// Opens the store (jobs that ran in a crash return to the queue), the socket and all other parts.
    /// `on_report` receives the result of the sandbox self-test, after the start.
    /// No job is claimed before [`App::run`], so a start that fails counts no crash.
    pub fn start(config: &Config, on_report: SelfTestListener) -> Result<Self, AppError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        // First: no child process that is started below may inherit the socket.
        let inherited = socket_activation::take(config.auth_mode, config.code_execution.shell_network)?;
        process::harden();
        // Everything that can fail by its configuration alone comes before any side effect.
        let metrics = Arc::new(Metrics::new(server_info(config, &*clock))?);
        let meter: Arc<dyn Meter> = Arc::<Metrics>::clone(&metrics);
        let router = Router::new(config.models.clone(), &config.limits)?.with_meter(&meter);
        let sandbox = Arc::new(tools::sandbox(config)?);
        let bash = BashRules::new(&config.bash, system::variable)?;
        let addresses = webhooks::policy(config)?;
        let store = open_measured_store(config, &clock, &meter)?;
        let secrets = PendingSecrets::start(config, &entropy)?;
        let files = open_files(config, &store, secrets.log_key, (&clock, &*entropy))?;
        let model = loaded_model(router, &store, &files.contents);
        let audit = audit::open(config, &store)?;
        let runtime = start_runtime()?;
        let signals = StopSignals::listen(&runtime).map_err(AppError::Runtime)?;
        let listener = listen(&runtime, &config.listen, inherited)?;
        let bound = listener.bound().clone();
        let mcp = mcp::start(config, &bound, mcp::ports(config, &sandbox, &clock), &meter, &files.tools)?;
        let tool_dependencies = ExecutorDependencies {
            sandbox: &sandbox,
            bash,
            store: &store,
            model: &model,
            clock: &clock,
            entropy: &entropy,
            files: &files.tools,
            audit: &audit,
            mcp: mcp.as_ref(),
            meter: &meter,
        };
        let tools = tools::server_executor(config, tool_dependencies)?;
        let cleaner = start_cleaner(config, &store, &files, &clock).map_err(AppError::Runtime)?;
        let ports =
            EnginePorts { store: Arc::<dyn NodeStore>::clone(&store), model, tools, clock, entropy, meter };
        let self_test = SandboxSelfTest::prepare(&sandbox, on_report).map_err(AppError::Runtime)?;
        let pool = WorkerPool::spawn(worker_threads(config), &ports, &engine_limits(config))?;
        let scheduler = start_scheduler(&store, &ports, pool.stall_detector(config.limits.stuck_job_s))?;
        let mut health = health_sources(&store, &pool, &self_test, mcp.as_ref(), files.watch.as_ref());
        health.probes.extend(tools::names_probe(config, &ports.tools));
        let (stages, shutdown) = ShutdownSender::new();
        let (control, control_key) = write_control_file(config, &bound, &*ports.entropy)?;
        let webhooks = webhooks::start(config, &ports, &store, addresses.clone(), secrets.webhook)?;
        let span_export = telemetry::start(config, &ports, &store)?;
        let session_key = secrets.session_key.wait_shared(&*store).map_err(AppError::SessionKey)?;
        let console_url = setup_link::console_url(config, Some(&control_file::address(&bound)));
        let setup_invite = setup_link::at_start(config, &ports, &*store, &session_key, &bound)?;
        let keys = (session_key, control_key);
        let http = HttpParts { health, addresses, files, audit, keys, metrics, sandbox, console_url };
        let serving =
            runtime.spawn(serve(listener, http_dependencies(config, &ports, &store, http), shutdown));
        Ok(Self {
            runtime,
            signals,
            stages,
            serving,
            pool,
            webhooks,
            span_export,
            mcp,
            scheduler,
            cleaner,
            control,
            store,
            self_test,
            bound,
            setup_invite,
            drain: Duration::from_secs(config.limits.drain_s),
        })
    }
}

fn open_measured_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
    meter: &Arc<dyn Meter>,
) -> Result<Arc<dyn NodeStore>, AppError> {
    let open = || -> Result<Arc<dyn NodeStore>, AppError> {
        match &config.store.url {
            Some(url) => Ok(data_dir::open_database(config, url, clock)?),
            None => open_guarded_file(config, clock),
        }
    };
    let store = service_manager::extend_start_timeout(open).map_err(AppError::Runtime)??;
    store.set_meter(Arc::clone(meter));
    // The first commit also makes a file grow: two syncs. They pass while the other parts start, so that
    // the first `/readyz` or job waits for its own commit only. A failure shows there, too.
    drop(store.probe());
    Ok(store)
}

/// Opens the store file. The process ends when the file is lost, and a thread looks for damage.
fn open_guarded_file(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn NodeStore>, AppError> {
    let store = data_dir::open_store_file(config, clock)?;
    store.on_writer_loss(|cause| {
        std::process::exit(match cause {
            WriterLossCause::Failure => STORE_LOST_EXIT,
            WriterLossCause::Damage => DAMAGED_EXIT,
        })
    });
    let scrubbed = Arc::clone(&store);
    let scrub = std::thread::Builder::new().name("scrub".to_owned()).spawn(move || scrubbed.scrub());
    drop(scrub.map_err(AppError::Runtime)?); // it ends by itself
    Ok(store)
}

/// The models, which get their images from the contents of files and share their providers with other nodes.
fn loaded_model(router: Router, store: &Arc<dyn NodeStore>, contents: &Arc<dyn Contents>) -> Arc<dyn Model> {
    let cluster = Arc::clone(store).cluster_ports();
    let router = router.in_cluster(cluster.as_ref().map(|cluster| &cluster.providers));
    Arc::new(ImageLoader::new(Arc::new(router), Arc::clone(contents)))
}

/// Removes the directories of deleted projects and jobs and the contents of deleted files, now and from then
/// on.
fn start_cleaner(
    config: &Config,
    store: &Arc<dyn NodeStore>,
    FileParts { shared, workspaces, tools, contents, .. }: &FileParts,
    clock: &Arc<dyn Clock>,
) -> std::io::Result<JobDirectoryCleaner> {
    if shared.is_none() {
        project_cleanup::remove_leftovers(Arc::<dyn NodeStore>::clone(store), Arc::clone(workspaces))?;
    }
    let ports = CleanerPorts {
        store: Arc::clone(store),
        workspaces: Arc::clone(workspaces),
        contents: Arc::clone(contents),
        usages: Arc::clone(tools.usages()),
        clock: Arc::clone(clock),
        shared: shared.clone().map(|shared| -> Arc<dyn SharedFiles> { shared }),
    };
    JobDirectoryCleaner::start(ports, config.retention.job_files)
}

/// The file with the address and a new key for the command line, and the digest of that key. On a full disk
/// there is no file: the server reads what it has.
fn write_control_file(
    config: &Config,
    bound: &BoundAddress,
    entropy: &dyn Entropy,
) -> Result<(Option<ControlFile>, SecretDigest), AppError> {
    let key = api_key::generate(SecretKind::Control, entropy);
    match ControlFile::write(&config.data_dir, bound, &key.secret) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::warn!(%error, "cannot write control.json; commands on this machine need --server and --token");
            Ok((None, key.digest))
        }
        written => Ok((Some(written.map_err(AppError::Control)?), key.digest)),
    }
}

/// Opens the files of users. Gives the store the key of logs that all its nodes have: the names of users'
/// directories are derived from it.
fn open_files(
    config: &Config,
    store: &Arc<dyn NodeStore>,
    log_key: PendingSecret<LogSigningKey>,
    (clock, entropy): (&Arc<dyn Clock>, &dyn Entropy),
) -> Result<FileParts, AppError> {
    let log_key = log_key.wait_shared(&**store).map_err(AppError::LogKey)?;
    let users = user_directories(&log_key);
    store.set_log_key(log_key);
    FileParts::open(config, store, users, clock, entropy).map_err(AppError::Runtime)
}

/// The limits of the loop.
pub fn engine_limits(config: &Config) -> EngineLimits {
    let limits = &config.limits;
    EngineLimits {
        model_failures: limits.model_failures,
        repeated_failures: limits.repeated_failures,
        title_model: config.title_model.clone(),
        history_messages: limits.history_messages,
        preamble: config.preamble.clone(),
        job_result_bytes: limits.job_result_bytes,
        approval_timeout_ms: limits.approval_timeout_s.saturating_mul(1_000),
        backoff: Backoff { first_s: limits.job_backoff_s, longest_s: limits.job_backoff_max_s },
    }
}

/// The workers: with accounts also those that serve users with nothing running.
fn worker_threads(config: &Config) -> usize {
    config.worker_share().map_or(config.workers, FairShare::places)
}

fn start_scheduler(
    store: &Arc<dyn NodeStore>,
    ports: &EnginePorts,
    detector: StallDetector,
) -> Result<SchedulerThread, AppError> {
    let (clock, entropy) = (Arc::clone(&ports.clock), Arc::clone(&ports.entropy));
    SchedulerThread::start(
        SchedulerPorts {
            schedules: Arc::<dyn NodeStore>::clone(store),
            batches: Arc::<dyn NodeStore>::clone(store),
            jobs: Arc::<dyn NodeStore>::clone(store),
            clock,
            entropy,
        },
        detector,
    )
    .map_err(AppError::Runtime)
}

fn start_runtime() -> Result<Runtime, AppError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(HTTP_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(AppError::Runtime)
}

fn listen(
    runtime: &Runtime,
    configured: &Listen,
    inherited: Option<InheritedSocket>,
) -> Result<HttpListener, AppError> {
    let _context = runtime.enter();
    if inherited.is_some() {
        tracing::info!(listen = %configured, "the service manager holds the socket; the configured address is not used");
    }
    let bound = match (inherited, configured) {
        (Some(InheritedSocket::Tcp(tcp)), _) => HttpListener::handed_tcp(tcp),
        (Some(InheritedSocket::Unix(unix, path)), _) => HttpListener::handed_unix(unix, path),
        (None, Listen::Tcp(address)) => HttpListener::tcp(*address),
        (None, Listen::Unix(path)) => HttpListener::unix(path),
    };
    bound.map_err(|source| AppError::Listen { listen: configured.to_string(), source })
}

/// The dependencies of HTTP beyond the ports of the workers.
struct HttpParts {
    health: HealthSources,
    addresses: AddressPolicy,
    files: FileParts,
    audit: Arc<dyn Audit>,
    /// Of sessions, and of the control file.
    keys: (Vec<u8>, SecretDigest),
    metrics: Arc<Metrics>,
    sandbox: Arc<Sandbox>,
    console_url: Option<String>,
}

/// What `/readyz` and `/v1/status` report on.
struct HealthSources {
    probes: Vec<Box<dyn ReadinessProbe>>,
    levels: LevelStates,
    mcp: Option<Arc<McpServers>>,
}

/// Ends commands of the sandbox when the kernel has no room left.
struct SandboxRelief(Arc<Sandbox>);

impl KernelTables for SandboxRelief {
    fn end_largest_command(&self, short: KernelShortage) {
        let scarce = match short {
            KernelShortage::Tables => ScarceResource::Tables,
            KernelShortage::Memory => ScarceResource::Memory,
        };
        if let Some(size) = self.0.end_largest_run(scarce) {
            let KernelUse { files, watches, sockets, resident_bytes, .. } = size;
            let event = "largest command ended: the kernel has no room for a connection";
            tracing::warn!(?short, files, watches, sockets, resident_bytes, "{event}");
        }
    }
}

fn health_sources(
    store: &Arc<dyn NodeStore>,
    pool: &WorkerPool,
    self_test: &SandboxSelfTest,
    mcp: Option<&Arc<McpServers>>,
    shared_dir: Option<&Arc<SharedDirWatch>>,
) -> HealthSources {
    // A file has one node.
    let node = store.node_state().map(|_| NodeProbe(Arc::clone(store)));
    let disk = DiskProbe(Arc::clone(store));
    let store = StoreProbe(Arc::clone(store));
    let mut probes: Vec<Box<dyn ReadinessProbe>> =
        vec![Box::new(store), Box::new(disk), Box::new(pool.probe())];
    probes.extend(node.map(|node| -> Box<dyn ReadinessProbe> { Box::new(node) }));
    probes.extend(self_test.probes());
    let files = shared_dir.map(|watch| FilesProbe(Arc::clone(watch)));
    probes.extend(files.map(|files| -> Box<dyn ReadinessProbe> { Box::new(files) }));
    probes.extend(mcp.map(|mcp| -> Box<dyn ReadinessProbe> { Box::new(McpProbe(Arc::clone(mcp))) }));
    HealthSources { probes, levels: self_test.level_states(), mcp: mcp.cloned() }
}

fn http_dependencies(
    config: &Config,
    ports: &EnginePorts,
    store: &Arc<dyn NodeStore>,
    http: HttpParts,
) -> Arc<AppDependencies> {
    let HttpParts { health, addresses, files, audit, keys, metrics, sandbox, console_url } = http;
    let memories = files.tools.memories(config, store);
    let FileParts { workspaces, contents, .. } = files;
    let (session_key, control_key) = keys;
    let status = StatusSources {
        metrics: Arc::clone(&metrics),
        store: Arc::clone(store),
        mcp: health.mcp,
        levels: health.levels,
        clock: Arc::clone(&ports.clock),
        started_ms: ports.clock.monotonic_ms(),
    };
    Arc::new(AppDependencies {
        users: Arc::<dyn NodeStore>::clone(store),
        conversations: Arc::<dyn NodeStore>::clone(store),
        conversation_items: Arc::<dyn NodeStore>::clone(store),
        completions: Arc::<dyn NodeStore>::clone(store),
        runs: Arc::<dyn NodeStore>::clone(store),
        projects: Arc::<dyn NodeStore>::clone(store),
        workspaces,
        memories,
        files: Arc::<dyn NodeStore>::clone(store),
        contents,
        audit,
        windows: Arc::clone(store).cluster_ports().map(|cluster| cluster.windows),
        auth: AuthSettings {
            mode: config.auth_mode,
            registration: config.registration.unwrap_or_default(),
            session_key,
            control_key_digest: Some(control_key),
            metrics_are_public: config.metrics.public,
        },
        outbox: Arc::<dyn NodeStore>::clone(store),
        addresses,
        store: Arc::clone(&ports.store),
        log_chains: Arc::<dyn NodeStore>::clone(store),
        batches: Arc::<dyn NodeStore>::clone(store),
        schedules: Arc::<dyn NodeStore>::clone(store),
        accounts: Arc::<dyn NodeStore>::clone(store),
        backup: Arc::<dyn NodeStore>::clone(store),
        clock: Arc::clone(&ports.clock),
        entropy: Arc::clone(&ports.entropy),
        mint: IdGenerator::default(),
        toolbox: Arc::clone(&ports.tools),
        model: Arc::clone(&ports.model),
        threads: SharedThreads::for_reads(&config.limits),
        meter: Arc::clone(&ports.meter),
        exposition: Arc::new(Scrape {
            metrics,
            store: Arc::<dyn NodeStore>::clone(store),
            cluster: Arc::<dyn NodeStore>::clone(store),
        }),
        status: Arc::new(status),
        probes: health.probes,
        kernel_tables: Arc::new(SandboxRelief(sandbox)),
        limits: config.limits.clone(),
        default_model: config.default_model.clone(),
        strictness_levels: strictness_levels(config),
        max_iterations: config.max_iterations,
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        has_console: config.console,
        console_url,
        has_mcp_server: config.mcp_server.enabled,
    })
}

/// The levels that jobs may choose.
fn strictness_levels(config: &Config) -> Vec<Strictness> {
    let allowed = config.code_execution.levels_allowed();
    let is_allowed = |level: &Strictness| allowed.iter().any(|allowed| allowed.name() == level.name());
    Strictness::ALL.into_iter().filter(is_allowed).collect()
}

fn server_info(config: &Config, clock: &dyn Clock) -> ServerInfo {
    ServerInfo {
        version: env!("CARGO_PKG_VERSION"),
        started_at_ms: clock.now_ms(),
        workers: worker_threads(config),
        models: config.models.iter().map(|model| model.id.clone()).collect(),
    }
}
