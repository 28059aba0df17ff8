//! Pages of `/api`: `?cursor&limit` → `{"items","next_cursor","has_more"}`. Refuses to know what is listed.

use crate::domain::limits::Limits;
use crate::http::error::Error;
use crate::http::query::Query;
use serde::Serialize;

/// A page.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
    has_more: bool,
    /// How many there are altogether, where a list tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl<T> Page<T> {
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
pub(crate) fn limit(query: &Query, usual: usize, limits: &Limits) -> Result<usize, Error> {
    let asked = query.whole("limit", 1..=limits.page_max as u64)?;
    Ok(asked.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usual.min(limits.page_max)))
}
