//! The search APIs that answer in JSON: Brave, `SearXNG` and Tavily.

use super::query::{WebSearchQuery, WebSearchResult};
use crate::ports::{CancelToken, ToolError, Web, WebMethod};
use crate::tools::web::page::HtmlTree;
use crate::tools::web::service::{ServiceRequest, request_json, service_url};
use serde_json::{Value, json};

type WebSearchResults = Result<Vec<WebSearchResult>, ToolError>;

pub(super) fn search_brave(
    web: &dyn Web,
    search: WebSearchQuery<'_>,
    cancel: &CancelToken,
) -> WebSearchResults {
    let mut url = service_url(search.base("https://api.search.brave.com"), "/res/v1/web/search")?;
    url.query_pairs_mut()
        .append_pair("q", search.query)
        .append_pair("count", &search.max_results.to_string());
    if let Some((country, language)) = search.region() {
        url.query_pairs_mut()
            .append_pair("country", &country.to_ascii_uppercase())
            .append_pair("search_lang", &language.to_ascii_lowercase());
    }
    let mut request = ServiceRequest::get(url, "Brave", search.options.timeout_s);
    request.headers.push(("accept".to_owned(), "application/json".to_owned()));
    request.headers.push(("x-subscription-token".to_owned(), search.key().to_owned()));
    Ok(read_brave(&request_json(web, request, cancel)?))
}

/// Brave marks words in titles and descriptions with HTML.
pub(super) fn read_brave(response: &Value) -> Vec<WebSearchResult> {
    let without_tags = |html: &str| HtmlTree::parse(html).text_within(HtmlTree::ROOT);
    let mut results = read_list(response.pointer("/web/results"), "description");
    for result in &mut results {
        (result.title, result.snippet) = (without_tags(&result.title), without_tags(&result.snippet));
    }
    results
}

pub(super) fn search_searxng(
    web: &dyn Web,
    search: WebSearchQuery<'_>,
    cancel: &CancelToken,
) -> WebSearchResults {
    // The configuration requires the base.
    let mut url = service_url(search.base(""), "/search")?;
    url.query_pairs_mut().append_pair("q", search.query).append_pair("format", "json");
    if let Some(language) = &search.options.region {
        url.query_pairs_mut().append_pair("language", language);
    }
    let service = "SearXNG (its settings must offer the format json)";
    let response = request_json(web, ServiceRequest::get(url, service, search.options.timeout_s), cancel)?;
    Ok(read_list(response.get("results"), "content"))
}

pub(super) fn search_tavily(
    web: &dyn Web,
    search: WebSearchQuery<'_>,
    cancel: &CancelToken,
) -> WebSearchResults {
    let url = service_url(search.base("https://api.tavily.com"), "/search")?;
    let body = json!({"query": search.query, "max_results": search.max_results}).to_string();
    let request = ServiceRequest {
        method: WebMethod::Post("application/json".to_owned(), body.into_bytes()),
        headers: vec![("authorization".to_owned(), format!("Bearer {}", search.key()))],
        ..ServiceRequest::get(url, "Tavily", search.options.timeout_s)
    };
    Ok(read_list(request_json(web, request, cancel)?.get("results"), "content"))
}

/// The items of a list whose addresses can be fetched. `snippet` is the name of the field with the snippet.
pub(super) fn read_list(list: Option<&Value>, snippet: &str) -> Vec<WebSearchResult> {
    let text =
        |item: &Value, name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = items.iter().map(|item| WebSearchResult {
        title: text(item, "title"),
        url: text(item, "url"),
        snippet: text(item, snippet),
    });
    found.filter(|found| found.url.starts_with("https://") || found.url.starts_with("http://")).collect()
}
