//! Where answers come from. Owns the trait, what it is asked and what it may answer; refuses to know a wire dialect.

use super::cancel::CancelToken;
use crate::domain::event::FinishReason;
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::tool::{ToolCall, ToolDefinition};
use crate::domain::usage::{Price, Usage};
use std::ops::ControlFlow;

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The configured model's id.
    pub model: String,
    /// System prompt, history, input, and what this job has said and done so far.
    pub messages: Vec<Message>,
    /// Tools on offer; empty when none.
    pub tools: Vec<ToolDefinition>,
    /// Whether they may be called. A closing answer is asked for with `false`: the tools are told only to dialects that want
    /// the earlier calls explained.
    pub may_call: bool,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Bound of the answer.
    pub max_tokens: Option<u32>,
    /// Whether to think first.
    pub thinking: bool,
}

/// A piece of the answer as it arrives; a text is never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Of the reasoning.
    Thinking(&'a str),
    /// Of the answer.
    Text(&'a str),
    /// What the call has cost so far, as its provider reports it: the last one holds, also when the call fails.
    Spent(Usage),
}

/// What stands once the answer has ended well. Its text went through the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The calls that the model wants made, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// What the provider wants back with the answer.
    pub echo: Option<ProviderReplay>,
}

/// Why there is no complete answer. The text is for clients: it names no URL and no key (P9).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No model of this id is configured.
    #[error("model '{0}' is not configured")]
    NotFound(String),
    /// The provider said no to this request, and will say no again.
    #[error("{0}")]
    Refused(String),
    /// The provider said no to this server (a bad key, a spent quota, an unknown model): another model may answer.
    #[error("{0}")]
    Denied(String),
    /// The request does not fit into the model's context window; a shorter one may.
    #[error("{0}")]
    ContextTooLong(String),
    /// The call was not made: the provider has as many as it may have. Nothing failed.
    #[error("{message}")]
    Busy {
        /// What is waited for.
        message: String,
        /// When to come again, milliseconds.
        retry_after_ms: u64,
    },
    /// The provider could not be reached, was busy, or broke off; another try may help.
    #[error("{message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// What the provider asked to wait, milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The answer passed a bound.
    #[error("{0}")]
    TooLarge(String),
    /// The sink or the stop flag ended it.
    #[error("the call was stopped")]
    Stopped,
}

/// A configured model as the rest of the server may know it: no URL, no key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// What jobs name.
    pub id: String,
    /// For people.
    pub name: String,
    /// Tokens of a request and its answer together, where that is known.
    pub context_window: Option<u32>,
    /// Bound of one answer, tokens.
    pub max_output_tokens: Option<u32>,
    /// Models that are asked, in this order, when this one fails.
    pub fallback: Vec<String>,
    /// What its tokens cost.
    pub price: Price,
}

/// Where answers come from.
pub trait Model: Send + Sync {
    /// Asks, and hands on pieces as they arrive. Returns within a second of `stop` being raised, of `deadline_ms`
    /// ([`super::Clock::monotonic_ms`]) passing, or of the sink breaking off, even while the provider hangs.
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError>;
    /// The models on offer, in configured order.
    fn models(&self) -> Vec<ModelInfo>;
    /// The configured model of this id.
    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.models().into_iter().find(|model| model.id == id)
    }
}

/// Takes the pieces of an answer; `Break` ends the call.
pub type ChunkSink<'a> = &'a mut dyn FnMut(Chunk<'_>) -> ControlFlow<()>;
