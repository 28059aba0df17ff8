//! What is wrong with a line of a batch, or with its whole text.

use crate::domain::batch::BatchFault;
use crate::http::error::ApiError;
use serde::Serialize;

/// A fault, with the name of its line.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub(crate) struct LineFault {
    /// The line's own, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) custom_id: Option<String>,
    #[serde(flatten)]
    pub(crate) fault: BatchFault,
}

impl LineFault {
    /// The fault as the error of an upload says it. `None`: the whole text.
    pub(crate) fn of(line: Option<u64>, error: &ApiError, custom_id: Option<String>) -> Self {
        let (code, message) = (error.code().to_owned(), error.message());
        Self { custom_id, fault: BatchFault { code, line, message, param: error.param().map(str::to_owned) } }
    }
}
