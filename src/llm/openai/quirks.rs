//! How providers differ within the dialect, as data.

use super::naming::IdAlphabet;
use crate::llm::options::Provider;

/// How a request asks for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingField {
    /// There is no such field; the model thinks or does not.
    None,
    /// `"thinking": {"type": "enabled" | "disabled"}`.
    Type,
    /// `"reasoning": {"enabled": …}`.
    Enabled,
}

/// The quirks of one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProviderQuirks {
    /// How a request asks for thinking.
    pub(super) thinking: ThinkingField,
    /// Whether earlier reasoning must go back as `reasoning_content`.
    pub(super) echoes_reasoning: bool,
    /// The field that limits the answer.
    pub(super) max_tokens: &'static str,
    /// The highest limit of an answer that the provider accepts.
    pub(super) max_tokens_cap: Option<u32>,
    /// The alphabet of call ids.
    pub(super) ids: IdAlphabet,
    /// Whether the provider accepts `stream_options`.
    pub(super) reports_usage_on_demand: bool,
    /// Prefixes of models that refuse a temperature.
    pub(super) no_temperature: &'static [&'static str],
    /// Prefixes of models that accept one nevertheless.
    pub(super) no_temperature_except: &'static [&'static str],
}

/// The field that limits an answer.
pub(super) const MAX_TOKENS: &str = "max_tokens";
/// Its newer name at `OpenAI`.
pub(super) const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

const PLAIN: ProviderQuirks = ProviderQuirks {
    thinking: ThinkingField::None,
    echoes_reasoning: false,
    max_tokens: MAX_TOKENS,
    max_tokens_cap: None,
    ids: IdAlphabet::Any,
    reports_usage_on_demand: true,
    no_temperature: &[],
    no_temperature_except: &[],
};
const THINKER: ProviderQuirks =
    ProviderQuirks { thinking: ThinkingField::Type, echoes_reasoning: true, ..PLAIN };
/// Answers 400 to thinking with tools unless the reasoning goes back unchanged.
const DEEPSEEK: ProviderQuirks = ProviderQuirks { max_tokens_cap: Some(8192), ..THINKER };
const GLM: ProviderQuirks = ProviderQuirks { max_tokens_cap: Some(65_536), ..THINKER };
const MOONSHOT: ProviderQuirks = ProviderQuirks { thinking: ThinkingField::None, ..THINKER };
/// Reasoning models refuse `max_tokens` and `temperature`. The others accept both names of the limit.
const OPENAI: ProviderQuirks = ProviderQuirks {
    max_tokens: MAX_COMPLETION_TOKENS,
    no_temperature: &["o1", "o3", "o4", "gpt-5"],
    no_temperature_except: &["gpt-5-chat"],
    ..PLAIN
};

/// Ends of host names.
const HOSTS: [(&str, ProviderQuirks); 8] = [
    ("deepseek.com", DEEPSEEK),
    ("bigmodel.cn", GLM),
    ("z.ai", GLM),
    ("moonshot.cn", MOONSHOT),
    ("moonshot.ai", MOONSHOT),
    ("openrouter.ai", ProviderQuirks { thinking: ThinkingField::Enabled, ..PLAIN }),
    ("api.openai.com", OPENAI),
    // Refuses unknown fields, and always reports the usage.
    ("mistral.ai", ProviderQuirks { reports_usage_on_demand: false, ids: IdAlphabet::Nine, ..PLAIN }),
];

impl ProviderQuirks {
    /// The quirks of this provider, or of this host if the provider only names the dialect.
    pub(super) fn of(provider: Provider, host: &str) -> Self {
        match provider {
            Provider::Deepseek => DEEPSEEK,
            Provider::Glm => GLM,
            Provider::Openai | Provider::Anthropic | Provider::Demo => Self::of_host(host),
        }
    }

    fn of_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let is_at =
            |end: &str| host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        HOSTS.iter().find(|(end, _)| is_at(end)).map_or(PLAIN, |(_, quirks)| *quirks)
    }

    /// Whether this model accepts a temperature.
    pub(super) fn accepts_temperature(&self, model: &str) -> bool {
        let begins = |starts: &[&str]| starts.iter().any(|start| model.starts_with(start));
        !begins(self.no_temperature) || begins(self.no_temperature_except)
    }
}
