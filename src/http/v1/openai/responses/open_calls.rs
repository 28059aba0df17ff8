//! Calls whose results a request must bring: those among its items, and those that the response before has
//! handed to the client.

use super::{custom_tool, input, loaded_tools};
use crate::http::error::ApiError;
use crate::http::request::quoted::escaped;
use serde_json::Value;
use std::collections::HashSet;

/// Types of calls, and `OpenAI`'s words for them.
const CALLS: [(&str, &str); 3] = [
    ("function_call", "function call"),
    (custom_tool::CALL, "custom tool call"),
    (loaded_tools::CALL, "tool search call"),
];
/// Types of results.
const RESULTS: [&str; 3] = ["function_call_output", custom_tool::RESULT, loaded_tools::RESULT];

/// A call that the client answers.
#[derive(Debug)]
pub(super) struct ClientCall {
    /// What it is in messages.
    words: &'static str,
    id: String,
}

/// The client's calls among the items.
pub(super) fn calls(items: &[Value]) -> Vec<ClientCall> {
    let call = |item: &Value| {
        let (_, words) = CALLS.into_iter().find(|(kind, _)| *kind == input::kind(item))?;
        Some(ClientCall { words, id: item.get("call_id")?.as_str()?.to_owned() })
    };
    items.iter().filter_map(call).collect()
}

/// Fails at a call without a result. `handed` are the calls of the response before.
pub(super) fn check(handed: &[ClientCall], items: &[Value]) -> Result<(), ApiError> {
    let results = items.iter().filter(|item| RESULTS.contains(&input::kind(item)));
    let answered: HashSet<&str> = results.filter_map(|item| item.get("call_id")?.as_str()).collect();
    let given = calls(items);
    match handed.iter().chain(&given).find(|call| !answered.contains(call.id.as_str())) {
        None => Ok(()),
        Some(ClientCall { words, id }) => {
            let text = format!("No tool output found for {words} {}.", escaped(id));
            Err(ApiError::value("input", text))
        }
    }
}
