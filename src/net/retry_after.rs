//! `Retry-After` of receivers that are no models.

use jiff::fmt::rfc2822;

/// Parses `Retry-After`, a number or a date, to seconds from now.
pub(crate) fn retry_after_s(text: &str, now_ms: u64) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(text.parse().unwrap_or(u64::MAX));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    u64::try_from(date.as_second()).ok().map(|at_s| at_s.saturating_sub(now_ms / 1_000))
}
