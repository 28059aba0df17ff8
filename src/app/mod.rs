//! The composition root: the only place that sees every room. Starts them in order, hands each what it needs, and takes
//! them down in order. Owns no rule of its own.

mod audit;
mod control;
mod errands;
mod files;
mod handed;
mod mcp;
mod metrics;
mod patience;
mod probes;
mod process;
mod proof;
mod session_key;
mod signals;
mod sweep_projects;
pub mod system;
mod toolbox;
mod watchdog;
mod webhooks;
mod workplaces;

use crate::config::{Config, Listen};
use crate::domain::address::{AddressPolicy, AddressRangeError};
use crate::domain::id::IdGenerator;
use crate::engine::pool::{Pool, PoolError};
use crate::engine::timekeeper::{TimePorts, Timekeeping};
use crate::engine::vigil::Vigil;
use crate::engine::{Backoff, DriveLimits, Ports};
use crate::http::api_key::{self, SecretKind};
use crate::http::{
    AppDependencies, AuthSettings, BoundAddress, HttpListener, ShutdownSender, ShutdownStage, serve,
};
use crate::llm::Router;
use crate::mcp::McpServers;
use crate::ports::{
    Audit, Clock, Entropy, Exposition, Model, ProjectDirectories, ReadinessProbe, SecretDigest, Workspaces,
};
use crate::store::RedbStore;
use crate::store::options::StoreOptions;
use crate::tools::{BadApprovalPattern, BadBashOption, BashRules};
use crate::webhooks::{DispatcherThreads, DispatcherThreadsError, InvalidSecret};
use crate::workspace::HostFiles;
use control::ControlFile;
pub use control::{Control, control_in};
use handed::Handed;
pub use handed::HandedError;
pub use mcp::ports as mcp_ports;
use nanoclaw_sandbox::Sandbox;
use probes::{DiskProbe, StoreProbe};
pub use proof::Announce;
use proof::SandboxProof;
use signals::StopSignals;
pub use signals::{INTERRUPTED_EXIT, on_interrupt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use system::{SystemClock, SystemEntropy};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use toolbox::Parts;
pub use toolbox::{Workbench, workbench};
use watchdog::Watchdog;

/// The store's file inside the data directory.
pub const STORE_FILE: &str = "nanoclaw.redb";

/// Threads that serve HTTP: sockets and small reads, nothing that computes.
const HTTP_THREADS: usize = 2;

/// Threads for reads that may block on the disk.
const BLOCKING_THREADS: usize = 16;

/// Time that streams get to end after the workers have drained.
const CLOSING_TIME: Duration = Duration::from_secs(3);

/// Time that webhooks under way get after the workers have drained; others are sent after the next start.
const LEAVING_TIME: Duration = Duration::from_secs(1);

/// Time that connections get to be cut off.
const ABORTING_TIME: Duration = Duration::from_secs(1);

/// What could not be started.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The data directory.
    #[error("cannot use the data directory '{path}': {source}")]
    DataDir {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] crate::store::OpenError),
    /// The models.
    #[error(transparent)]
    Models(#[from] crate::llm::Error),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] crate::tools::ToolSetError),
    /// The rules for commands.
    #[error(transparent)]
    Commands(#[from] BadBashOption),
    /// A pattern of the configuration, which it should have refused.
    #[error("approval {0}")]
    BadApproval(BadApprovalPattern),
    /// The audit log.
    #[error("cannot open the audit log: {0}")]
    Audit(std::io::Error),
    /// The sandbox's options.
    #[error("cannot set up the sandbox: {0}")]
    Sandbox(#[from] nanoclaw_sandbox::SandboxError),
    /// The workers.
    #[error(transparent)]
    Workers(#[from] PoolError),
    /// The webhook threads failed to start.
    #[error(transparent)]
    Webhooks(#[from] DispatcherThreadsError),
    /// What webhooks are signed with.
    #[error("cannot use the secret for webhooks: {0}")]
    WebhookSecret(std::io::Error),
    /// What sessions are signed with.
    #[error("cannot use the key for sessions: {0}")]
    SessionKey(std::io::Error),
    /// A secret of the configuration, which it should have refused.
    #[error("webhooks.secrets {0}")]
    BadSecret(InvalidSecret),
    /// An address of the configuration, which it should have refused.
    #[error("webhooks.allow_private_addresses {0}")]
    BadRange(AddressRangeError),
    /// Likewise.
    #[error("web.allow_private_addresses {0}")]
    BadWebRange(AddressRangeError),
    /// The socket.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// Where.
        listen: String,
        /// Why.
        source: std::io::Error,
    },
    /// The socket of a service manager.
    #[error(transparent)]
    Handed(#[from] HandedError),
    /// The file with the way in for the command line.
    #[error("cannot write the file with the way in for the command line: {0}")]
    Control(std::io::Error),
    /// The runtime's threads, or its signals.
    #[error("cannot start the server's threads: {0}")]
    Runtime(std::io::Error),
}

/// A running server.
pub struct App {
    runtime: Runtime,
    signals: StopSignals,
    stages: ShutdownSender,
    serving: JoinHandle<()>,
    pool: Pool,
    webhooks: DispatcherThreads,
    mcp: Option<Arc<McpServers>>,
    timekeeping: Timekeeping,
    control: ControlFile,
    store: Arc<RedbStore>,
    proof: SandboxProof,
    bound: BoundAddress,
    drain: Duration,
}

impl App {
    /// Opens the store (running jobs of a crash go back to the queue) and the socket, then starts the workers, then lets
    /// clients in. Workers come after everything that can fail: a start that fails must not cut off a claimed job.
    /// `announce` hears what the sandbox achieves, a moment later.
    pub fn start(config: &Config, announce: Announce) -> Result<Self, AppError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        // First of all: no child that is started below shall get the socket.
        let handed = handed::take(config.auth_mode)?;
        process::settle();
        // What can be refused by its words alone is refused before anything is made.
        let (metrics, meter) = metrics::begin(config, &*clock);
        let router = Router::new(config.models.clone(), &config.limits)?;
        let model: Arc<dyn Model> = Arc::new(router.telling(&meter));
        let sandbox = Arc::new(Sandbox::new(config.code_execution.clone())?);
        let bash = BashRules::new(&config.bash, system::variable)?;
        let addresses = webhooks::policy(config)?;
        let store = patience::during(|| open_store(config, &clock)).map_err(AppError::Runtime)??;
        store.set_meter(Arc::clone(&meter));
        let session_key =
            session_key::key_in(&config.data_dir, entropy.as_ref()).map_err(AppError::SessionKey)?;
        let files: Arc<dyn Workspaces> =
            Arc::new(HostFiles::new(config.workspace_root.clone(), &config.limits, Arc::clone(&clock)));
        let audit = audit::open(config)?;
        let mcp = mcp::start(config, &sandbox, &clock)?;
        let made_of = Parts {
            sandbox: &sandbox,
            bash,
            store: &store,
            model: &model,
            clock: &clock,
            entropy: &entropy,
            files: &files,
            audit: &audit,
            mcp: mcp.as_ref(),
            meter: &meter,
        };
        let tools = toolbox::executor(config, made_of)?;
        let runtime = start_runtime()?;
        let signals = StopSignals::listen(&runtime).map_err(AppError::Runtime)?;
        let listener = listen(&runtime, &config.listen, handed)?;
        let bound = listener.bound().clone();
        sweep_projects::begin(Arc::<RedbStore>::clone(&store), Arc::clone(&files))
            .map_err(AppError::Runtime)?;
        let workplaces = workplaces(&store, &files);
        let ports =
            Ports { store: Arc::<RedbStore>::clone(&store), model, tools, workplaces, clock, entropy, meter };
        let limits = drive_limits(config);
        let proof = SandboxProof::prepare(sandbox, announce).map_err(AppError::Runtime)?;
        let webhooks = webhooks::start(config, &ports, &store, addresses.clone())?;
        let pool = Pool::start(config.workers, &ports, &limits)?;
        let vigil = pool.vigil(config.limits.stuck_job_s);
        let timekeeping = keep_time(&store, &ports, vigil).map_err(AppError::Runtime)?;
        let probes = probes(&store, &pool, &proof);
        let (stages, shutdown) = ShutdownSender::new();
        let key = api_key::generate(SecretKind::Control, ports.entropy.as_ref());
        let control = ControlFile::write(&config.data_dir, &bound, &key.secret).map_err(AppError::Control)?;
        let (exposition, control_key) = (metrics::exposition(metrics, &store), key.digest);
        let around = Surroundings { probes, addresses, files, audit, session_key, control_key, exposition };
        let room = Arc::new(room(config, &ports, &store, around));
        let serving = runtime.spawn(serve(listener, room, shutdown));
        let drain = Duration::from_secs(config.limits.drain_s);
        Ok(Self {
            runtime,
            signals,
            stages,
            serving,
            pool,
            webhooks,
            mcp,
            timekeeping,
            control,
            store,
            proof,
            bound,
            drain,
        })
    }

    /// Where clients come in.
    pub fn bound(&self) -> &BoundAddress {
        &self.bound
    }

    /// Serves until SIGTERM or SIGINT, then stops in order: nobody new, workers drained, streams ended, last commit.
    /// A second signal ends the process at once; the store is safe either way.
    pub fn run(mut self) {
        process::notify_ready(&format!("serving {}", self.bound));
        self.proof.begin();
        let watchdog = Watchdog::start(&self.store, self.bound.to_string()).unwrap_or_else(|error| {
            tracing::error!(%error, "no watchdog: the service manager will hold the server for hung");
            None
        });
        process::give_back();
        self.signals.wait(&self.runtime);
        tracing::info!(patience = ?self.drain, "stopping: running jobs may reach a step boundary");
        if let Some(watchdog) = watchdog {
            watchdog.end();
        }
        process::notify_stopping(self.drain);
        self.signals.exit_on_next(&self.runtime);
        self.stages.advance(ShutdownStage::Draining);
        self.webhooks.stop();
        self.timekeeping.end();
        self.pool.drain(self.drain);
        // Nobody calls a tool any more.
        if let Some(mcp) = self.mcp {
            mcp.stop();
        }
        self.webhooks.join(LEAVING_TIME);
        self.stages.advance(ShutdownStage::Closing);
        let closing = {
            let _context = self.runtime.enter();
            tokio::time::timeout(CLOSING_TIME, self.serving)
        };
        if self.runtime.block_on(closing).is_err() {
            self.stages.advance(ShutdownStage::Aborting);
        }
        self.runtime.shutdown_timeout(ABORTING_TIME);
        // Whoever finds the store free finds no way in to a server that is gone.
        drop(self.control);
        self.store.close();
        tracing::info!("stopped");
    }
}

/// Makes the data directory, for its owner alone.
pub fn provide_data_dir(dir: &Path) -> Result<(), AppError> {
    process::make_private(dir).map_err(|source| AppError::DataDir { path: dir.to_owned(), source })
}

/// Opens the store of the data directory, which no server may hold.
pub fn open_store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<RedbStore>, AppError> {
    provide_data_dir(&config.data_dir)?;
    let file = config.data_dir.join(STORE_FILE);
    let options = StoreOptions { retention: config.retention.clone(), ..config.store.clone() };
    Ok(RedbStore::open(&file, &options, &config.limits, Arc::clone(clock))?)
}

fn drive_limits(config: &Config) -> DriveLimits {
    let limits = &config.limits;
    DriveLimits {
        model_failures: limits.model_failures,
        repeated_failures: limits.repeated_failures,
        title_model: config.title_model.clone(),
        history_messages: limits.history_messages,
        approval_timeout_ms: limits.approval_timeout_s.saturating_mul(1_000),
        backoff: Backoff { first_s: limits.job_backoff_s, longest_s: limits.job_backoff_max_s },
    }
}

fn keep_time(store: &Arc<RedbStore>, ports: &Ports, vigil: Vigil) -> std::io::Result<Timekeeping> {
    let (clock, entropy) = (Arc::clone(&ports.clock), Arc::clone(&ports.entropy));
    Timekeeping::start(TimePorts { schedules: Arc::<RedbStore>::clone(store), clock, entropy }, vigil)
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

fn listen(runtime: &Runtime, wanted: &Listen, handed: Option<Handed>) -> Result<HttpListener, AppError> {
    let _context = runtime.enter();
    if handed.is_some() {
        tracing::info!(listen = %wanted, "the service manager holds the socket: the configuration's is set aside");
    }
    let bound = match (handed, wanted) {
        (Some(Handed::Tcp(tcp)), _) => HttpListener::handed_tcp(tcp),
        (Some(Handed::Unix(unix, path)), _) => HttpListener::handed_unix(unix, path),
        (None, Listen::Tcp(address)) => HttpListener::tcp(*address),
        (None, Listen::Unix(path)) => HttpListener::unix(path),
    };
    bound.map_err(|source| AppError::Listen { listen: wanted.to_string(), source })
}

/// What a room has beside the store and what workers have.
struct Surroundings {
    probes: Vec<Box<dyn ReadinessProbe>>,
    addresses: AddressPolicy,
    files: Arc<dyn Workspaces>,
    audit: Arc<dyn Audit>,
    session_key: Vec<u8>,
    control_key: SecretDigest,
    exposition: Arc<dyn Exposition>,
}

fn probes(store: &Arc<RedbStore>, pool: &Pool, proof: &SandboxProof) -> Vec<Box<dyn ReadinessProbe>> {
    let disk = DiskProbe(Arc::clone(store));
    let store = StoreProbe(Arc::<RedbStore>::clone(store));
    let mut probes: Vec<Box<dyn ReadinessProbe>> =
        vec![Box::new(store), Box::new(disk), Box::new(pool.probe())];
    probes.extend(proof.probes());
    probes
}

fn workplaces(store: &Arc<RedbStore>, files: &Arc<dyn Workspaces>) -> Arc<dyn ProjectDirectories> {
    let (projects, workspaces) = (Arc::<RedbStore>::clone(store), Arc::clone(files));
    Arc::new(workplaces::ProjectPlaces { projects, workspaces })
}

fn room(config: &Config, ports: &Ports, store: &Arc<RedbStore>, around: Surroundings) -> AppDependencies {
    let Surroundings { probes, addresses, files, audit, session_key, control_key, exposition } = around;
    AppDependencies {
        users: Arc::<RedbStore>::clone(store),
        conversations: Arc::<RedbStore>::clone(store),
        projects: Arc::<RedbStore>::clone(store),
        workspaces: files,
        workplaces: Arc::clone(&ports.workplaces),
        audit,
        auth: AuthSettings {
            mode: config.auth_mode,
            registration: config.registration,
            session_key,
            control_key_digest: Some(control_key),
            metrics_are_public: config.metrics.public,
        },
        outbox: Arc::<RedbStore>::clone(store),
        addresses,
        store: Arc::clone(&ports.store),
        batches: Arc::<RedbStore>::clone(store),
        schedules: Arc::<RedbStore>::clone(store),
        accounts: Arc::<RedbStore>::clone(store),
        backup: Arc::<RedbStore>::clone(store),
        clock: Arc::clone(&ports.clock),
        entropy: Arc::clone(&ports.entropy),
        mint: IdGenerator::default(),
        toolbox: Arc::clone(&ports.tools),
        model: Arc::clone(&ports.model),
        meter: Arc::clone(&ports.meter),
        exposition,
        probes,
        limits: config.limits.clone(),
        default_model: config.default_model.clone(),
        max_iterations: config.max_iterations,
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
    }
}
