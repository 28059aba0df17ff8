//! The `models:` section of the configuration.

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The id of the demo model, which needs no provider.
const DEMO_ID: &str = "demo";

/// One configured model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOptions {
    /// The name that jobs use.
    pub id: String,
    /// The display name; the id when absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The model's name at the provider; the id when absent.
    #[serde(default)]
    pub upstream_id: Option<String>,
    /// The provider's base (`…/v1`) or full endpoint (`…/chat/completions`, `…/messages`). The demo model has
    /// none.
    #[serde(default, serialize_with = "without_query")]
    pub api_url: Option<String>,
    /// The API key; providers on this machine need none.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// A file that holds the key, instead of `api_key`. A relative path lies in systemd's
    /// `$CREDENTIALS_DIRECTORY`.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// The key that was read from that file; not a configuration key, and never shown.
    #[serde(skip)]
    pub key_from_file: Option<Secret>,
    /// The wire dialect; guessed from the URL when absent.
    #[serde(default)]
    pub provider: Option<Provider>,
    /// Tokens that fit into one request and its answer; unknown when absent.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// Limit of one answer, tokens.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// Models that are called instead, in this order, when this one fails.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// The price of its tokens.
    #[serde(default)]
    pub price: Option<PriceOptions>,
    /// Rate limits; models with the same provider and key share them.
    #[serde(default)]
    pub rate: RateOptions,
    /// Whether tool calls that the model writes as text (`<tool_call>…`, bare JSON) are recognized.
    #[serde(default)]
    pub text_tool_calls: bool,
    /// Whether it sees images.
    #[serde(default)]
    pub vision: bool,
    /// Whether chat requests (`/v1/chat/completions`) that name no tools get the server's tools.
    #[serde(default)]
    pub agent: bool,
    /// Fields that are added to every request, or replace what the dialect would send; `null` takes one away.
    #[serde(default, serialize_with = "without_secrets")]
    pub extra_body: Map<String, Value>,
    /// Headers that are added to every request, or replace what the dialect would send.
    #[serde(default)]
    pub extra_headers: BTreeMap<String, Secret>,
}

impl ModelOptions {
    /// Whether this is the scripted demo model.
    pub fn is_demo(&self) -> bool {
        self.provider == Some(Provider::Demo) || (self.provider.is_none() && self.id == DEMO_ID)
    }

    /// The texts that must not be repeated.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.api_key.iter().chain(&self.key_from_file).chain(self.extra_headers.values())
    }
}

/// The price of a million tokens, in any currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceOptions {
    /// Prompt tokens.
    pub prompt: f64,
    /// Completion tokens.
    pub completion: f64,
}

/// Rate limits of a provider. Absent: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateOptions {
    /// Concurrent calls.
    pub concurrent: Option<u32>,
    /// Calls that begin within any minute.
    pub requests_per_minute: Option<u32>,
    /// Prompt and completion tokens within any minute.
    pub tokens_per_minute: Option<u64>,
}

/// The wire dialects, and the providers with their own variant of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Chat completions as `OpenAI` defined them; most providers and local servers offer them.
    Openai,
    /// `DeepSeek`'s variant.
    Deepseek,
    /// GLM's variant (Zhipu, Z.ai).
    Glm,
    /// Messages as Anthropic defined them.
    Anthropic,
    /// The scripted model of this server; no network.
    Demo,
}

/// Parts of names whose values are not shown.
const SECRET_NAMES: [&str; 6] = ["key", "token", "secret", "password", "auth", "credential"];

/// Some providers take their key in the query.
#[allow(clippy::ref_option, reason = "serde passes a reference")]
fn without_query<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let masked = url.as_deref().map(|url| match url.split_once('?') {
        Some((address, _)) => format!("{address}?***"),
        None => url.to_owned(),
    });
    masked.serialize(serializer)
}

fn without_secrets<S: Serializer>(body: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let is_secret = |name: &str| SECRET_NAMES.iter().any(|part| name.to_ascii_lowercase().contains(part));
    let mask = |(name, value): (&String, &Value)| match value {
        Value::String(_) if is_secret(name) => (name.clone(), Value::from("***")),
        other => (name.clone(), other.clone()),
    };
    body.iter().map(mask).collect::<Map<String, Value>>().serialize(serializer)
}
