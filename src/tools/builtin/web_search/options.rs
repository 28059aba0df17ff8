//! `web_search:` of the configuration: its keys and their checks.

use crate::domain::secret::Secret;
use crate::tools::web::service::{BadOption, fault};
use serde::{Deserialize, Serialize};

/// The options of `web_search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchOptions {
    /// The search service.
    pub provider: SearchProvider,
    /// The key for Brave or Tavily.
    pub api_key: Option<Secret>,
    /// The address of the provider instead of its default.
    pub base_url: Option<String>,
    /// Country and language of the results, as in `us-en`.
    pub region: Option<String>,
    /// Longest time of one search.
    pub timeout_s: u64,
}

impl Default for WebSearchOptions {
    fn default() -> Self {
        Self {
            provider: SearchProvider::default(),
            api_key: None,
            base_url: None,
            region: None,
            timeout_s: 20,
        }
    }
}

/// The providers of searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    /// Its pages without scripts. It needs no key.
    #[default]
    Duckduckgo,
    /// Brave's API.
    Brave,
    /// An instance of `SearXNG`.
    Searxng,
    /// Tavily's API.
    Tavily,
}

impl WebSearchOptions {
    /// The secrets, which logs and results must not contain.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.api_key.iter()
    }

    /// Every invalid value.
    pub fn faults(&self) -> Vec<BadOption> {
        let bad = |key: &str, allowed: &str| BadOption {
            key: format!("web_search.{key}"),
            value: String::new(),
            allowed: allowed.to_owned(),
        };
        let needs_key = matches!(self.provider, SearchProvider::Brave | SearchProvider::Tavily);
        let has_key = self.api_key.as_ref().is_some_and(|key| !key.reveal().trim().is_empty());
        let key = (needs_key && !has_key).then(|| {
            bad("api_key", "is needed by this provider: take it from the environment, as in \"${API_KEY}\"")
        });
        let base = match (&self.base_url, self.provider) {
            (None, SearchProvider::Searxng) => {
                Some(bad("base_url", "is needed by searxng: the address of your instance"))
            }
            (base, _) => fault("web_search.base_url", base.as_deref()),
        };
        let is_plain_region = |text: &String| {
            !text.is_empty()
                && text.len() <= 16
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let region = self.region.as_ref().filter(|text| !is_plain_region(text)).map(|text| BadOption {
            value: text.clone(),
            ..bad("region", "must be a country and a language, as in us-en")
        });
        key.into_iter().chain(base).chain(region).collect()
    }
}
