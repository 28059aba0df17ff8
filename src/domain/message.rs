//! Chat messages as a model reads them. Owns their roles; refuses wire dialects (see `llm`).

use super::tool::ToolCall;
use serde::{Deserialize, Serialize};

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

impl Message {
    /// A user's message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::User { content: content.into() }
    }

    /// How much text it carries, bytes: names and arguments of calls included.
    pub fn bytes(&self) -> usize {
        match self {
            Self::System { content } | Self::User { content } => content.len(),
            Self::Tool { id_ref, name, content } => id_ref.len() + name.len() + content.len(),
            Self::Assistant { content, thinking, tool_calls } => {
                let call = |c: &ToolCall| c.id_ref.len() + c.name.len() + c.arguments.len();
                content.len() + thinking.len() + tool_calls.iter().map(call).sum::<usize>()
            }
        }
    }

    /// A plain assistant message without calls.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::Assistant { content: content.into(), thinking: String::new(), tool_calls: Vec::new() }
    }
}
