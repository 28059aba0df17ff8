//! Tavily's search API.

use super::query::{WebSearchQuery, WebSearchResult, listed};
use crate::ports::{CancelToken, ToolError, Web, WebMethod};
use crate::tools::web::service::{ServiceRequest, ask_json, service_url};
use serde_json::{Value, json};

pub(super) fn ask(web: &dyn Web, search: WebSearchQuery<'_>, cancel: &CancelToken) -> Result<Vec<WebSearchResult>, ToolError> {
    let url = service_url(search.base("https://api.tavily.com"), "/search")?;
    let body = json!({"query": search.query, "max_results": search.max_results}).to_string();
    let question = ServiceRequest {
        method: WebMethod::Post("application/json".to_owned(), body.into_bytes()),
        headers: vec![("authorization".to_owned(), format!("Bearer {}", search.key()))],
        ..ServiceRequest::plain(url, "Tavily", search.options.timeout_s)
    };
    Ok(read(&ask_json(web, question, cancel)?))
}

pub(super) fn read(answer: &Value) -> Vec<WebSearchResult> {
    listed(answer.get("results").unwrap_or(&Value::Null), "content")
}
