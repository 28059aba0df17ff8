//! Why a file of `tools_dir` cannot become a tool.

use crate::tools::custom::options::BadTool;
use std::io;

/// The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolFileError {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The file cannot be a tool.
    #[error("{0}")]
    Invalid(String),
    #[error("describes no tool: {0}")]
    NoDescription(String),
    /// The file could not run now.
    #[error("cannot be described for now: {0}")]
    Unavailable(String),
    /// The file took too long, perhaps because the machine is slow.
    #[error("takes too long to describe itself: {0}")]
    TimedOut(String),
    /// A part of the description is invalid.
    #[error("its {0}")]
    BadDescription(#[from] BadTool),
}
