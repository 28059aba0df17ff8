//! The position from which a reader continues: `Last-Event-ID`, `?after=` or `?starting_after=`, digits
//! only.

use crate::http::error::ApiError;
use crate::http::request::query::{QueryString, digits};
use crate::http::request::quoted::quoted;
use hyper::HeaderMap;

/// The header of clients that reconnect.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// The `seq` to continue after: `Last-Event-ID`, else `?after=`, else its alias `?starting_after=`, else 0.
pub(crate) fn cursor(headers: &HeaderMap, query: &QueryString) -> Result<u64, ApiError> {
    let mut lines = headers.get_all(LAST_EVENT_ID).iter();
    if let Some(line) = lines.next() {
        if lines.next().is_some() {
            return Err(bad("Last-Event-ID", "two different ones"));
        }
        let text = line.to_str().unwrap_or("\u{fffd}");
        return digits(text.trim()).ok_or_else(|| bad("Last-Event-ID", text));
    }
    let given = [("after", query.text("after")), ("starting_after", query.text("starting_after"))];
    match given {
        [(_, None), (_, None)] => Ok(0),
        [(_, Some(_)), (_, Some(_))] => {
            Err(ApiError::value("after", "'after' and 'starting_after' mean the same; give one of them"))
        }
        [(name, Some(text)), _] | [_, (name, Some(text))] => digits(text).ok_or_else(|| bad(name, text)),
    }
}

/// The cursor is beyond the newest event.
pub(crate) fn beyond_log_error(cursor: u64, newest: u64) -> ApiError {
    ApiError::value("after", format!("the cursor {cursor} is beyond this job's newest event, {newest}"))
}

fn bad(name: &str, text: &str) -> ApiError {
    ApiError::value(
        name,
        format!("'{name}' must be the id of an event, a whole number, not {}", quoted(text)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(header: Option<&str>, query: &str) -> Result<u64, ApiError> {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(LAST_EVENT_ID, value.parse().expect("a header value"));
        }
        cursor(&headers, &QueryString::parse(Some(query), &["after", "starting_after"]).expect("a query"))
    }

    #[test]
    fn the_cursor_header_overrides_the_query_and_the_alias_works() {
        assert_eq!(read(Some("7"), "after=3").expect("reads"), 7);
        assert_eq!(read(None, "starting_after=3").expect("reads"), 3);
        assert_eq!(read(None, "").expect("reads"), 0);
    }

    #[test]
    fn cursors_that_are_not_numbers_are_refused() {
        for bad in ["-1", "1.5", "abc", "0x1", "18446744073709551616", "+1"] {
            assert!(read(Some(bad), "").is_err(), "{bad}");
            assert!(read(None, &format!("after={}", bad.replace('+', "%2B"))).is_err(), "{bad}");
        }
        assert!(read(None, "after=").is_err());
        assert!(read(None, "after=1&starting_after=1").is_err());
    }

    proptest! {
        #[test]
        fn every_sequence_number_is_a_valid_cursor(seq: u64) {
            prop_assert_eq!(read(None, &format!("after={seq}")).expect("reads"), seq);
            prop_assert_eq!(read(Some(&seq.to_string()), "after=x").expect("reads"), seq);
        }
    }
}
