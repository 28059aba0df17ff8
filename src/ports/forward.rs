//! Endpoints of a provider that requests are passed on to as they are.

use crate::domain::id::UserId;
use serde_json::{Map, Value};
use std::ops::ControlFlow;

/// An endpoint of `OpenAI`'s API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardEndpoint {
    /// `/embeddings`.
    Embeddings,
    /// `/completions`, from before chats.
    Completions,
}

impl ForwardEndpoint {
    /// The path below the version of the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Embeddings => "/embeddings",
            Self::Completions => "/completions",
        }
    }

    /// The field with the text for the model.
    pub fn input_field(self) -> &'static str {
        match self {
            Self::Embeddings => "input",
            Self::Completions => "prompt",
        }
    }
}

/// A request that is passed on. The provider's name of the model replaces that in the body.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardRequest {
    /// For whom it is made.
    pub user: UserId,
    /// The endpoint.
    pub endpoint: ForwardEndpoint,
    /// Configured model id.
    pub model: String,
    /// The body as the client sent it.
    pub body: Map<String, Value>,
}

/// Receives the bytes of an answer; `Break` ends the call.
pub type ForwardSink<'a> = &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>;
