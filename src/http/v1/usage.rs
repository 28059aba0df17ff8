//! `GET /v1/usage`: tokens by day and model, or by user or conversation ([`super::usage_groups`]), of at most
//! 366 days (UTC); or by model of one conversation.

use super::page::ListResponse;
use super::usage_groups::{self, UsageGrouping};
use crate::domain::id::ConversationId;
use crate::domain::usage::{Usage, UsageByModel};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult};
use crate::ports::{ACCOUNT_DAY_MS, DayUsage};
use hyper::StatusCode;
use jiff::civil::Date;
use jiff::{Span, Unit};
use serde::Serialize;
use std::sync::Arc;

/// Days of an answer when the query names none, today included.
const DAYS: u32 = 30;
/// Most days of one answer.
const DAYS_MAX: u32 = 366;
const EPOCH: Date = Date::constant(1970, 1, 1);
const CONVERSATION: &str = "conversation_id";
const GROUP_BY: &str = "group_by";

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct UsageResponse {
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    model: String,
    #[serde(flatten)]
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
}

impl UsageResponse {
    fn of(line: DayUsage) -> Option<Self> {
        let DayUsage { day, model, usage, jobs } = line;
        let date = EPOCH.checked_add(Span::new().try_days(day).ok()?).ok()?.to_string();
        Some(Self { object: "usage", date: Some(date), model, usage, jobs: Some(jobs) })
    }

    fn of_conversation(ledger: &UsageByModel) -> Vec<Self> {
        let line = |(model, usage): (&str, Usage)| Self {
            object: "usage",
            date: None,
            model: model.to_owned(),
            usage,
            jobs: None,
        };
        ledger.entries().map(line).collect()
    }
}

pub(crate) async fn usage(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let (accounts, user) = (Arc::clone(&context.app.accounts), request.user);
    let grouping = query.text(GROUP_BY).map(UsageGrouping::parse).transpose()?;
    if let Some(name) = query.text(CONVERSATION) {
        let id = conversation(query, name)?;
        let ledger = context.read(user, move |_| accounts.conversation_usage(user, &id)).await?;
        let lines = UsageResponse::of_conversation(&ledger);
        return Ok(response::json(StatusCode::OK, &ListResponse::<_, String>::new(lines, None)));
    }
    let today = u32::try_from(context.app.clock.now_ms() / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
    let (from, to) = days(query, today)?;
    if let Some(grouping) = grouping {
        return usage_groups::list(context, request.caller, grouping, (from, to)).await;
    }
    let lines = context.read(user, move |_| accounts.usage(user, from, to)).await?;
    let data: Vec<UsageResponse> = lines.into_iter().filter_map(UsageResponse::of).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::<_, String>::new(data, None)))
}

/// The conversation of the query. Its usage has no days.
fn conversation(query: &QueryString, name: &str) -> Result<ConversationId, ApiError> {
    if let Some(day) = ["from", "to", GROUP_BY].into_iter().find(|day| query.text(day).is_some()) {
        let message = format!("'{day}' does not go with '{CONVERSATION}': a conversation is told as a whole");
        return Err(ApiError::value(day, message));
    }
    ConversationId::try_from(name.to_owned())
        .map_err(|rule| ApiError::value(CONVERSATION, format!("'{CONVERSATION}' {rule}")))
}

/// The first and the last day, both included.
fn days(query: &QueryString, today: u32) -> Result<(u32, u32), ApiError> {
    let asked = |name| query.text(name).map(|text| day(name, text)).transpose();
    let (from, to) = (asked("from")?, asked("to")?);
    let to = to.unwrap_or(today.max(from.unwrap_or_default()));
    let from = from.unwrap_or(to.saturating_sub(DAYS.saturating_sub(1)));
    if from > to {
        return Err(ApiError::value("from", "'from' must not lie behind 'to'"));
    }
    if to.saturating_sub(from) >= DAYS_MAX {
        return Err(ApiError::value("from", format!("'from' and 'to' may span {DAYS_MAX} days at most")));
    }
    Ok((from, to))
}

/// Days since 1970.
fn day(name: &str, text: &str) -> Result<u32, ApiError> {
    // Other spellings of a date are refused.
    let date = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
    let days = date.and_then(|date| EPOCH.until((Unit::Day, date)).ok());
    days.and_then(|days| u32::try_from(days.get_days()).ok()).ok_or_else(|| {
        ApiError::value(
            name,
            format!("'{name}' must be a date since 1970 as YYYY-MM-DD, not {}", quoted(text)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: u32 = 20_000;

    fn asked(query: &str) -> Result<(u32, u32), String> {
        let query = QueryString::parse(Some(query), &["from", "to"]).expect("a query");
        days(&query, TODAY).map_err(|error| error.to_string())
    }

    #[test]
    fn the_usage_range_defaults_to_the_last_thirty_days() {
        for (query, expected) in [
            ("", (TODAY - 29, TODAY)),
            ("from=1970-01-01&to=1970-01-01", (0, 0)),
            ("from=2024-01-01&to=2024-12-31", (19_723, 20_088)),
            ("to=1970-02-15", (16, 45)),
            ("to=1970-01-03", (0, 2)),
            ("from=2024-10-01", (19_997, TODAY)),
            ("from=2024-10-10", (20_006, 20_006)),
        ] {
            assert_eq!(asked(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn p8_invalid_usage_ranges_name_their_parameter() {
        for (query, named) in [
            ("from=yesterday", "'from'"),
            ("to=2024-02-30", "'to'"),
            ("from=2024-1-1", "'from'"),
            ("to=20240101", "'to'"),
            ("to=2024-01-01T00:00", "'to'"),
            ("from=", "'from'"),
            ("from=1969-12-31", "'from'"),
            ("to=-000001-01-01", "'to'"),
            ("from=2024-01-02&to=2024-01-01", "'from'"),
            ("from=2024-01-01&to=2025-01-01", "366"),
        ] {
            let error = asked(query).expect_err(query);
            assert!(error.contains(named), "{query}: {error}");
        }
    }
}
