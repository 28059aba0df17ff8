//! An instance of `SearXNG`, in JSON.

use super::query::{WebSearchQuery, WebSearchResult, listed};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::web::service::{ServiceRequest, ask_json, service_url};
use serde_json::Value;

pub(super) fn ask(web: &dyn Web, search: WebSearchQuery<'_>, cancel: &CancelToken) -> Result<Vec<WebSearchResult>, ToolError> {
    // The configuration has made sure of the base.
    let mut url = service_url(search.base(""), "/search")?;
    url.query_pairs_mut().append_pair("q", search.query).append_pair("format", "json");
    if let Some(language) = &search.options.region {
        url.query_pairs_mut().append_pair("language", language);
    }
    let service = "SearXNG (its settings must offer the format json)";
    Ok(read(&ask_json(web, ServiceRequest::plain(url, service, search.options.timeout_s), cancel)?))
}

pub(super) fn read(answer: &Value) -> Vec<WebSearchResult> {
    listed(answer.get("results").unwrap_or(&Value::Null), "content")
}
