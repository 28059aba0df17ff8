//! Reads `DuckDuckGo`'s pages without scripts. Advertisements are left out, and a page that asks for a human
//! is an error.

use super::query::{WebSearchQuery, WebSearchResult};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::web::page::{HtmlNodeId, HtmlTree};
use crate::tools::web::service::{ServiceRequest, send_to_service, service_url};
use crate::tools::web::visit::parse_permit;
use url::Url;

const DEFAULT_BASE: &str = "https://html.duckduckgo.com";

pub(super) fn search(
    web: &dyn Web,
    query: WebSearchQuery<'_>,
    cancel: &CancelToken,
) -> Result<Vec<WebSearchResult>, ToolError> {
    let mut url = service_url(query.base(DEFAULT_BASE), "/html/")?;
    url.query_pairs_mut().append_pair("q", query.query);
    if let Some(region) = &query.options.region {
        url.query_pairs_mut().append_pair("kl", region);
    }
    let mut request = ServiceRequest::get(url, "DuckDuckGo", query.options.timeout_s);
    request.headers.push(("accept".to_owned(), "text/html".to_owned()));
    let response = send_to_service(web, request, cancel)?;
    let _permit = parse_permit(cancel)?;
    read(&String::from_utf8_lossy(&response.body))
}

/// The results of a page. A page without results that does not say so is an error.
pub(super) fn read(html: &str) -> Result<Vec<WebSearchResult>, ToolError> {
    let tree = HtmlTree::parse(html);
    let all = || tree.within(HtmlTree::ROOT);
    let results: Vec<HtmlNodeId> = all().filter(|id| tree.has_class(*id, "result")).collect();
    let parsed: Vec<WebSearchResult> = results.iter().filter_map(|id| result(&tree, *id)).collect();
    if !parsed.is_empty() || !results.is_empty() || all().any(|id| tree.has_class(id, "no-results")) {
        return Ok(parsed);
    }
    if html.contains("anomaly") || html.contains("captcha") || html.contains("bots use DuckDuckGo") {
        return Err(ToolError::failed(
            "DuckDuckGo takes this server for a robot and gives no results: try later, or ask the operator for another \
             web_search.provider",
        ));
    }
    Err(ToolError::failed("DuckDuckGo answers with a page that is no list of results"))
}

fn result(tree: &HtmlTree, id: HtmlNodeId) -> Option<WebSearchResult> {
    if tree.has_class(id, "result--ad") {
        return None;
    }
    let of_class = |class: &str| tree.within(id).find(|inner| tree.has_class(*inner, class));
    let title = of_class("result__a")?;
    let url = target(tree.attribute(title, "href")?)?;
    let snippet = of_class("result__snippet").map(|inner| tree.text_within(inner)).unwrap_or_default();
    Some(WebSearchResult { title: tree.text_within(title), url, snippet })
}

/// The target of a link. Results go through a redirect of `DuckDuckGo` that names the target.
fn target(href: &str) -> Option<String> {
    let url = Url::parse(DEFAULT_BASE).ok()?.join(href.trim()).ok()?;
    let is_own_host =
        url.host_str().is_some_and(|host| host == "duckduckgo.com" || host.ends_with(".duckduckgo.com"));
    let url = if is_own_host && url.path().starts_with("/l/") {
        let (_, target) = url.query_pairs().find(|(name, _)| name == "uddg")?;
        Url::parse(&target).ok()?
    } else if is_own_host && url.path() == "/y.js" {
        return None;
    } else {
        url
    };
    let is_ad = url.host_str().is_some_and(|host| host.ends_with("duckduckgo.com")) && url.path() == "/y.js";
    (matches!(url.scheme(), "http" | "https") && !is_ad).then(|| url.into())
}
