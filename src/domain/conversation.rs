//! Conversations and their settings. Messages are parts of jobs.

use super::id::{ConversationId, ProjectId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum length of a title, characters.
pub const TITLE_CHARS: usize = 255;

/// Shown as the temperature while none is set.
pub const SHOWN_TEMPERATURE: f64 = 1.0;
/// Shown as `max_tokens` while none is set.
pub const SHOWN_MAX_TOKENS: u32 = 65_536;

/// A conversation. A job that names an unknown one creates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Id, unique for its user.
    pub id: ConversationId,
    /// Owner.
    pub user: UserId,
    /// Title; empty until there is one.
    pub title: String,
    /// Settings.
    pub settings: ConversationSettings,
    /// Creation time, unix milliseconds.
    pub created_at_ms: u64,
    /// Last change of the conversation or a message, unix milliseconds.
    pub updated_at_ms: u64,
    /// Number of messages, questions and answers.
    pub message_count: u64,
    /// The client's labels, returned as given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// What a conversation has beside its jobs, or in place of a part of one: items of `/v1/conversations`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredItems {
    /// Items that a client added without a job, each with its id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Value>,
    /// When they were added, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at_ms: Option<u64>,
    /// Ids of a job's items that were deleted from the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// How many messages of the turn are the question; `None`: as many as the job's input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<usize>,
    /// Number of changes so far.
    #[serde(default)]
    pub edits: u32,
}

/// Settings for the messages of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationSettings {
    /// Configured model id, as it was when it was chosen.
    pub model: String,
    /// System prompt; empty for none.
    pub system_prompt: String,
    /// 0.0 to 2.0; `None` for the provider's default.
    pub temperature: Option<f64>,
    /// Maximum tokens of an answer; `None` for the model's default.
    pub max_tokens: Option<u32>,
    /// Whether the model thinks first.
    pub thinking_enabled: bool,
    /// The project that its jobs work in.
    pub project_id: Option<ProjectId>,
}

/// Changes of a conversation; `None` keeps the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationChange {
    /// Title.
    pub title: Option<String>,
    /// Model id.
    pub model: Option<String>,
    /// System prompt.
    pub system_prompt: Option<String>,
    /// Temperature.
    pub temperature: Option<f64>,
    /// Maximum tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Whether the model thinks first.
    pub thinking_enabled: Option<bool>,
    /// Project; `Some(None)` removes it.
    pub project_id: Option<Option<ProjectId>>,
    /// Labels; they replace all earlier ones.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The change comes from a form with all settings. It repeats the values that are shown for settings
    /// which are not set, so these stay unset.
    pub is_whole_form: bool,
}

impl Conversation {
    /// Whether a generated title may be set: the conversation has none of its own. The front end calls a new
    /// one `新对话`.
    pub fn wants_title(&self) -> bool {
        matches!(self.title.trim(), "" | "新对话")
    }

    /// Applies the changes.
    pub fn update(&mut self, mut change: ConversationChange) {
        let settings = &mut self.settings;
        if change.is_whole_form {
            let is_shown = |value: &f64| (value - SHOWN_TEMPERATURE).abs() < f64::EPSILON;
            let repeats_temperature =
                settings.temperature.is_none() && change.temperature.as_ref().is_some_and(is_shown);
            change.temperature = change.temperature.filter(|_| !repeats_temperature);
            let repeats_max_tokens =
                settings.max_tokens.is_none() && change.max_tokens == Some(SHOWN_MAX_TOKENS);
            change.max_tokens = change.max_tokens.filter(|_| !repeats_max_tokens);
        }
        put(&mut self.title, change.title);
        put(&mut self.metadata, change.metadata);
        put(&mut settings.model, change.model);
        put(&mut settings.system_prompt, change.system_prompt);
        put(&mut settings.thinking_enabled, change.thinking_enabled);
        put(&mut settings.project_id, change.project_id);
        settings.temperature = change.temperature.or(settings.temperature);
        settings.max_tokens = change.max_tokens.or(settings.max_tokens);
    }
}

fn put<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let settings = ConversationSettings {
            model: "m".into(),
            system_prompt: String::new(),
            temperature: None,
            max_tokens: None,
            thinking_enabled: false,
            project_id: None,
        };
        let id = ConversationId::try_from("c".to_owned()).expect("a name");
        let title = String::new();
        Conversation {
            id,
            user: UserId::SINGLE,
            title,
            settings,
            created_at_ms: 0,
            updated_at_ms: 0,
            message_count: 0,
            metadata: BTreeMap::new(),
        }
    }

    fn set(temperature: f64, max_tokens: u32, is_whole_form: bool) -> ConversationChange {
        let (temperature, max_tokens) = (Some(temperature), Some(max_tokens));
        ConversationChange { temperature, max_tokens, is_whole_form, ..ConversationChange::default() }
    }

    #[test]
    fn a_form_that_repeats_shown_defaults_sets_nothing() {
        let set_after = |changes: &[ConversationChange]| {
            let mut conversation = conversation();
            for change in changes {
                conversation.update(change.clone());
            }
            (conversation.settings.temperature, conversation.settings.max_tokens)
        };
        assert_eq!(set_after(&[set(1.0, 65_536, true)]), (None, None), "nobody has changed them");
        assert_eq!(
            set_after(&[set(1.0, 65_536, false)]),
            (Some(1.0), Some(65_536)),
            "somebody has named them"
        );
        assert_eq!(set_after(&[set(0.5, 65_536, true)]), (Some(0.5), None));
        let back = [set(0.5, 77, true), set(1.0, 65_536, true)];
        assert_eq!(set_after(&back), (Some(1.0), Some(65_536)), "what was set before changes");
    }
}
