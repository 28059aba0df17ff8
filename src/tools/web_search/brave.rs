//! Brave's search API.

use super::{Found, Search, listed};
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::endpoint::{Question, ask_json, door};
use crate::tools::page::Tree;
use serde_json::Value;

pub(super) fn ask(web: &dyn Web, search: Search<'_>, cancel: &CancelToken) -> Result<Vec<Found>, ToolError> {
    let mut url = door(search.base("https://api.search.brave.com"), "/res/v1/web/search")?;
    url.query_pairs_mut()
        .append_pair("q", search.query)
        .append_pair("count", &search.max_results.to_string());
    if let Some((country, language)) = search.region() {
        url.query_pairs_mut()
            .append_pair("country", &country.to_ascii_uppercase())
            .append_pair("search_lang", &language.to_ascii_lowercase());
    }
    let mut question = Question::plain(url, "Brave", search.options.timeout_s);
    question.headers.push(("accept".to_owned(), "application/json".to_owned()));
    question.headers.push(("x-subscription-token".to_owned(), search.key().to_owned()));
    Ok(read(&ask_json(web, question, cancel)?))
}

/// Titles and descriptions have words in bold.
pub(super) fn read(answer: &Value) -> Vec<Found> {
    let plain = |html: &str| Tree::parse(html).text_within(Tree::ROOT);
    let found = listed(answer.pointer("/web/results").unwrap_or(&Value::Null), "description");
    let plain = |found: Found| Found { title: plain(&found.title), snippet: plain(&found.snippet), ..found };
    found.into_iter().map(plain).collect()
}
