//! Conversations and their settings. Messages are parts of jobs.

use super::id::{ConversationId, ProjectId, UserId};
use serde::{Deserialize, Serialize};

/// Maximum length of a title, characters.
pub const TITLE_CHARS: usize = 255;

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
}

impl Conversation {
    /// Whether a generated title may be set: the conversation has none of its own. The front end calls a new
    /// one `新对话`.
    pub fn wants_title(&self) -> bool {
        matches!(self.title.trim(), "" | "新对话")
    }

    /// Applies the changes.
    pub fn update(&mut self, change: ConversationChange) {
        let settings = &mut self.settings;
        put(&mut self.title, change.title);
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
