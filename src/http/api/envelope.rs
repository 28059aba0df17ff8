//! Times as `/api` writes them: `YYYY-MM-DDTHH:MM:SSZ`.
//! What every success of `/api` looks like: `{"code":0,"data":…}` or `{"code":0,"message":…}`, always 200. Failures are
//! [`crate::http::error`]'s.
//! Pages of `/api`: `?cursor&limit` → `{"items","next_cursor","has_more"}`. Refuses to know what is listed.

use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use crate::http::response::{self, HttpResponse};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

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

/// What was asked for.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DataResponse<T> {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    data: T,
}

/// That it is done.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiDone"))]
#[derive(Serialize)]
pub(crate) struct DoneResponse {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    message: &'static str,
}

/// Answers with this.
pub(crate) fn data<T: Serialize>(data: T) -> HttpResponse {
    response::json(StatusCode::OK, &DataResponse { code: 0, data })
}

/// Answers that it is done, in a word (`deleted`).
pub(crate) fn done(message: &'static str) -> HttpResponse {
    response::json(StatusCode::OK, &DoneResponse { code: 0, message })
}

/// A page.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct PageResponse<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
    has_more: bool,
    /// How many there are altogether, where a list tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl<T> PageResponse<T> {
    /// The page; `next_cursor` where another one follows.
    pub(crate) fn new(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, has_more: next_cursor.is_some(), next_cursor, total: None }
    }

    /// The same, with how many there are.
    pub(crate) fn of(self, total: u64) -> Self {
        Self { total: Some(total), ..self }
    }
}

/// How much a page holds at most; `usual` when nobody asks.
pub(crate) fn limit(query: &QueryString, usual: usize, limits: &Limits) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=limits.page_max as u64)?;
    Ok(asked.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usual.min(limits.page_max)))
}
