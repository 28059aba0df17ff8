//! What handlers need from the rest of the program, passed in by `app`.

use super::error::ApiError;
use super::shared_threads::{SharedThreads, ThreadShare};
use super::shares::ShareOwner;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::address::AddressPolicy;
use crate::domain::id::{ConversationId, IdGenerator, JobId, UserId};
use crate::domain::limits::Limits;
use crate::domain::tool::Strictness;
use crate::ports::{
    Accounts, Audit, Backup, Batches, Clock, Contents, ConversationItems, Conversations, Entropy, Exposition,
    KernelTables, LogChains, Memories, Meter, Model, Outbox, Projects, RateWindows, ReadinessProbe, Runs,
    Schedules, SecretDigest, ServerStatus, Store, StoredCompletions, StoredFiles, Toolbox, Users, Workspaces,
};
use std::sync::Arc;

/// Dependencies of request handlers.
pub struct AppDependencies {
    /// Jobs and their events.
    pub store: Arc<dyn Store>,
    /// The hash chains of their logs.
    pub log_chains: Arc<dyn LogChains>,
    /// Webhook deliveries.
    pub outbox: Arc<dyn Outbox>,
    /// Addresses that webhooks may reach.
    pub addresses: AddressPolicy,
    /// Batches.
    pub batches: Arc<dyn Batches>,
    /// Schedules.
    pub schedules: Arc<dyn Schedules>,
    /// Accounts and API tokens.
    pub users: Arc<dyn Users>,
    /// Conversations and their messages.
    pub conversations: Arc<dyn Conversations>,
    /// Their items of `/v1/conversations`.
    pub conversation_items: Arc<dyn ConversationItems>,
    /// Chat completions that clients stored.
    pub completions: Arc<dyn StoredCompletions>,
    /// Ended jobs that move to or from another server.
    pub runs: Arc<dyn Runs>,
    /// Projects.
    pub projects: Arc<dyn Projects>,
    /// Files of projects.
    pub workspaces: Arc<dyn Workspaces>,
    /// Memories; `None` if the configuration has none.
    pub memories: Option<Arc<dyn Memories>>,
    /// Rows of `/v1/files`.
    pub files: Arc<dyn StoredFiles>,
    /// Their contents.
    pub contents: Arc<dyn Contents>,
    /// The audit log.
    pub audit: Arc<dyn Audit>,
    /// Authentication.
    pub auth: AuthSettings,
    /// Failed logins and requests, counted over all nodes; `None`: this node counts its own.
    pub windows: Option<Arc<dyn RateWindows>>,
    /// Token usage.
    pub accounts: Arc<dyn Accounts>,
    /// Copies the store.
    pub backup: Arc<dyn Backup>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Generates rising ids.
    pub mint: IdGenerator,
    /// Tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// Models.
    pub model: Arc<dyn Model>,
    /// Threads for reads that may block.
    pub(crate) threads: Arc<SharedThreads>,
    /// Metrics of requests.
    pub meter: Arc<dyn Meter>,
    /// The text of `/metrics`.
    pub exposition: Arc<dyn Exposition>,
    /// The state of the server.
    pub status: Arc<dyn ServerStatus>,
    /// Probes of `/readyz`.
    pub probes: Vec<Box<dyn ReadinessProbe>>,
    /// Makes room in the kernel's tables.
    pub kernel_tables: Arc<dyn KernelTables>,
    /// Limits (P8).
    pub limits: Limits,
    /// The default model.
    pub default_model: String,
    /// The levels that jobs may choose, the strictest first.
    pub strictness_levels: Vec<Strictness>,
    /// Default and upper bound of `max_steps`.
    pub max_iterations: u32,
    /// Host names beyond the loopback ones; `name` for any port, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may call, `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Whether `GET /` is the console.
    pub has_console: bool,
    /// Where people open it, with a slash at the end, if that is known.
    pub console_url: Option<String>,
    /// Whether `/mcp` is served.
    pub has_mcp_server: bool,
}

/// Authentication.
#[derive(Clone)]
pub struct AuthSettings {
    /// `single` or `multi`.
    pub mode: AuthMode,
    /// Who may register once there is an account.
    pub registration: Registration,
    /// The key that signs sessions.
    pub session_key: Vec<u8>,
    /// Digest of the control key for the command line on this machine; `None`: there is none.
    pub control_key_digest: Option<SecretDigest>,
    /// Whether `/metrics` needs no authentication.
    pub metrics_are_public: bool,
}

impl AppDependencies {
    /// An id for a job accepted at `now_ms`.
    pub(crate) fn job_id(&self, now_ms: u64) -> JobId {
        JobId::from_bits(self.mint.mint(now_ms, self.entropy.random()))
    }

    /// The user's share of the threads for reads that may block.
    pub(crate) fn threads_of(&self, user: UserId) -> ThreadShare {
        self.threads.of(ShareOwner::of_user(self.auth.mode, user))
    }

    /// Runs `act` on a thread that may block when it is the user's turn: [`ThreadShare::run`].
    pub(crate) fn blocking<T, F>(
        &self,
        user: UserId,
        act: F,
    ) -> impl Future<Output = Result<T, ApiError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.threads_of(user).run(act)
    }

    /// An id for a conversation made at `now_ms`.
    pub(crate) fn conversation_id(&self, now_ms: u64) -> ConversationId {
        ConversationId::of_bits(self.mint.mint(now_ms, self.entropy.random()))
    }
}
