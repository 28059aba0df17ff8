//! What this dialect's errors mean. Owns the words that it uses; the telling, and what all dialects share, is
//! [`Teller`]'s.

use crate::llm::wire::failure::Teller;
use crate::ports::ModelError;
use serde_json::Value;

/// What Anthropic says when the request does not fit.
const TOO_LONG: [&str; 3] =
    ["prompt is too long", "exceed context limit", "exceeds the maximum number of tokens"];
/// What it says when nothing is left to pay with.
const UNPAID: [&str; 1] = ["credit balance is too low"];

/// What an error in an answer means that began with 200.
pub(super) fn read(teller: &Teller, event: &Value) -> ModelError {
    let error = event.get("error").unwrap_or(event);
    let told = teller.error_object(error);
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "authentication_error" | "permission_error" | "billing_error" | "not_found_error" => {
            ModelError::Denied(told.to_string())
        }
        "overloaded_error" | "rate_limit_error" | "api_error" | "timeout_error" => {
            ModelError::Unavailable { message: told.to_string(), retry_after_ms: None }
        }
        _ => judge(told),
    }
}

/// Tells a refusal that a shorter request, or another model, would not meet.
pub(super) fn judge(error: ModelError) -> ModelError {
    let ModelError::Refused(message) = error else { return error };
    let lower = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&TOO_LONG) {
        ModelError::ContextTooLong(message)
    } else if says(&UNPAID) {
        ModelError::Denied(message)
    } else {
        ModelError::Refused(message)
    }
}
