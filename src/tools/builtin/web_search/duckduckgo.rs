//! Reads `DuckDuckGo`'s pages without scripts. Advertisements are left out, and a page that asks for a human
//! is an error.

use super::query::{WebSearchQuery, WebSearchResult};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::web::page::{HtmlNodeId, HtmlTree};
use crate::tools::web::service::{ServiceRequest, ask_service, service_url};
use url::Url;

const OWN: &str = "https://html.duckduckgo.com";

pub(super) fn ask(
    web: &dyn Web,
    search: WebSearchQuery<'_>,
    cancel: &CancelToken,
) -> Result<Vec<WebSearchResult>, ToolError> {
    let mut url = service_url(search.base(OWN), "/html/")?;
    url.query_pairs_mut().append_pair("q", search.query);
    if let Some(region) = &search.options.region {
        url.query_pairs_mut().append_pair("kl", region);
    }
    let mut request = ServiceRequest::get(url, "DuckDuckGo", search.options.timeout_s);
    request.headers.push(("accept".to_owned(), "text/html".to_owned()));
    let answer = ask_service(web, request, cancel)?;
    read(&String::from_utf8_lossy(&answer.body))
}

/// The results of a page. A page without results that does not say so is an error.
pub(super) fn read(html: &str) -> Result<Vec<WebSearchResult>, ToolError> {
    let tree = HtmlTree::parse(html);
    let all = || tree.within(HtmlTree::ROOT);
    let results: Vec<HtmlNodeId> = all().filter(|id| tree.has_class(*id, "result")).collect();
    let found: Vec<WebSearchResult> = results.iter().filter_map(|id| result(&tree, *id)).collect();
    if !found.is_empty() || !results.is_empty() || all().any(|id| tree.has_class(id, "no-results")) {
        return Ok(found);
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
    let url = Url::parse(OWN).ok()?.join(href.trim()).ok()?;
    let own =
        url.host_str().is_some_and(|host| host == "duckduckgo.com" || host.ends_with(".duckduckgo.com"));
    let url = if own && url.path().starts_with("/l/") {
        let (_, target) = url.query_pairs().find(|(name, _)| name == "uddg")?;
        Url::parse(&target).ok()?
    } else if own && url.path() == "/y.js" {
        return None;
    } else {
        url
    };
    let is_ad = url.host_str().is_some_and(|host| host.ends_with("duckduckgo.com")) && url.path() == "/y.js";
    (matches!(url.scheme(), "http" | "https") && !is_ad).then(|| url.into())
}
