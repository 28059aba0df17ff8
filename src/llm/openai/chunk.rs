//! One chunk as providers send it, read leniently. Owns the fields' many spellings; refuses to judge them.

use crate::domain::usage::Usage;
use serde::Deserialize;
use serde_json::Value;

/// A `chat.completion.chunk`, or a whole `chat.completion`.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    /// Empty in the chunk that carries only the usage.
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    /// What it calls itself; `error` from some servers.
    #[serde(default)]
    pub(super) object: Option<String>,
    /// A failure after the 200.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

impl Chunk {
    /// What the chunk says of the cost, wherever it says it.
    pub(super) fn usage(&self) -> Option<Usage> {
        let of_choice = || self.choices.iter().flatten().find_map(|choice| choice.usage.as_ref());
        self.usage.as_ref().or_else(of_choice).map(WireUsage::read)
    }
}

/// One of the answers asked for; only the first is ours.
#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    /// Its number.
    #[serde(default)]
    pub(super) index: Option<u64>,
    /// What is new; `message` in a whole answer.
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Delta>,
    /// Set at the end.
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

/// What is new.
#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    /// A text, or parts of one.
    #[serde(default)]
    pub(super) content: Option<Value>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<Value>,
    /// Instead of `content` when the model declines.
    #[serde(default)]
    pub(super) refusal: Option<String>,
    /// Calls, in pieces.
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallPiece>>,
}

impl Delta {
    /// The new piece of reasoning, under either name.
    pub(super) fn thinking(&self) -> &str {
        let other = || self.reasoning.as_ref().and_then(Value::as_str);
        self.reasoning_content.as_deref().filter(|text| !text.is_empty()).or_else(other).unwrap_or_default()
    }

    /// The new piece of text.
    pub(super) fn text(&self) -> String {
        match &self.content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            _ => self.refusal.clone().unwrap_or_default(),
        }
    }
}

/// A piece of a call.
#[derive(Debug, Deserialize)]
pub(super) struct CallPiece {
    /// Which call; some providers leave it out.
    #[serde(default)]
    pub(super) index: Option<u64>,
    /// The provider's name for it.
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

impl CallPiece {
    /// The new piece of the tool's name.
    pub(super) fn name(&self) -> &str {
        self.function.as_ref().and_then(|f| f.name.as_deref()).unwrap_or_default()
    }

    /// The new piece of the arguments; an object counts as its text.
    pub(super) fn arguments(&self) -> String {
        match self.function.as_ref().and_then(|f| f.arguments.as_ref()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct WireUsage {
    #[serde(default, rename = "prompt_tokens")]
    prompt: Option<u64>,
    #[serde(default, rename = "completion_tokens")]
    completion: Option<u64>,
    #[serde(default, rename = "total_tokens")]
    total: Option<u64>,
}

impl WireUsage {
    fn read(&self) -> Usage {
        let usage = Usage::new(self.prompt.unwrap_or(0), self.completion.unwrap_or(0));
        Usage { total_tokens: self.total.filter(|t| *t > 0).unwrap_or(usage.total_tokens), ..usage }
    }
}
