//! What the fold needs beside the log.

use std::collections::BTreeMap;

/// A configured model, as the conventions name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelIdentity {
    /// `gen_ai.provider.name`.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// Host and port of the provider.
    pub server: Option<(String, u16)>,
}

/// What the fold needs beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanOptions {
    /// The configured models by their ids.
    pub models: BTreeMap<String, ModelIdentity>,
    /// Whether spans hold prompts, answers, arguments and results.
    pub include_content: bool,
}
