//! Chat messages in the engine's form. Dialects of providers are in `llm`.

use super::attachment::Attachment;
use super::image::Image;
use super::tool::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One chat message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// Instructions.
    System {
        /// The text.
        content: String,
    },
    /// A message of the user.
    User {
        /// The text.
        content: String,
        /// Attached files; models read them as fenced blocks after the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Images; models see them where they stand in the text ([`super::user_parts`]).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
    /// An answer of the model with its tool calls.
    Assistant {
        /// Visible text; may be empty when there are calls.
        content: String,
        /// Reasoning, where the provider shows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
        /// Tool calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Opaque data that the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<ProviderReplay>,
    },
    /// A tool result, one for each call.
    Tool {
        /// Id of the call.
        id_ref: String,
        /// Tool name.
        name: String,
        /// Result, a JSON text.
        content: String,
    },
}

/// Parts of an answer that the provider wants back unchanged (signed or hidden reasoning, its own tool
/// calls). Only the dialect that wrote them reads them, and only for the same model: other models cannot
/// verify the signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderReplay {
    /// Configured model id.
    pub model: String,
    /// The parts, in the dialect's own form.
    pub parts: Value,
}

impl Message {
    /// A user message without attachments.
    pub fn user(content: impl Into<String>) -> Self {
        Self::User { content: content.into(), attachments: Vec::new(), images: Vec::new() }
    }

    /// An assistant message without calls.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::Assistant {
            content: content.into(),
            thinking: String::new(),
            tool_calls: Vec::new(),
            echo: None,
        }
    }

    /// The images of a message; empty unless it is of the user.
    pub fn images(&self) -> &[Image] {
        match self {
            Self::User { images, .. } => images,
            _ => &[],
        }
    }

    /// Whether one of the messages has an image.
    pub fn have_images(messages: &[Self]) -> bool {
        messages.iter().any(|message| !message.images().is_empty())
    }

    /// Size in bytes, without images: text, files, names and arguments of calls.
    pub fn bytes(&self) -> usize {
        match self {
            Self::System { content } => content.len(),
            Self::User { content, attachments, .. } => {
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

    /// The id of the call that this message has the result of.
    pub fn answered_call(&self) -> Option<&str> {
        match self {
            Self::Tool { id_ref, .. } => Some(id_ref),
            _ => None,
        }
    }

    /// The text of a user message for the model: the text, then each file as a fenced block.
    pub fn user_text(content: &str, attachments: &[Attachment]) -> String {
        let files = attachments.iter().map(Attachment::block);
        let parts = std::iter::once(content.to_owned()).filter(|text| !text.is_empty()).chain(files);
        parts.collect::<Vec<_>>().join("\n\n")
    }
}
