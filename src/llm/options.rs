//! `models:` of the configuration. Owns its keys and their meaning; refuses to expand variables (config does).

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};

/// One configured model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOptions {
    /// What jobs name, and what the provider is asked for.
    pub id: String,
    /// For people; the id when absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The provider's base (`…/v1`) or full endpoint (`…/chat/completions`). The demo model has none.
    #[serde(default)]
    pub api_url: Option<String>,
    /// Sent as a bearer token; loopback upstreams need none.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The wire dialect; guessed from the URL when absent.
    #[serde(default)]
    pub provider: Option<Provider>,
    /// Tokens that fit into one request and its answer; noted, not used yet: nothing is summarised.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// Bound of one answer, tokens.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
}

/// The wire dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Chat completions as `OpenAI` defined them; most providers and local servers speak it.
    Openai,
    /// The scripted model of this server; no network.
    Demo,
}
