//! Ids of messages: `ask_…` for a question, `msg_…` for an answer. They are the cursors of pages, too.

use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::ports::{ChatMessage, MessageRef};

pub(crate) fn parse(text: &str) -> Option<MessageRef> {
    text.parse().map(MessageRef::Ask).or_else(|_| text.parse().map(MessageRef::Answer)).ok()
}

/// The message after which a page begins.
pub(crate) fn cursor(text: &str) -> Result<MessageRef, ApiError> {
    parse(text).ok_or_else(|| {
        ApiError::value("cursor", format!("'cursor' must be the id of a message, not {}", quoted(text)))
    })
}

pub(crate) fn write(message: &ChatMessage) -> String {
    match message {
        ChatMessage::Ask { id, .. } => id.to_string(),
        ChatMessage::Answer { job, .. } => job.id.message_id().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::JobId;

    #[test]
    fn question_and_answer_ids_are_distinguished_by_prefix() {
        let job = JobId::from_bits(7 << 80);
        assert_eq!(parse(&job.ask_id().to_string()), Some(MessageRef::Ask(job.ask_id())));
        assert_eq!(parse(&job.message_id().to_string()), Some(MessageRef::Answer(job.message_id())));
        for bad in ["", "temp_1", "ask_", "1", &job.to_string()] {
            assert_eq!(parse(bad), None, "{bad}");
            assert!(cursor(bad).is_err(), "{bad}");
        }
    }
}
