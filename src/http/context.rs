//! What all requests of one listener share: dependencies, host check, authentication, shutdown and
//! semaphores.

use super::auth::{AuthState, Caller};
use super::dependencies::AppDependencies;
use super::error::ApiError;
use super::mcp::McpSessions;
use super::middleware::access_log::LogThrottle;
use super::middleware::host_origin::HostOriginGuard;
use super::readiness::ReadinessCache;
use super::result_file_tasks::ResultFileTasks;
use super::server::connection_table::connection_places;
use super::server::shutdown::Shutdown;
use super::shared_pages::SharedPages;
use super::shared_threads::{SharedThreads, ThreadShare};
use super::shares::{ShareOwner, SharedBudget};
use super::sse::shared_pages::FramePage;
use super::v1::batches::result_page::BatchResultPage;
use super::v1::end_look::EndLook;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::ports::{Store, StoreError};
use bytes::Bytes;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// Tool calls of operators at the same time. Each holds a thread for up to the time of a job.
pub(crate) const TRIALS: usize = 2;

/// Requests at the same time that are passed on to providers. Each holds a thread of its own.
pub(crate) const FORWARDS: usize = 128;
/// Those that each client may have.
const LEAST_FORWARDS: usize = 4;

/// Connections and requests under way that each client may have.
const LEAST_CONNECTIONS: usize = 16;

pub(crate) struct ServerContext {
    pub(crate) app: Arc<AppDependencies>,
    pub(crate) guard: HostOriginGuard,
    pub(crate) auth: AuthState,
    pub(crate) shutdown: Shutdown,
    /// Results of the readiness probes.
    pub(crate) readiness: Arc<ReadinessCache>,
    /// Bytes of request bodies: `limits.bodies_bytes`.
    pub(crate) bodies: Arc<SharedBudget>,
    /// Bytes of large answers: `limits.answers_bytes`.
    pub(crate) answers: Arc<SharedBudget>,
    /// Requests under way, streams included.
    pub(crate) requests: Arc<SharedBudget>,
    /// Connections by address; behind a proxy on this machine, requests under way by address.
    pub(crate) connections: Arc<SharedBudget>,
    /// Threads for searches in projects.
    pub(crate) searches: Arc<SharedThreads>,
    /// Threads for programs that MCP clients run.
    pub(crate) mcp_programs: Arc<SharedThreads>,
    /// Sessions of MCP clients.
    pub(crate) mcp_sessions: Arc<McpSessions>,
    /// One permit: backups run one at a time.
    pub(crate) backups: Arc<Semaphore>,
    /// One permit: scrapes of `/metrics` run one at a time.
    pub(crate) scrapes: Arc<Semaphore>,
    /// Threads for pages with results of batches.
    result_threads: Arc<SharedThreads>,
    /// Turns to write much at once.
    large_writes: Arc<SharedThreads>,
    /// Tasks that write files with the results of batches.
    pub(crate) result_files: ResultFileTasks,
    /// Permits for tool calls of operators.
    pub(crate) trials: Arc<Semaphore>,
    /// Requests under way that are passed on to providers.
    pub(crate) forwards: Arc<SharedBudget>,
    /// Pages that the readers of a job share.
    pub(crate) pages: Arc<SharedPages<JobId, FramePage>>,
    /// Pages that the followers of a batch's results share.
    pub(crate) result_pages: Arc<SharedPages<BatchId, BatchResultPage>>,
    /// Looks that those share who wait for the end of a job or batch.
    pub(crate) job_ends: Arc<SharedPages<(UserId, JobId), EndLook>>,
    pub(crate) batch_ends: Arc<SharedPages<(UserId, BatchId), EndLook>>,
    /// Rate limit of the access log.
    pub(crate) log_throttle: Arc<LogThrottle>,
    /// The rendered `/openapi.json`.
    pub(crate) openapi: OnceLock<Bytes>,
}

impl ServerContext {
    pub(crate) fn new(app: Arc<AppDependencies>, guard: HostOriginGuard, shutdown: Shutdown) -> Self {
        let limits = &app.limits;
        let bodies = SharedBudget::new(limits.bodies_bytes, limits.body_bytes, limits.bodies_bytes / 8);
        let answers = SharedBudget::new(limits.answers_bytes, 0, limits.answers_bytes / 8);
        let places = || SharedBudget::new(connection_places(limits), LEAST_CONNECTIONS, 0);
        let (requests, connections) = (places(), places());
        let backups = Arc::new(Semaphore::new(1));
        let trials = Arc::new(Semaphore::new(TRIALS));
        let forwards = SharedBudget::new(FORWARDS, LEAST_FORWARDS, 0);
        let auth = AuthState::new(&app);
        let readiness = Arc::new(ReadinessCache::default());
        let (log_throttle, scrapes, openapi) =
            (Arc::new(LogThrottle::default()), Arc::new(Semaphore::new(1)), OnceLock::new());
        Self {
            app,
            guard,
            auth,
            shutdown,
            readiness,
            bodies,
            answers,
            requests,
            connections,
            searches: SharedThreads::for_searches(),
            mcp_programs: SharedThreads::for_programs(),
            mcp_sessions: Arc::default(),
            backups,
            scrapes,
            result_threads: SharedThreads::for_result_pages(),
            large_writes: SharedThreads::for_large_writes(),
            result_files: ResultFileTasks::default(),
            trials,
            forwards,
            pages: Arc::default(),
            result_pages: Arc::default(),
            job_ends: Arc::default(),
            batch_ends: Arc::default(),
            log_throttle,
            openapi,
        }
    }

    /// Whether an account has a password. None is ever removed, so the store is asked until there is one.
    pub(crate) async fn has_accounts(&self) -> Result<bool, ApiError> {
        if self.auth.has_accounts.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let users = Arc::clone(&self.app.users);
        let has_accounts = !self.read(Caller::NOBODY.user, move |_| users.has_no_accounts()).await?;
        self.auth.has_accounts.store(has_accounts, Ordering::Relaxed);
        Ok(has_accounts)
    }

    /// Makes a write that fills a commit, on a thread that may block, when it is the user's turn for one. The
    /// turn lasts as long as `act`, also when the caller is dropped meanwhile.
    pub(crate) async fn large_write<T, F>(&self, user: UserId, act: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let turn = self.large_writes.turn(ShareOwner::of_user(self.app.auth.mode, user)).await?;
        let act = move || {
            let result = act();
            drop(turn);
            result
        };
        self.app.blocking(user, act).await
    }

    /// The user's share of the threads for pages with results of batches.
    pub(crate) fn result_threads(&self, user: UserId) -> ThreadShare {
        self.result_threads.of(ShareOwner::of_user(self.app.auth.mode, user))
    }

    /// Reads from the store on a thread that may block, when it is the user's turn. For everything longer
    /// than one row.
    pub(crate) async fn read<T, F>(&self, user: UserId, act: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.app.store);
        Ok(self.app.blocking(user, move || act(&*store)).await??)
    }
}
