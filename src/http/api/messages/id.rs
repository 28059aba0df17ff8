//! Names of messages: `ask_…` a question, `msg_…` an answer. Owns their text form, which is a page's cursor as well.

use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::ports::{ChatMessage, MessageRef};

/// The message of this name, if it can be one.
pub(crate) fn parse(text: &str) -> Option<MessageRef> {
    text.parse().map(MessageRef::Ask).or_else(|_| text.parse().map(MessageRef::Answer)).ok()
}

/// The message behind which a page begins.
pub(crate) fn cursor(text: &str) -> Result<MessageRef, ApiError> {
    parse(text).ok_or_else(|| {
        ApiError::value("cursor", format!("'cursor' must be the id of a message, not {}", quoted(text)))
    })
}

/// The message's name.
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
    fn questions_and_answers_are_told_apart_by_their_names() {
        let job = JobId::from_bits(7 << 80);
        assert_eq!(parse(&job.ask_id().to_string()), Some(MessageRef::Ask(job.ask_id())));
        assert_eq!(parse(&job.message_id().to_string()), Some(MessageRef::Answer(job.message_id())));
        for bad in ["", "temp_1", "ask_", "1", &job.to_string()] {
            assert_eq!(parse(bad), None, "{bad}");
            assert!(cursor(bad).is_err(), "{bad}");
        }
    }
}
