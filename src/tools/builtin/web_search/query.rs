//! A search and its results in the form that all providers share.

use super::options::WebSearchOptions;
use crate::tools::text::collapse_whitespace;
use serde::Serialize;

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
    /// The address of the provider.
    pub(super) fn base(&self, default_base: &'static str) -> &str {
        self.options.base_url.as_deref().unwrap_or(default_base)
    }

    /// The key. The configuration requires it for providers that need one.
    pub(super) fn key(&self) -> &str {
        self.options.api_key.as_ref().map_or("", |key| key.reveal().trim())
    }

    /// The country and the language of the region.
    pub(super) fn region(&self) -> Option<(&str, &str)> {
        self.options.region.as_deref()?.split_once(['-', '_'])
    }
}

impl WebSearchResult {
    pub(super) fn normalized(self) -> Self {
        let snippet = collapse_whitespace(&self.snippet).chars().take(SNIPPET_CHARS).collect();
        Self { title: collapse_whitespace(&self.title), url: self.url, snippet }
    }
}
