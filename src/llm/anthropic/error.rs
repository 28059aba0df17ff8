//! The meaning of error types and texts that only Anthropic uses.

use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure};
use crate::ports::ModelError;
use serde_json::Value;

/// Texts for a request that does not fit.
const TOO_LONG: [&str; 3] =
    ["prompt is too long", "exceed context limit", "exceeds the maximum number of tokens"];
/// Texts for an account without credit.
const NO_CREDIT: [&str; 1] = ["credit balance is too low"];

/// The failure that an `error` event means.
pub(super) fn read(errors: &ErrorMapper, event: &Value) -> ProviderFailure {
    let error = event.get("error").unwrap_or(event);
    let failure = errors.error_object(error);
    let message = failure.error.to_string();
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    let meaning = match kind {
        "authentication_error" | "permission_error" | "billing_error" | "not_found_error" => {
            ModelError::Denied(message)
        }
        "overloaded_error" | "rate_limit_error" | "api_error" | "timeout_error" => {
            ModelError::Unavailable { message, retry_after_ms: None }
        }
        _ => refine(failure.error.clone()),
    };
    ProviderFailure { error: meaning, ..failure }
}

/// Tells a refusal that a shorter request or another model would avoid from others.
pub(super) fn refine(error: ModelError) -> ModelError {
    let ModelError::Refused(message) = error else { return error };
    let lower = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&TOO_LONG) {
        ModelError::ContextTooLong(message)
    } else if says(&NO_CREDIT) {
        ModelError::Denied(message)
    } else {
        ModelError::Refused(message)
    }
}
