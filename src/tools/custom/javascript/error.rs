//! Why a file of `tools_dir` is no tool.

use crate::tools::custom::options::BadTool;
use std::io;

/// Why a file is no tool. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolFileError {
    /// The disk refused.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is no file that could be a tool.
    #[error("{0}")]
    Unfit(String),
    /// It ran, and described no tool.
    #[error("describes no tool: {0}")]
    Undescribed(String),
    /// It could not be run; that may be over soon.
    #[error("cannot be asked what it is, for now: {0}")]
    Unasked(String),
    /// It did not end in time; the machine may be the slow one.
    #[error("takes too long to describe itself: {0}")]
    Late(String),
    /// A part of its description cannot be.
    #[error("its {0}")]
    Bad(#[from] BadTool),
}
