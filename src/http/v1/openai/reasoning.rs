//! `reasoning`: how much the model thinks, and which form of its thoughts the client wants.

use super::failure::unsupported;
use crate::domain::model_settings::ReasoningEffort;
use crate::http::error::ApiError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// `reasoning` of a request.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasoningOptions {
    pub(crate) effort: Option<ReasoningEffort>,
    /// Repeated in responses, else unused: clients see all thoughts that the provider shows.
    summary: Option<SummaryLength>,
    generate_summary: Option<SummaryLength>,
    /// Accepted and unused: which turns' reasoning the model reads is its provider's matter.
    #[serde(rename = "context")]
    _context: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SummaryLength {
    Auto,
    Concise,
    Detailed,
}

/// `reasoning` in the response.
pub(crate) fn shown_reasoning(given: Option<&ReasoningOptions>) -> Value {
    let summary = given.and_then(|given| given.summary.or(given.generate_summary));
    json!({"effort": given.and_then(|given| given.effort), "summary": summary})
}

/// The effort of a chat request, which has a field of its own for it. Some clients send `reasoning` as well.
pub(crate) fn effort_of_chat(
    effort: Option<ReasoningEffort>,
    reasoning: Option<&ReasoningOptions>,
) -> Result<Option<ReasoningEffort>, ApiError> {
    match (effort, reasoning.and_then(|reasoning| reasoning.effort)) {
        (Some(one), Some(other)) if one != other => Err(unsupported(
            "reasoning.effort",
            "'reasoning.effort' and 'reasoning_effort' differ: send one of them".to_owned(),
        )),
        (one, other) => Ok(one.or(other)),
    }
}
