//! The errors of the sandbox itself.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::level::Level;

/// An error of the sandbox. In a run it becomes a record with status `sandbox_error`.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// An option is invalid.
    #[error("option `{option}` {reason}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// Why it is invalid.
        reason: String,
    },
    /// Modules could not be registered; nothing has changed.
    #[error("cannot allow modules at level {level}: {reason}")]
    AllowModules {
        /// The level.
        level: Level,
        /// Which module, and why.
        reason: String,
    },
    /// A descriptor for the child could not be made.
    #[error("cannot make the child's {what}: {source}")]
    MakeDescriptor {
        /// Which descriptor.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The broker could not be started.
    #[error("cannot start the broker '{}': {source}", path.display())]
    StartBroker {
        /// The binary.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A run could not be requested.
    #[error("cannot request a run from the broker: {0}")]
    Order(io::Error),
    /// The broker could not start the child; its message.
    #[error("{0}")]
    Broker(String),
    /// The broker ended before the run did. The next run starts another one.
    #[error("the sandbox's broker died; the next run starts another one")]
    BrokerDied,
    /// The process that was started as the broker never answered.
    #[error("'{}' does not become the sandbox's broker: {reason}", path.display())]
    NoBroker {
        /// The binary.
        path: PathBuf,
        /// How it ended.
        reason: String,
    },
    /// The broker does not answer. The next run starts another one.
    #[error("the sandbox's broker does not answer; the next run starts another one")]
    BrokerStuck,
    /// The caller cancelled before the run had started.
    #[error("cancelled by the caller before it started")]
    Cancelled,
    /// A session could not be opened.
    #[error("cannot open a session: {reason}")]
    OpenSession {
        /// Why not.
        reason: String,
    },
    /// No more sessions may be open.
    #[error("{most} sessions are open already (code_execution.max_sessions): end one first")]
    TooManySessions {
        /// The limit.
        most: usize,
    },
    /// The child could not be watched; it has been killed.
    #[error("cannot watch the child: {0}")]
    Watch(io::Error),
    /// The private directory could not be made.
    #[error("cannot make a private directory below '{}': {source}", path.display())]
    MakeScratch {
        /// The directory above.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The given directory cannot be used.
    #[error("cannot use '{}' as the working directory: {reason}", path.display())]
    BadWorkdir {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The private directory could not be removed.
    #[error("cannot remove the private directory '{}': {source}", path.display())]
    RemoveScratch {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl SandboxError {
    /// The error of the operating system, if there is one.
    pub(crate) fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::MakeDescriptor { source, .. }
            | Self::StartBroker { source, .. }
            | Self::Order(source)
            | Self::Watch(source)
            | Self::MakeScratch { source, .. }
            | Self::RemoveScratch { source, .. } => Some(source),
            _ => None,
        }
    }
}
