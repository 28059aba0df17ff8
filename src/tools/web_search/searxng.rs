//! An instance of `SearXNG`, in JSON.

use super::{Found, Search, listed};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::endpoint::{Question, ask_json, door};
use serde_json::Value;

pub(super) fn ask(web: &dyn Web, search: Search<'_>, cancel: &CancelToken) -> Result<Vec<Found>, ToolError> {
    // The configuration has made sure of the base.
    let mut url = door(search.base(""), "/search")?;
    url.query_pairs_mut().append_pair("q", search.query).append_pair("format", "json");
    if let Some(language) = &search.options.region {
        url.query_pairs_mut().append_pair("language", language);
    }
    let service = "SearXNG (its settings must offer the format json)";
    Ok(read(&ask_json(web, Question::plain(url, service, search.options.timeout_s), cancel)?))
}

pub(super) fn read(answer: &Value) -> Vec<Found> {
    listed(answer.get("results").unwrap_or(&Value::Null), "content")
}
