//! The shape of every success of `/api`: `{"code":0,"data":…}` or `{"code":0,"message":…}`, always 200;
//! pages; and times. Failures are built in [`crate::http::response::error`].

use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use crate::http::response::{self, HttpResponse};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

/// `YYYY-MM-DDTHH:MM:SSZ`.
pub(crate) fn date(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_second_precision() {
        assert_eq!(date(1_700_000_000_999), "2023-11-14T22:13:20Z");
        assert!(date(u64::MAX).starts_with("9999-"));
    }
}

/// A success with data.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DataResponse<T> {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    data: T,
}

impl<T> DataResponse<T> {
    /// With this data.
    pub(crate) fn of(data: T) -> Self {
        Self { code: 0, data }
    }
}

/// A success without data.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiDone"))]
#[derive(Serialize)]
pub(crate) struct DoneResponse {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    message: &'static str,
}

pub(crate) fn data<T: Serialize>(data: T) -> HttpResponse {
    response::json(StatusCode::OK, &DataResponse::of(data))
}

/// Answers with one word, such as `deleted`.
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
    /// The total number, where a list reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl<T> PageResponse<T> {
    /// The page; `next_cursor` where another one follows.
    pub(crate) fn new(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, has_more: next_cursor.is_some(), next_cursor, total: None }
    }

    /// Adds the total number.
    pub(crate) fn of(self, total: u64) -> Self {
        Self { total: Some(total), ..self }
    }
}

/// The page size of the query, else `usual`.
pub(crate) fn limit(query: &QueryString, usual: usize, limits: &Limits) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=limits.page_max as u64)?;
    Ok(asked.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usual.min(limits.page_max)))
}
