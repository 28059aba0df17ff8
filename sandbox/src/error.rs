//! What can go wrong in the sandbox itself. A variant is one failed act.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;

/// A failed act of the sandbox. Inside a run it becomes a record with status `sandbox_error`.
#[derive(Debug, ThisError)]
pub enum Error {
    /// An option makes no sense.
    #[error("option `{option}` {reason}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What is wrong with it.
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
    /// The request could not be written down.
    #[error("cannot encode the request: {0}")]
    EncodeRequest(serde_json::Error),
    /// The child could not be started.
    #[error("cannot start '{}': {source}", path.display())]
    Spawn {
        /// The binary.
        path: PathBuf,
        /// The cause.
        source: io::Error,
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
