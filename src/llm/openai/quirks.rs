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
    /// Whether earlier reasoning must come back as `reasoning_content`.
    pub(super) echoes_reasoning: bool,
    /// The field that limits the answer.
    pub(super) max_tokens: &'static str,
    /// The highest bound of an answer that is taken.
    pub(super) max_tokens_most: Option<u32>,
    /// What ids of calls look like.
    pub(super) ids: IdAlphabet,
    /// Whether `stream_options` is known.
    pub(super) reports_usage_on_demand: bool,
    /// Beginnings of the names of models that take no temperature.
    pub(super) steady: &'static [&'static str],
    /// Beginnings of names that are exceptions to this.
    pub(super) not_steady: &'static [&'static str],
}

/// The field that limits an answer, as it was named first.
pub(super) const MAX_TOKENS: &str = "max_tokens";
/// And as `OpenAI` names it now.
pub(super) const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

const PLAIN: ProviderQuirks = ProviderQuirks {
    thinking: ThinkingField::None,
    echoes_reasoning: false,
    max_tokens: MAX_TOKENS,
    max_tokens_most: None,
    ids: IdAlphabet::Any,
    reports_usage_on_demand: true,
    steady: &[],
    not_steady: &[],
};
const THINKER: ProviderQuirks =
    ProviderQuirks { thinking: ThinkingField::Type, echoes_reasoning: true, ..PLAIN };
/// Thinking with tools: 400 unless the reasoning comes back verbatim.
const DEEPSEEK: ProviderQuirks = ProviderQuirks { max_tokens_most: Some(8192), ..THINKER };
const GLM: ProviderQuirks = ProviderQuirks { max_tokens_most: Some(65_536), ..THINKER };
const MOONSHOT: ProviderQuirks = ProviderQuirks { thinking: ThinkingField::None, ..THINKER };
/// Reasoning models refuse `max_tokens` and `temperature`; the others take both names of the bound.
const OPENAI: ProviderQuirks = ProviderQuirks {
    max_tokens: MAX_COMPLETION_TOKENS,
    steady: &["o1", "o3", "o4", "gpt-5"],
    not_steady: &["gpt-5-chat"],
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
    // Refuses fields that it does not know, and reports the usage unasked.
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

    /// Whether this model takes a temperature.
    pub(super) fn takes_temperature(&self, model: &str) -> bool {
        let begins = |starts: &[&str]| starts.iter().any(|start| model.starts_with(start));
        !begins(self.steady) || begins(self.not_steady)
    }
}
