//! Sums hours of usage into days of a time zone, with zeros where nothing was used. Accounts count whole
//! UTC hours: in a zone that is off by half an hour, an hour counts for the day in which it begins.

use crate::domain::usage::Usage;
use crate::ports::{ACCOUNT_HOUR_MS, HourUsage};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Seconds of an hour.
const HOUR_S: i64 = 3_600;
/// Hours of the wall clock.
const HOURS: i8 = 24;

/// How far back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportPeriod {
    /// Today.
    Daily,
    /// The last 7 days, today included.
    Weekly,
    /// The last 30.
    Monthly,
}

impl ReportPeriod {
    fn word(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    fn days(self) -> i32 {
        match self {
            Self::Daily => 1,
            Self::Weekly => 7,
            Self::Monthly => 30,
        }
    }
}

/// Days of a zone, the last one being today.
#[derive(Debug)]
pub(crate) struct ReportSpan {
    period: ReportPeriod,
    zone: TimeZone,
    /// All days, oldest first.
    days: Vec<Date>,
    first_ms: u64,
    last_ms: u64,
}

/// Tokens, as the front end calls them inside a list.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TokenCount"))]
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct TokenCount {
    prompt: u64,
    completion: u64,
    total: u64,
}

/// The answer.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TokenReport"))]
#[derive(Debug, Serialize)]
pub(crate) struct TokenReportResponse {
    period: &'static str,
    #[serde(flatten)]
    dates: ReportDates,
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(flatten)]
    course: ReportSeries,
    by_model: BTreeMap<String, TokenCount>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TokenReportDates"))]
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReportDates {
    One { date: String },
    Many { start_date: String, end_date: String },
}

/// In the order of time, with zeros.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TokenReportCourse"))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReportSeries {
    Hourly(Map<String, Value>),
    Daily(Map<String, Value>),
}

impl TokenCount {
    fn add(&mut self, usage: Usage) {
        self.prompt = self.prompt.saturating_add(usage.prompt_tokens);
        self.completion = self.completion.saturating_add(usage.completion_tokens);
        self.total = self.total.saturating_add(usage.total_tokens);
    }
}

impl ReportSpan {
    /// The days up to this moment; `None` where the calendar has none.
    pub(crate) fn until(period: ReportPeriod, zone: TimeZone, now_ms: u64) -> Option<Self> {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let today = now.to_zoned(zone.clone()).date();
        let day = |ago: i32| today.checked_sub(ago.days()).ok();
        let days: Vec<Date> = (0..period.days()).rev().map(day).collect::<Option<_>>()?;
        let begin = |date: Date| date.to_zoned(zone.clone()).ok().map(|day| millis(&day));
        let first_ms = begin(*days.first()?)?;
        let last_ms = begin(today.tomorrow().ok()?)?;
        Some(Self { period, zone, days, first_ms, last_ms })
    }

    /// The first and last hour of the accounts in these days.
    pub(crate) fn hours(&self) -> (u32, u32) {
        let hour = |ms: u64| u32::try_from(ms / ACCOUNT_HOUR_MS).unwrap_or(u32::MAX);
        (hour(self.first_ms), hour(self.last_ms))
    }

    pub(crate) fn report(self, lines: Vec<HourUsage>) -> TokenReportResponse {
        let (mut all, mut by_model) = (TokenCount::default(), BTreeMap::<String, TokenCount>::new());
        let mut by_day: BTreeMap<Date, TokenCount> =
            self.days.iter().map(|day| (*day, TokenCount::default())).collect();
        let mut by_hour: BTreeMap<i8, TokenCount> =
            (0..HOURS).map(|hour| (hour, TokenCount::default())).collect();
        for HourUsage { hour, model, usage } in lines {
            let Ok(begins) = Timestamp::from_second(i64::from(hour).saturating_mul(HOUR_S)) else { continue };
            let begins = begins.to_zoned(self.zone.clone());
            let Some(day) = by_day.get_mut(&begins.date()) else { continue };
            day.add(usage);
            by_hour.entry(begins.hour()).or_default().add(usage);
            by_model.entry(model).or_default().add(usage);
            all.add(usage);
        }
        TokenReportResponse {
            period: self.period.word(),
            dates: self.dates(),
            prompt_tokens: all.prompt,
            completion_tokens: all.completion,
            total_tokens: all.total,
            course: match self.period {
                ReportPeriod::Daily => ReportSeries::Hourly(
                    by_hour
                        .iter()
                        .map(|(hour, sum)| (hour.to_string(), json!({"total": sum.total})))
                        .collect(),
                ),
                _ => ReportSeries::Daily(
                    by_day.iter().map(|(day, sum)| (day.to_string(), json!(sum))).collect(),
                ),
            },
            by_model,
        }
    }

    fn dates(&self) -> ReportDates {
        let text = |date: Option<&Date>| date.map(Date::to_string).unwrap_or_default();
        match self.period {
            ReportPeriod::Daily => ReportDates::One { date: text(self.days.last()) },
            _ => ReportDates::Many { start_date: text(self.days.first()), end_date: text(self.days.last()) },
        }
    }
}

fn millis(at: &Zoned) -> u64 {
    u64::try_from(at.timestamp().as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 29th of March 2026, 12:00 UTC: in Berlin the clock has been put forward that night.
    const NOW_MS: u64 = 1_774_785_600_000;

    fn hour(text: &str) -> u32 {
        let at: Timestamp = text.parse().expect("a time");
        u32::try_from(at.as_second() / HOUR_S).expect("an hour")
    }

    fn line(at: &str, model: &str, prompt: u64) -> HourUsage {
        HourUsage { hour: hour(at), model: model.to_owned(), usage: Usage::new(prompt, 1) }
    }

    fn report(period: ReportPeriod, zone: &str, lines: &[HourUsage]) -> Value {
        let zone = crate::domain::timing::zone(zone).expect("a zone");
        let span = ReportSpan::until(period, zone, NOW_MS).expect("a span");
        let (from, to) = span.hours();
        let known = lines.iter().filter(|line| (from..=to).contains(&line.hour)).cloned().collect();
        serde_json::to_value(span.report(known)).expect("JSON")
    }

    #[test]
    fn a_daily_report_has_24_hours_and_totals_by_model() {
        let lines = [
            line("2026-03-28T23:00:00Z", "b", 100),
            line("2026-03-29T00:00:00Z", "a", 1),
            line("2026-03-29T01:00:00Z", "a", 2),
            line("2026-03-29T22:00:00Z", "a", 1_000),
        ];
        let utc = report(ReportPeriod::Daily, "UTC", &lines);
        assert_eq!((&utc["period"], &utc["date"]), (&json!("daily"), &json!("2026-03-29")));
        let hourly = utc["hourly"].as_object().expect("hours");
        let names: Vec<String> = hourly.keys().cloned().collect();
        assert_eq!(names, (0..24).map(|hour| hour.to_string()).collect::<Vec<_>>());
        let totals = |report: &Value, hours: &[&str]| -> Vec<u64> {
            hours.iter().map(|hour| report["hourly"][hour]["total"].as_u64().expect("a number")).collect()
        };
        assert_eq!(totals(&utc, &["0", "1", "2", "22", "23"]), [2, 3, 0, 1_001, 0]);
        assert_eq!(utc["by_model"], json!({"a": {"prompt": 1_003, "completion": 3, "total": 1_006}}));
        let sums = (&utc["prompt_tokens"], &utc["completion_tokens"], &utc["total_tokens"]);
        assert_eq!(sums, (&json!(1_003), &json!(3), &json!(1_006)));
        let berlin = report(ReportPeriod::Daily, "Europe/Berlin", &lines);
        assert_eq!(totals(&berlin, &["0", "1", "2", "3"]), [101, 2, 0, 3], "two o'clock was skipped");
        assert_eq!(berlin["total_tokens"], 106, "22:00 UTC is tomorrow");
    }

    #[test]
    fn weekly_and_monthly_reports_fill_empty_days_with_zeros() {
        let lines = [
            line("2026-02-27T23:00:00Z", "a", 7),
            line("2026-02-28T00:00:00Z", "a", 5),
            line("2026-03-22T23:30:00Z", "a", 1),
            line("2026-03-29T12:00:00Z", "b", 2),
        ];
        let week = report(ReportPeriod::Weekly, "UTC", &lines);
        assert_eq!((&week["start_date"], &week["end_date"]), (&json!("2026-03-23"), &json!("2026-03-29")));
        assert_eq!(week["daily"].as_object().expect("days").len(), 7);
        assert_eq!(week["daily"]["2026-03-29"], json!({"prompt": 2, "completion": 1, "total": 3}));
        assert_eq!(week["daily"]["2026-03-24"], json!({"prompt": 0, "completion": 0, "total": 0}));
        assert_eq!(week["total_tokens"], 3, "the day before the first one is not told");
        let berlin = report(ReportPeriod::Weekly, "Europe/Berlin", &lines);
        assert_eq!(berlin["total_tokens"], 5, "in Berlin it was the 23rd already");
        let month = report(ReportPeriod::Monthly, "UTC", &lines);
        assert_eq!((&month["start_date"], &month["prompt_tokens"]), (&json!("2026-02-28"), &json!(8)));
        assert_eq!(month["daily"].as_object().expect("days").len(), 30);
        assert!(month.get("hourly").is_none() && month.get("date").is_none());
    }

    #[test]
    fn in_a_half_hour_zone_usage_counts_in_the_hour_it_starts() {
        // 18:30 UTC is midnight in Kolkata.
        let lines = [line("2026-03-28T18:00:00Z", "a", 10), line("2026-03-28T19:00:00Z", "a", 1)];
        let day = report(ReportPeriod::Daily, "Asia/Kolkata", &lines);
        assert_eq!((&day["prompt_tokens"], &day["hourly"]["0"]["total"]), (&json!(1), &json!(2)));
    }

    #[test]
    fn no_clock_value_makes_a_report_panic() {
        for now_ms in [0, 1, u64::MAX, 253_402_300_799_000] {
            drop(
                ReportSpan::until(ReportPeriod::Monthly, TimeZone::UTC, now_ms)
                    .map(|span| span.report(Vec::new())),
            );
        }
    }
}
