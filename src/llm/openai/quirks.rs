//! Where providers differ within the dialect, as data. Owns one row for each host that needs one; refuses to be a
//! place for code.

/// How `thinking` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingField {
    /// There is no such field; the model thinks or does not.
    None,
    /// `"thinking": {"type": "enabled" | "disabled"}`.
    Type,
    /// `"reasoning": {"enabled": …}`.
    Enabled,
}

/// One provider's ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quirks {
    /// How `thinking` is asked for.
    pub(super) thinking: ThinkingField,
    /// Whether earlier reasoning must come back as `reasoning_content`.
    pub(super) echoes_reasoning: bool,
    /// The field that bounds the answer.
    pub(super) max_tokens: &'static str,
}

const PLAIN: Quirks =
    Quirks { thinking: ThinkingField::None, echoes_reasoning: false, max_tokens: "max_tokens" };
const THINKER: Quirks = Quirks { thinking: ThinkingField::Type, echoes_reasoning: true, ..PLAIN };

/// Ends of host names.
const HOSTS: [(&str, Quirks); 7] = [
    ("deepseek.com", THINKER), // thinking with tools: 400 unless the reasoning comes back verbatim
    ("bigmodel.cn", THINKER),
    ("z.ai", THINKER),
    ("moonshot.cn", Quirks { thinking: ThinkingField::None, ..THINKER }),
    ("moonshot.ai", Quirks { thinking: ThinkingField::None, ..THINKER }),
    ("openrouter.ai", Quirks { thinking: ThinkingField::Enabled, ..PLAIN }),
    // Reasoning models refuse `max_tokens`; the others take both.
    ("api.openai.com", Quirks { max_tokens: "max_completion_tokens", ..PLAIN }),
];

impl Quirks {
    /// The ways of the provider at this host.
    pub(super) fn of_host(host: &str) -> Self {
        let is_at =
            |end: &str| host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        HOSTS.iter().find(|(end, _)| is_at(end)).map_or(PLAIN, |(_, quirks)| *quirks)
    }
}
