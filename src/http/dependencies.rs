//! What the handlers see of the world: seams and numbers, handed over by the composition root. Owns nothing that runs.

use crate::domain::account::{AuthMode, Registration};
use crate::domain::address::AddressPolicy;
use crate::domain::id::{ConversationId, IdGenerator, JobId};
use crate::domain::limits::Limits;
use crate::ports::{
    Accounts, Audit, Backup, Batches, Clock, Conversations, Entropy, Exposition, Meter, Model, Outbox,
    ProjectDirectories, Projects, ReadinessProbe, Schedules, SecretDigest, Store, Toolbox, Users, Workspaces,
};
use std::sync::Arc;

/// Everything that a request may need.
pub struct AppDependencies {
    /// The durable truth.
    pub store: Arc<dyn Store>,
    /// Webhooks and what became of them.
    pub outbox: Arc<dyn Outbox>,
    /// Where webhooks may go.
    pub addresses: AddressPolicy,
    /// The durable truth about batches.
    pub batches: Arc<dyn Batches>,
    /// What is due again and again.
    pub schedules: Arc<dyn Schedules>,
    /// Accounts and API tokens.
    pub users: Arc<dyn Users>,
    /// Conversations and their messages.
    pub conversations: Arc<dyn Conversations>,
    /// Projects.
    pub projects: Arc<dyn Projects>,
    /// Their files.
    pub workspaces: Arc<dyn Workspaces>,
    /// Their directories.
    pub workplaces: Arc<dyn ProjectDirectories>,
    /// What became of calls of tools.
    pub audit: Arc<dyn Audit>,
    /// How clients come in.
    pub auth: AuthSettings,
    /// What was spent.
    pub accounts: Arc<dyn Accounts>,
    /// Copies the durable truth.
    pub backup: Arc<dyn Backup>,
    /// When a job was accepted.
    pub clock: Arc<dyn Clock>,
    /// What makes ids unguessable.
    pub entropy: Arc<dyn Entropy>,
    /// Makes ids rise.
    pub mint: IdGenerator,
    /// Knows the names that `tools` may list.
    pub toolbox: Arc<dyn Toolbox>,
    /// Knows the names that `model` may be.
    pub model: Arc<dyn Model>,
    /// Who counts what happens at the door.
    pub meter: Arc<dyn Meter>,
    /// What `/metrics` says.
    pub exposition: Arc<dyn Exposition>,
    /// What `/readyz` asks.
    pub probes: Vec<Box<dyn ReadinessProbe>>,
    /// The bounds of P8.
    pub limits: Limits,
    /// What a job gets that names no model.
    pub default_model: String,
    /// Default and upper bound of `max_steps`.
    pub max_iterations: u32,
    /// Host names beyond the loopback ones; `name` for any port, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call, `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
}

/// How clients come in.
#[derive(Clone)]
pub struct AuthSettings {
    /// Whether there are accounts.
    pub mode: AuthMode,
    /// Who may make one.
    pub registration: Registration,
    /// What sessions are signed with.
    pub session_key: Vec<u8>,
    /// What the key of the command line on this machine is known by; `None`: it has no way in.
    pub control_key_digest: Option<SecretDigest>,
    /// Whether everybody may fetch `/metrics`.
    pub metrics_are_public: bool,
}

impl AppDependencies {
    /// An id for a job accepted at `now_ms`.
    pub(crate) fn job_id(&self, now_ms: u64) -> JobId {
        JobId::from_bits(self.mint.mint(now_ms, self.entropy.random()))
    }

    /// An id for a conversation made at `now_ms`.
    pub(crate) fn conversation_id(&self, now_ms: u64) -> ConversationId {
        ConversationId::of_bits(self.mint.mint(now_ms, self.entropy.random()))
    }
}
