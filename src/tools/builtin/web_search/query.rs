//! A search and its results, as every provider takes and gives them.

use super::options::WebSearchOptions;
use crate::tools::web::page::collapse_whitespace;
use serde::Serialize;
use serde_json::Value;

/// The longest snippet, characters.
const SNIPPET_CHARS: usize = 1_000;

/// A result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct WebSearchResult {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

/// A search.
#[derive(Debug, Clone, Copy)]
pub(super) struct WebSearchQuery<'a> {
    pub(super) query: &'a str,
    pub(super) max_results: usize,
    pub(super) options: &'a WebSearchOptions,
}

impl WebSearchQuery<'_> {
    /// Where the provider is asked.
    pub(super) fn base(&self, own: &'static str) -> &str {
        self.options.base_url.as_deref().unwrap_or(own)
    }

    /// The key, which the configuration has made sure of.
    pub(super) fn key(&self) -> &str {
        self.options.api_key.as_ref().map_or("", |key| key.reveal().trim())
    }

    /// The country and the language of the region.
    pub(super) fn region(&self) -> Option<(&str, &str)> {
        self.options.region.as_deref()?.split_once(['-', '_'])
    }
}

impl WebSearchResult {
    pub(super) fn tidy(self) -> Self {
        let snippet = collapse_whitespace(&self.snippet).chars().take(SNIPPET_CHARS).collect();
        Self { title: collapse_whitespace(&self.title), url: self.url, snippet }
    }
}

/// Results of a list in JSON, by the names of their fields; those without an address that can be fetched are
/// left out.
pub(super) fn listed(list: &Value, snippet: &str) -> Vec<WebSearchResult> {
    let word =
        |item: &Value, name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let found = items.iter().map(|item| WebSearchResult {
        title: word(item, "title"),
        url: word(item, "url"),
        snippet: word(item, snippet),
    });
    found.filter(|found| found.url.starts_with("https://") || found.url.starts_with("http://")).collect()
}
