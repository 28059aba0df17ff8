//! Why a server did not start.

use super::socket_activation::SocketActivationError;
use crate::domain::address::AddressRangeError;
use crate::engine::pool::WorkerPoolError;
use crate::store::file_advice;
use crate::telemetry::SpanExportThreadError;
use crate::tools::{BadApprovalPattern, BadBashOption, ToolSetError};
use crate::webhooks::{DispatcherThreadError, InvalidSecret};
use std::path::PathBuf;

/// Why a server did not start.
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
    /// The store on `PostgreSQL`.
    #[error(transparent)]
    Database(#[from] crate::store::postgres::PostgresOpenError),
    /// The models.
    #[error(transparent)]
    Models(#[from] crate::llm::ModelConfigError),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] ToolSetError),
    /// The rules for commands.
    #[error(transparent)]
    Commands(#[from] BadBashOption),
    /// A pattern that the validation of the configuration accepted.
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
    Workers(#[from] WorkerPoolError),
    /// The threads for webhooks.
    #[error(transparent)]
    Webhooks(#[from] DispatcherThreadError),
    /// The thread that exports spans.
    #[error(transparent)]
    SpanExport(#[from] SpanExportThreadError),
    /// The secret that signs webhooks.
    #[error("cannot use the secret for webhooks: {0}")]
    WebhookSecret(std::io::Error),
    /// The key that signs sessions.
    #[error("cannot use the key for sessions: {0}")]
    SessionKey(std::io::Error),
    /// The key that signs what retention notes about logs.
    #[error("cannot use the key of logs: {0}")]
    LogKey(std::io::Error),
    /// A secret that the validation of the configuration accepted.
    #[error("webhooks.secrets {0}")]
    BadSecret(InvalidSecret),
    /// An address range that the validation of the configuration accepted.
    #[error("webhooks.allow_private_addresses {0}")]
    BadRange(AddressRangeError),
    /// An address range that the validation of the configuration accepted.
    #[error("web.allow_private_addresses {0}")]
    BadWebRange(AddressRangeError),
    /// The metrics.
    #[error("cannot register the metrics: {0}")]
    Metrics(#[from] crate::metrics::MetricsError),
    /// The socket.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// Where.
        listen: String,
        /// Why.
        source: std::io::Error,
    },
    /// The socket of the service manager.
    #[error(transparent)]
    SocketActivation(#[from] SocketActivationError),
    /// The file with the address and key for the command line.
    #[error("cannot write control.json, the address and key for the command line: {0}")]
    Control(std::io::Error),
    /// The set-up invite for the first administrator.
    #[error("cannot store the set-up invite: {0}")]
    SetupInvite(crate::ports::AccountError),
    /// The threads of the server, or its signal handlers.
    #[error("cannot start the server's threads: {0}")]
    Runtime(std::io::Error),
}

impl AppError {
    /// What to do about it, if the error itself tells.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => Some(error.advice()),
            Self::DataDir { source, .. }
            | Self::Audit(source)
            | Self::SessionKey(source)
            | Self::LogKey(source)
            | Self::WebhookSecret(source)
            | Self::Control(source) => file_advice(source),
            _ => None,
        }
    }
}
