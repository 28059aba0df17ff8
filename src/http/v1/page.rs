//! Pages of `/v1` lists (DESIGN §3): `?limit=`, `?cursor=` and the object around a page.

use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use serde::Serialize;
use std::str::FromStr;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ListResponse<T, C> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    next_cursor: Option<C>,
}

impl<T, C> ListResponse<T, C> {
    /// The page; `next_cursor` where another one follows.
    pub(crate) fn new(data: Vec<T>, next_cursor: Option<C>) -> Self {
        Self { object: "list", data, has_more: next_cursor.is_some(), next_cursor }
    }

    /// A list without a cursor; `has_more` says that it was cut.
    pub(crate) fn cut(data: Vec<T>, has_more: bool) -> Self {
        Self { object: "list", data, has_more, next_cursor: None }
    }
}

/// The page size that the query asks for.
pub(crate) fn limit(query: &QueryString, limits: &Limits) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=limits.page_max as u64)?;
    Ok(asked.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(limits.page))
}

/// The cursor: `next_cursor` of the page before.
pub(crate) fn cursor<C: FromStr>(query: &QueryString) -> Result<Option<C>, ApiError> {
    let Some(text) = query.text("cursor") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ApiError::value("cursor", format!("'cursor' must be the next_cursor of a page, not {}", quoted(text)))
    })
}

/// The order that `?order=` asks for: newest first, unless it is `asc`.
pub(crate) fn is_newest_first(query: &QueryString) -> Result<bool, ApiError> {
    match query.text("order") {
        None | Some("desc") => Ok(true),
        Some("asc") => Ok(false),
        Some(other) => {
            Err(ApiError::value("order", format!("'order' must be asc or desc, not {}", quoted(other))))
        }
    }
}
