//! Pages of items: of a response's input, and of a conversation.

use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use serde_json::{Value, json};

/// Items on a page, unless asked for otherwise, and at most.
const ITEMS: u64 = 20;
const ITEMS_MAX: u64 = 100;

/// The page size that the query asks for.
pub(super) fn limit(query: &QueryString) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=ITEMS_MAX)?.unwrap_or(ITEMS);
    Ok(usize::try_from(asked).unwrap_or(usize::MAX))
}

/// The list object of the first items; more than `limit` of them say that more follow.
pub(super) fn page(mut items: Vec<Value>, limit: usize) -> Value {
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned();
    let (first, last) = (id(items.first()), id(items.last()));
    json!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more})
}
