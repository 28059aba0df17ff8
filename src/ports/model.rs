//! The model port: one request, a stream of pieces, one completion. Dialects of providers stay behind it.

use super::clock::CancelToken;
use super::forward::{ForwardRequest, ForwardSink};
use super::model_health::ModelHealth;
use crate::domain::event::{EngineMark, FinishReason};
use crate::domain::id::{JobId, UserId};
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::model_settings::ModelSettings;
use crate::domain::tool::{ToolCall, ToolDefinition};
use crate::domain::usage::{Price, Usage};
use std::ops::ControlFlow;

/// For whom a model is called. Users take turns at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCaller {
    /// The user.
    pub user: UserId,
    /// The job, which comes back if the call is deferred.
    pub job: Option<JobId>,
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// For whom it is made.
    pub caller: ModelCaller,
    /// Configured model id.
    pub model: String,
    /// System prompt, history, input, and the job's own messages so far.
    pub messages: Vec<Message>,
    /// Tools offered to the model; empty for none.
    pub tools: Vec<ToolDefinition>,
    /// Whether the model may call tools. The closing call sets `false`; a dialect may then still need the
    /// definitions to explain earlier calls.
    pub may_call: bool,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Maximum tokens of the answer.
    pub max_tokens: Option<u32>,
    /// Whether the model should think first.
    pub thinking: bool,
    /// Further settings.
    pub settings: ModelSettings,
}

impl ModelRequest {
    /// The text that ended the answer, as a provider names it, if it is one of the request's.
    pub fn named_stop(&self, text: Option<String>) -> Option<String> {
        text.filter(|text| self.settings.stop.contains(text))
    }
}

/// A piece of a streamed answer. Texts are never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Reasoning text.
    Thinking(&'a str),
    /// Answer text.
    Text(&'a str),
    /// All answer text so far was reasoning, as its end shows.
    TextWasThinking,
    /// A piece of the arguments of a call; the first one may be empty. The completion has the whole call,
    /// whose arguments begin with its pieces.
    Call {
        /// Which call of the answer, from 0.
        place: usize,
        /// Name of the tool; the same in each piece.
        name: &'a str,
        /// Bytes of the arguments before the piece.
        offset: usize,
        /// The piece.
        arguments: &'a str,
    },
    /// Usage of the call so far, as the provider reports it. The last one counts, also when the call fails.
    Spent(Usage),
    /// Everything that has arrived is passed on, and the call may wait for more: the reader shows what it
    /// has.
    CaughtUp,
}

/// The end of a complete answer. Its text went through the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Tool calls, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// Which text of [`ModelSettings::stop`] ended the answer, where the provider says so.
    pub stop_sequence: Option<String>,
    /// Opaque data that the provider wants back with this answer.
    pub echo: Option<ProviderReplay>,
    /// The model that has answered, as the provider names it, if it is not the one that was asked for.
    pub response_model: Option<String>,
}

impl Completion {
    /// Longest name of a model that is kept, bytes.
    const MODEL_BYTES: usize = 256;

    /// A completion without anything that only some providers say.
    pub fn new(tool_calls: Vec<ToolCall>, finish_reason: FinishReason) -> Self {
        Self { tool_calls, finish_reason, stop_sequence: None, echo: None, response_model: None }
    }

    /// Its tool calls, and the end of the call for the log. `model`: that of the mark.
    pub fn into_end(self, usage: Usage, model: Option<String>) -> (Vec<ToolCall>, EngineMark) {
        let Self { tool_calls, finish_reason, stop_sequence, echo, response_model } = self;
        let end = EngineMark::ModelFinished {
            finish_reason,
            usage,
            model,
            response_model,
            echo,
            stop_sequence,
            times: None,
        };
        (tool_calls, end)
    }

    /// The same completion of a request to the model with this name at its provider.
    #[must_use]
    pub fn of_model(mut self, asked: &str) -> Self {
        self.response_model
            .take_if(|name| name == asked || name.is_empty() || name.len() > Self::MODEL_BYTES);
        self
    }
}

/// Why a call gave no complete answer. The text is for clients: no URL and no key (P9).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No model of this id is configured.
    #[error("model '{0}' is not configured")]
    NotFound(String),
    /// The provider rejected the request and would reject it again.
    #[error("{0}")]
    Refused(String),
    /// The provider's content filter rejected the request.
    #[error("{0}")]
    Filtered(String),
    /// The provider rejected this server: bad key, spent quota. Another model may answer.
    #[error("{0}")]
    Denied(String),
    /// The provider does not know the model. Another model may answer.
    #[error("{0}")]
    UnknownModel(String),
    /// The request exceeds the context window; a shorter one may fit.
    #[error("{0}")]
    ContextTooLong(String),
    /// A rate limit postponed the call. It was not made, and nothing failed.
    #[error("{message}")]
    Busy {
        /// The limit that the call waits for.
        message: String,
        /// Suggested delay, milliseconds.
        retry_after_ms: u64,
    },
    /// The provider limits requests. A later call may be answered.
    #[error("{message}")]
    RateLimited {
        /// The failure.
        message: String,
        /// Delay that the provider requested, milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The provider was unreachable or busy, or broke off. A retry may help.
    #[error("{message}")]
    Unavailable {
        /// The failure.
        message: String,
        /// Delay that the provider requested, milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The answer exceeded a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The sink or the cancel token ended the call.
    #[error("the call was stopped")]
    Stopped,
}

/// Why a request was not answered in full. The text is for clients: no URL and no key (P9).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// The model's provider has no such endpoint.
    #[error("{0}")]
    NotOffered(String),
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] ModelError),
}

/// The end of such a request.
#[derive(Debug)]
pub struct ForwardOutcome {
    /// Tokens, also of a call that failed; estimated where the provider reports none.
    pub usage: Usage,
    /// Whether the whole answer went through the sink.
    pub result: Result<(), ForwardError>,
}

impl ForwardOutcome {
    /// The outcome of a request that reached no provider.
    pub fn failed(error: impl Into<ForwardError>) -> Self {
        Self { usage: Usage::default(), result: Err(error.into()) }
    }
}

/// Public facts about a configured model: its host, but no URL and no key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// Id that jobs use.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Host of its provider, without a port; `None` without a network.
    pub host: Option<String>,
    /// Maximum tokens of a request and its answer together, where known.
    pub context_window: Option<u32>,
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u32>,
    /// Models to try, in this order, when this one fails.
    pub fallback: Vec<String>,
    /// Price of its tokens; without one, calls cost 0.
    pub price: Option<Price>,
    /// Whether chat requests that name no tools get the server's tools.
    pub is_agent: bool,
    /// Whether it reads images.
    pub sees_images: bool,
    /// Whether its provider takes examples of arguments beside the schema of a tool.
    pub takes_input_examples: bool,
}

impl ModelInfo {
    /// The model and its host, as messages for people name them.
    pub fn place(&self) -> String {
        match &self.host {
            Some(host) => format!("model '{}' at {host}", self.id),
            None => format!("model '{}'", self.id),
        }
    }
}

impl ModelError {
    /// The same error whose text names the model and its host.
    #[must_use]
    pub fn at(self, model: &ModelInfo) -> Self {
        let named = |text: String| format!("{}: {text}", model.place());
        match self {
            Self::Refused(text) => Self::Refused(named(text)),
            Self::Filtered(text) => Self::Filtered(named(text)),
            Self::Denied(text) => Self::Denied(named(text)),
            Self::UnknownModel(text) => Self::UnknownModel(named(text)),
            Self::ContextTooLong(text) => Self::ContextTooLong(named(text)),
            Self::TooLarge(text) => Self::TooLarge(named(text)),
            Self::Busy { message, retry_after_ms } => Self::Busy { message: named(message), retry_after_ms },
            Self::RateLimited { message, retry_after_ms } => {
                Self::RateLimited { message: named(message), retry_after_ms }
            }
            Self::Unavailable { message, retry_after_ms } => {
                Self::Unavailable { message: named(message), retry_after_ms }
            }
            Self::NotFound(_) | Self::Stopped => self,
        }
    }

    /// The cause for a log: the text without a provider's own words, which may quote a prompt.
    pub fn cause(&self) -> String {
        let text = self.to_string();
        text.split(": ").next().unwrap_or_default().to_owned()
    }
}

/// A model provider.
pub trait Model: Send + Sync {
    /// Sends the request and passes on pieces as they arrive. Returns within a second after `cancel` is
    /// cancelled or the sink breaks off, even while the provider hangs.
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError>;
    /// Passes a request on to another endpoint of the model's provider, with the configured key, and its
    /// answer back. Ends like [`Self::ask`].
    fn forward(&self, request: &ForwardRequest, _: &CancelToken, _: ForwardSink<'_>) -> ForwardOutcome {
        let text = format!("model '{}' has no {}", request.model, request.endpoint.path());
        ForwardOutcome::failed(ForwardError::NotOffered(text))
    }
    /// Configured models, in configured order.
    fn models(&self) -> Vec<ModelInfo>;
    /// How each model does, in configured order, at this monotonic time. A model that keeps no account of its
    /// calls is left out.
    fn health(&self, _now_ms: u64) -> Vec<ModelHealth> {
        Vec::new()
    }
    /// Whether the next prompt is shortened. Only a replay knows that without the model's window.
    fn prompt_cut(&self) -> PromptCut {
        PromptCut::AsNeeded
    }
    /// The configured model of this id.
    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.models().into_iter().find(|model| model.id == id)
    }
}

/// Whether the oldest messages are left out of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptCut {
    /// If the prompt does not fit into the model's window.
    AsNeeded,
    /// They are not.
    Never,
    /// In the replay of a run that left them out here.
    At {
        /// How many of the newest messages of history and input stay.
        kept_history: usize,
        /// How many of the oldest messages of the job are left out.
        omitted_job_messages: usize,
    },
}

/// Receives the pieces of an answer; `Break` ends the call.
pub type ChunkSink<'a> = &'a mut dyn FnMut(Chunk<'_>) -> ControlFlow<()>;
