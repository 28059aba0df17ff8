//! Chat messages as a model reads them. Owns their roles; refuses wire dialects (see `llm`).

use super::attachment::Attachment;
use super::tool::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// Standing instructions.
    System {
        /// The text.
        content: String,
    },
    /// What the user said.
    User {
        /// The text.
        content: String,
        /// The files that came with it; models read them as fenced blocks behind the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// What the model said, and the calls that it asked for.
    Assistant {
        /// The visible text; may be empty when there are calls.
        content: String,
        /// The reasoning before it, where the provider shows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
        /// The calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// What its provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<ProviderReplay>,
    },
    /// A tool's result, one for each call.
    Tool {
        /// The call that it answers.
        id_ref: String,
        /// The tool.
        name: String,
        /// The result, a JSON text.
        content: String,
    },
}

/// Parts of an answer that its provider wants back as they were (signed or hidden reasoning, calls of its own tools).
/// Only the dialect that wrote it reads it, and only while the same model is asked: signatures mean nothing to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderReplay {
    /// The configured model's id.
    pub model: String,
    /// The parts in the dialect's own form.
    pub parts: Value,
}

impl Message {
    /// A user's message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::User { content: content.into(), attachments: Vec::new() }
    }

    /// A plain assistant message without calls.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::Assistant {
            content: content.into(),
            thinking: String::new(),
            tool_calls: Vec::new(),
            echo: None,
        }
    }

    /// How much text it carries, bytes: files, names and arguments of calls included.
    pub fn bytes(&self) -> usize {
        match self {
            Self::System { content } => content.len(),
            Self::User { content, attachments } => {
                content.len() + attachments.iter().map(Attachment::bytes).sum::<usize>()
            }
            Self::Tool { id_ref, name, content } => id_ref.len() + name.len() + content.len(),
            Self::Assistant { content, thinking, tool_calls, echo } => {
                let echo = echo.as_ref().map_or(0, |echo| echo.parts.to_string().len());
                let call = |c: &ToolCall| c.id_ref.len() + c.name.len() + c.arguments.len();
                content.len() + thinking.len() + echo + tool_calls.iter().map(call).sum::<usize>()
            }
        }
    }

    /// What a model reads of a message of the user: the text, then each file as a fenced block.
    pub fn user_text(content: &str, attachments: &[Attachment]) -> String {
        let files = attachments.iter().map(Attachment::block);
        let parts = std::iter::once(content.to_owned()).filter(|text| !text.is_empty()).chain(files);
        parts.collect::<Vec<_>>().join("\n\n")
    }
}
