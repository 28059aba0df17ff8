//! Brave's search API.

use super::query::{WebSearchQuery, WebSearchResult, listed};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::web::service::{ServiceRequest, ask_json, service_url};
use crate::tools::web::page::HtmlTree;
use serde_json::Value;

pub(super) fn ask(web: &dyn Web, search: WebSearchQuery<'_>, cancel: &CancelToken) -> Result<Vec<WebSearchResult>, ToolError> {
    let mut url = service_url(search.base("https://api.search.brave.com"), "/res/v1/web/search")?;
    url.query_pairs_mut()
        .append_pair("q", search.query)
        .append_pair("count", &search.max_results.to_string());
    if let Some((country, language)) = search.region() {
        url.query_pairs_mut()
            .append_pair("country", &country.to_ascii_uppercase())
            .append_pair("search_lang", &language.to_ascii_lowercase());
    }
    let mut question = ServiceRequest::plain(url, "Brave", search.options.timeout_s);
    question.headers.push(("accept".to_owned(), "application/json".to_owned()));
    question.headers.push(("x-subscription-token".to_owned(), search.key().to_owned()));
    Ok(read(&ask_json(web, question, cancel)?))
}

/// Titles and descriptions have words in bold.
pub(super) fn read(answer: &Value) -> Vec<WebSearchResult> {
    let plain = |html: &str| HtmlTree::parse(html).text_within(HtmlTree::ROOT);
    let found = listed(answer.pointer("/web/results").unwrap_or(&Value::Null), "description");
    let plain = |found: WebSearchResult| WebSearchResult { title: plain(&found.title), snippet: plain(&found.snippet), ..found };
    found.into_iter().map(plain).collect()
}
