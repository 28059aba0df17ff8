//! How an answer ended.

use crate::domain::event::FinishReason;

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerEnding {
    pub(crate) reason: FinishReason,
    /// The text of the request's `stop` that ended it, if the provider has said so.
    pub(crate) stop_sequence: Option<String>,
}
