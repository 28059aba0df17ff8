//! Times as `/api` writes them: `YYYY-MM-DDTHH:MM:SSZ`.

use jiff::Timestamp;

/// The time, whole seconds, UTC.
pub(crate) fn date(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_second() {
        assert_eq!(date(1_700_000_000_999), "2023-11-14T22:13:20Z");
        assert!(date(u64::MAX).starts_with("9999-"));
    }
}
