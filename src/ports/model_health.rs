//! How a configured model does, as its calls since the start have shown.

use serde::Serialize;

/// How a model does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelHealth {
    /// Configured model id.
    pub id: String,
    /// The state.
    pub state: ModelState,
    /// Time until the provider is asked again, milliseconds.
    pub retry_in_ms: Option<u64>,
    /// Why it is not `ok`. For operators: it may name the provider, but no URL, no key and no prompt (P9).
    pub reason: Option<String>,
}

/// The state of a model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelState {
    /// No call has ended since the start.
    Unknown,
    /// The last call was answered.
    Ok,
    /// The last call failed; the next one is made.
    Failing,
    /// The provider asked for a pause.
    CoolingDown,
    /// The circuit breaker is open: calls to the provider have failed in a row.
    Unreachable,
}
