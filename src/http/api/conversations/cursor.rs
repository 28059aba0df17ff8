//! Cursors of conversation pages: `<milliseconds>.<id>`, or an id alone for the position behind that
//! conversation.

use crate::domain::id::ConversationId;
use crate::http::error::ApiError;
use crate::http::request::query::digits;
use crate::ports::ConversationCursor;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageStart {
    /// `next_cursor` of the page before.
    Place(ConversationCursor),
    /// Behind this conversation.
    Behind(ConversationId),
}

impl PageStart {
    /// Reads it.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let id = |name: &str| ConversationId::try_from(name.to_owned()).map_err(|_| unknown());
        let Some((at, name)) = text.split_once('.') else { return Ok(Self::Behind(id(text)?)) };
        let updated_at_ms = digits(at).ok_or_else(unknown)?;
        Ok(Self::Place(ConversationCursor { updated_at_ms, id: id(name)? }))
    }
}

/// The position as a text.
pub(crate) fn write(cursor: &ConversationCursor) -> String {
    format!("{}.{}", cursor.updated_at_ms, cursor.id)
}

pub(crate) fn unknown() -> ApiError {
    ApiError::value("cursor", "'cursor' must be the next_cursor of a page, or the id of a conversation")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, updated_at_ms: u64) -> ConversationCursor {
        let id = ConversationId::try_from(name.to_owned()).expect("a name");
        ConversationCursor { updated_at_ms, id }
    }

    #[test]
    fn a_cursor_round_trips_and_a_conversation_id_is_accepted_too() {
        for (name, at) in [("conv_1", 0), ("a-b", u64::MAX)] {
            let place = place(name, at);
            let read = PageStart::parse(&write(&place)).expect("a cursor");
            assert_eq!(read, PageStart::Place(place.clone()));
            assert_eq!(PageStart::parse(name).expect("an id"), PageStart::Behind(place.id));
        }
    }

    #[test]
    fn p8_invalid_cursors_are_refused() {
        for bad in ["", ".", "1.", ".a", "x.a", "-1.a", "1.a b", "1.2.3", "18446744073709551616.a", "a b"] {
            assert!(PageStart::parse(bad).is_err(), "{bad}");
        }
    }
}
