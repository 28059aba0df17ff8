//! Conversations: what is kept of one beside its jobs. Owns its settings and their rules; refuses messages, which are what its
//! jobs were asked and have said.

use super::id::{ConversationId, ProjectId, UserId};
use serde::{Deserialize, Serialize};

/// The longest title, characters.
pub const TITLE_CHARS: usize = 255;

/// A conversation. One that a job names without having been made before is made with the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its name inside its user's own space.
    pub id: ConversationId,
    /// Whose it is.
    pub user: UserId,
    /// Empty until there is one.
    pub title: String,
    /// What its settings are.
    pub settings: ConversationSettings,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// When it, or one of its messages, last changed; unix milliseconds.
    pub updated_at_ms: u64,
    /// Messages in it: what was asked, and what was answered.
    pub message_count: u64,
}

/// What the messages of a conversation are sent with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationSettings {
    /// A configured model's id, as it was when it was chosen.
    pub model: String,
    /// Put before the history; empty for none.
    pub system_prompt: String,
    /// 0.0 to 2.0; the provider's own when absent.
    pub temperature: Option<f64>,
    /// Bound of one answer; the model's own when absent.
    pub max_tokens: Option<u32>,
    /// Whether the model is asked to think first.
    pub thinking_enabled: bool,
    /// The project that its jobs work in.
    pub project_id: Option<ProjectId>,
}

/// What is to change; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationChange {
    /// The title.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The temperature.
    pub temperature: Option<f64>,
    /// The bound of one answer.
    pub max_tokens: Option<u32>,
    /// Whether to think.
    pub thinking_enabled: Option<bool>,
    /// The project; `Some(None)` takes it away.
    pub project_id: Option<Option<ProjectId>>,
}

impl Conversation {
    /// Whether a title may be given to it: it has none of its own. (`新对话` is the front end's word for a new one.)
    pub fn wants_title(&self) -> bool {
        matches!(self.title.trim(), "" | "新对话")
    }

    /// The conversation after the change.
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

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
