//! Cron expressions in a time zone. `croner` reads them and matches dates and times. This module decides
//! what happens when the clock changes:
//!
//! - Named hours (`30 2 * * *`, `0 9-17 * * *`) are hours of the wall clock. A skipped time runs once, right
//!   after the gap. A repeated time runs only the first time.
//! - Every hour or every few hours (`*`, `*/2`) is real time. An hour that comes twice runs twice. A skipped
//!   hour does not run.

use super::zones;
use crate::domain::nearest::hint;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// Default time zone.
pub const DEFAULT_ZONE: &str = "UTC";

/// Maximum length of an expression, bytes.
const EXPRESSION_BYTES: usize = 256;
/// Characters of the client's text that an error repeats.
const WORD_CHARS: usize = 64;
/// Clock changes that a search passes; more than any zone has in the forty years between two 29ths of
/// February on the same weekday.
const CLOCK_CHANGES: usize = 256;
/// Wall clock times of one repeated hour, seconds included, with a margin.
const REPEATED_TIMES: usize = 2 * 3_600 * 24;

/// Why an expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Not a cron expression.
    #[error("{0}")]
    Expression(String),
    /// Unknown time zone.
    #[error(
        "there is no time zone '{name}'{hint} (names are those of the IANA database, as in Europe/Berlin)"
    )]
    Zone {
        /// The zone as given, cut.
        name: String,
        /// The nearest known zone.
        hint: String,
    },
}

/// A valid expression in a valid time zone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredCron", into = "StoredCron")]
pub struct Cron {
    written: StoredCron,
    pattern: croner::Cron,
    zone: TimeZone,
    /// The expression means every hour, so real time counts.
    is_hourly: bool,
}

/// Stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCron {
    expression: String,
    zone: String,
}

impl Cron {
    /// Parses five fields (minute, hour, day, month, weekday), six with seconds first, or a word such as
    /// `@daily`.
    pub fn new(expression: &str, zone: &str) -> Result<Self, CronError> {
        let pattern = pattern(expression)?;
        let hours = &pattern.pattern.hours;
        let is_hourly =
            hours.from_wildcard || (0..24).all(|hour| pattern.pattern.hour_match(hour).unwrap_or(false));
        let zone = named(zone)?;
        let name = zone.iana_name().unwrap_or(DEFAULT_ZONE).to_owned();
        let written = StoredCron { expression: expression.trim().to_owned(), zone: name };
        Ok(Self { written, pattern, zone, is_hourly })
    }

    /// The expression as given.
    pub fn expression(&self) -> &str {
        &self.written.expression
    }

    /// Name of the time zone, as the database spells it.
    pub fn zone(&self) -> &str {
        &self.written.zone
    }

    /// The first occurrence after `ms`, both unix milliseconds.
    pub fn next_after(&self, ms: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        let next = if self.is_hourly { self.next_in_real_time(after) } else { self.next_on_the_wall(after) };
        u64::try_from(next?.as_millisecond()).ok()
    }

    /// Within one UTC offset real and wall time run alike; the search restarts at each clock change.
    fn next_in_real_time(&self, after: Timestamp) -> Option<Timestamp> {
        let mut changes = self.zone.following(after);
        let mut offset = self.zone.to_offset(after);
        let mut found = self.match_after(offset.to_datetime(after), false)?;
        for _ in 0..CLOCK_CHANGES {
            let instant = offset.to_timestamp(found).ok()?;
            let Some(change) = changes.next().filter(|change| change.timestamp() <= instant) else {
                return Some(instant);
            };
            offset = change.offset();
            found = self.match_after(offset.to_datetime(change.timestamp()), true)?;
        }
        None
    }

    /// Walks over matching wall clock times in order; each has exactly one instant.
    fn next_on_the_wall(&self, after: Timestamp) -> Option<Timestamp> {
        let mut found = self.match_after(self.zone.to_datetime(after), false)?;
        for _ in 0..REPEATED_TIMES {
            let instant = self.instant(found)?;
            if instant > after {
                return Some(instant);
            }
            found = self.match_after(found, false)?;
        }
        None
    }

    /// The instant of a wall clock time: its first occurrence, or the moment of the jump when the clock skips
    /// it.
    fn instant(&self, shown: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(shown).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let past = before.to_timestamp(shown).ok()?.checked_add(Span::new().seconds(1)).ok()?;
                self.zone.preceding(past).next().map(|change| change.timestamp())
            }
        }
    }

    /// The next matching wall clock time.
    fn match_after(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        self.pattern.find_next_occurrence(&from, inclusive).ok()
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Cron {}

impl TryFrom<StoredCron> for Cron {
    type Error = CronError;

    fn try_from(written: StoredCron) -> Result<Self, CronError> {
        Self::new(&written.expression, &written.zone)
    }
}

impl From<Cron> for StoredCron {
    fn from(cron: Cron) -> Self {
        cron.written
    }
}

fn pattern(expression: &str) -> Result<croner::Cron, CronError> {
    let wrong = |why: String| {
        let shown = shown(expression);
        CronError::Expression(format!(
            "'{shown}' {why}; a cron expression is five fields (minute hour day month weekday, as in '30 9 * * MON-FRI'), \
             six with seconds first, or one of @yearly, @monthly, @weekly, @daily, @hourly"
        ))
    };
    if expression.len() > EXPRESSION_BYTES {
        return Err(wrong(format!("is longer than {EXPRESSION_BYTES} bytes")));
    }
    let fields = expression.split_whitespace().count();
    let is_word = expression.trim_start().starts_with('@') && fields == 1;
    if !is_word && !(5..=6).contains(&fields) {
        return Err(wrong(format!("has {fields} field{}", if fields == 1 { "" } else { "s" })));
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    parser.parse(expression).map_err(|error| wrong(format!("cannot be read ({error})")))
}

fn named(zone: &str) -> Result<TimeZone, CronError> {
    zones::zone(zone).ok_or_else(|| CronError::Zone { name: shown(zone), hint: hint(zone, zones::names()) })
}

fn shown(text: &str) -> String {
    text.chars().take(WORD_CHARS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The instants after `from` as wall clock times with their offsets.
    fn runs(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let cron = Cron::new(expression, zone).unwrap();
        let mut at = u64::try_from(from.parse::<Timestamp>().unwrap().as_millisecond()).unwrap();
        let mut seen = Vec::new();
        for _ in 0..count {
            at = cron.next_after(at).unwrap();
            let shown =
                Timestamp::from_millisecond(at.try_into().unwrap()).unwrap().to_zoned(cron.zone.clone());
            seen.push(shown.strftime("%m-%d %H:%M %:z").to_string());
        }
        seen
    }

    #[test]
    fn a_skipped_local_time_runs_once_right_after_the_gap() {
        for (zone, from, expression, expected) in [
            (
                "Europe/Berlin",
                "2027-03-27T00:00:00Z",
                "30 2 * * *",
                ["03-27 02:30 +01:00", "03-28 03:00 +02:00", "03-29 02:30 +02:00"],
            ),
            (
                "Europe/Berlin",
                "2027-03-27T22:00:00Z",
                "0 2,3 * * *",
                ["03-28 03:00 +02:00", "03-29 02:00 +02:00", "03-29 03:00 +02:00"],
            ),
            (
                "Europe/Berlin",
                "2027-03-28T00:00:00Z",
                "*/20 2 * * *",
                ["03-28 03:00 +02:00", "03-29 02:00 +02:00", "03-29 02:20 +02:00"],
            ),
            (
                "America/New_York",
                "2027-03-13T12:00:00Z",
                "15 2 * * *",
                ["03-14 03:00 -04:00", "03-15 02:15 -04:00", "03-16 02:15 -04:00"],
            ),
            (
                "Australia/Lord_Howe",
                "2027-10-02T00:00:00Z",
                "15 2 * * *",
                ["10-03 02:30 +11:00", "10-04 02:15 +11:00", "10-05 02:15 +11:00"],
            ),
            (
                "Pacific/Apia",
                "2011-12-29T00:00:00Z",
                "0 12 * * *",
                ["12-29 12:00 -10:00", "12-31 00:00 +14:00", "12-31 12:00 +14:00"],
            ),
            (
                "Asia/Beirut",
                "2027-03-27T00:00:00Z",
                "0 0 * * *",
                ["03-28 01:00 +03:00", "03-29 00:00 +03:00", "03-30 00:00 +03:00"],
            ),
        ] {
            assert_eq!(runs(expression, zone, from, 3), expected, "{expression} in {zone}");
        }
    }

    #[test]
    fn a_repeated_local_time_runs_only_the_first_time() {
        for (zone, from, expression, expected) in [
            (
                "Europe/Berlin",
                "2027-10-30T12:00:00Z",
                "30 2 * * *",
                ["10-31 02:30 +02:00", "11-01 02:30 +01:00"],
            ),
            (
                "Europe/Berlin",
                "2027-10-31T00:45:00Z",
                "30 2 * * *",
                ["11-01 02:30 +01:00", "11-02 02:30 +01:00"],
            ),
            (
                "Europe/Berlin",
                "2027-10-31T01:15:00Z",
                "30 2 * * *",
                ["11-01 02:30 +01:00", "11-02 02:30 +01:00"],
            ),
            (
                "America/New_York",
                "2027-11-06T12:00:00Z",
                "59 1 * * *",
                ["11-07 01:59 -04:00", "11-08 01:59 -05:00"],
            ),
            (
                "Australia/Lord_Howe",
                "2027-04-03T12:00:00Z",
                "45 1 * * *",
                ["04-04 01:45 +11:00", "04-05 01:45 +10:30"],
            ),
        ] {
            assert_eq!(runs(expression, zone, from, 2), expected, "{expression} in {zone} from {from}");
        }
    }

    #[test]
    fn hourly_and_minutely_schedules_follow_elapsed_time_at_clock_changes() {
        assert_eq!(
            runs("0 * * * *", "Europe/Berlin", "2027-10-30T23:30:00Z", 4),
            ["10-31 02:00 +02:00", "10-31 02:00 +01:00", "10-31 03:00 +01:00", "10-31 04:00 +01:00"]
        );
        assert_eq!(
            runs("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:15:00Z", 3),
            ["03-28 01:30 +01:00", "03-28 03:00 +02:00", "03-28 03:30 +02:00"]
        );
        assert_eq!(
            runs("* * * * *", "Australia/Lord_Howe", "2027-04-03T14:58:30Z", 3),
            ["04-04 01:59 +11:00", "04-04 01:30 +10:30", "04-04 01:31 +10:30"]
        );
        assert_eq!(
            runs("@hourly", "Pacific/Apia", "2011-12-30T08:30:00Z", 3),
            ["12-29 23:00 -10:00", "12-31 00:00 +14:00", "12-31 01:00 +14:00"]
        );
    }

    #[test]
    fn common_cron_forms_are_parsed() {
        let from = "2027-01-01T00:00:00Z";
        assert_eq!(runs("0 9 * JAN MON-FRI", "UTC", from, 2), ["01-01 09:00 +00:00", "01-04 09:00 +00:00"]);
        assert_eq!(runs("@weekly", "UTC", from, 1), ["01-03 00:00 +00:00"]);
        assert_eq!(runs("0 0 29 2 *", "UTC", from, 1), ["02-29 00:00 +00:00"]);
        assert_eq!(runs("0 0 L * *", "UTC", "2027-11-30T12:00:00Z", 1), ["12-31 00:00 +00:00"]);
        assert_eq!(runs("* * 29 2 MON#5", "Africa/Casablanca", from, 1), ["02-29 00:00 +00:00"]);
        assert_eq!(runs("59 59 23 31 12 *", "UTC", from, 1), ["12-31 23:59 +00:00"]);
        let cron = Cron::new(" @daily ", "europe/berlin").unwrap();
        assert_eq!((cron.expression(), cron.zone()), ("@daily", "Europe/Berlin"));
        let stored = serde_json::to_string(&cron).unwrap();
        assert_eq!(serde_json::from_str::<Cron>(&stored).unwrap(), cron);
    }

    #[test]
    fn an_invalid_cron_expression_or_zone_is_explained() {
        let says = |expression: &str, zone: &str| Cron::new(expression, zone).unwrap_err().to_string();
        assert!(says("* * * *", "UTC").contains("has 4 fields"));
        assert!(says("* * * * * * 2027", "UTC").contains("has 7 fields"));
        assert!(says("61 * * * *", "UTC").contains("cannot be read"));
        assert!(says("@reboot", "UTC").contains("'@reboot'"));
        assert!(says("", "UTC").contains("has 0 fields"));
        assert!(says(&"*".repeat(300), "UTC").contains("longer than"));
        assert!(says("@daily", "Europe/Berln").contains("did you mean 'Europe/Berlin'"));
        assert!(says("@daily", "../../etc/passwd").contains("no time zone"));
    }

    #[test]
    fn an_expression_that_never_matches_has_no_next_occurrence() {
        assert_eq!(Cron::new("0 0 30 2 *", "UTC").unwrap().next_after(0), None);
        assert_eq!(Cron::new("* * 31 4,6,9,11 *", "UTC").unwrap().next_after(1_800_000_000_000), None);
        assert_eq!(Cron::new("* * * * *", "UTC").unwrap().next_after(u64::MAX), None);
    }

    fn expressions() -> impl Strategy<Value = (String, &'static str)> {
        let minute = prop_oneof![
            Just("*".to_owned()),
            (0..60_u32).prop_map(|m| m.to_string()),
            Just("*/7".to_owned())
        ];
        let hour = prop_oneof![
            Just("*".to_owned()),
            (0..24_u32).prop_map(|h| h.to_string()),
            Just("1-3".to_owned())
        ];
        let day = prop_oneof![Just("*"), Just("1"), Just("L")];
        let zones = prop_oneof![
            Just("Europe/Berlin"),
            Just("America/New_York"),
            Just("Australia/Lord_Howe"),
            Just("Pacific/Apia"),
            Just("America/Sao_Paulo"),
            Just("UTC")
        ];
        (minute, hour, day, zones).prop_map(|(m, h, d, zone)| (format!("{m} {h} {d} * *"), zone))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_next_occurrence_is_later_monotone_and_the_earliest(
            (expression, zone) in expressions(), from in 1_200_000_000_000..2_200_000_000_000_u64, more in 0..200_000_000_u64,
        ) {
            let cron = Cron::new(&expression, zone).unwrap();
            let next = cron.next_after(from).unwrap();
            prop_assert!(next > from, "{} in {}", expression, zone);
            let later = cron.next_after(from + more).unwrap();
            prop_assert!(later >= next);
            prop_assert_eq!(later == next, from + more < next, "nothing lies between, nothing is passed over");
        }

        #[test]
        fn no_text_makes_the_cron_parser_panic(expression in any::<String>(), zone in any::<String>()) {
            drop(Cron::new(&expression, "UTC").map(|cron| cron.next_after(1_800_000_000_000)));
            drop(Cron::new("@daily", &zone));
        }

        #[test]
        fn no_cron_like_text_makes_the_parser_panic(expression in "[0-9*/,#LW-]{1,6}( [0-9*/,#LW-]{1,6}){4,5}") {
            drop(Cron::new(&expression, "Europe/Berlin").map(|cron| cron.next_after(1_800_000_000_000)));
        }
    }
}
