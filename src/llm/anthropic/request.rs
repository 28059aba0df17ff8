//! The request body in this dialect, except for the conversation ([`AnthropicMessages`]). It leaves out
//! combinations that providers refuse.

use super::turns::{self, AnthropicMessages};
use crate::domain::tool::ToolDefinition;
use crate::llm::dialect_options::DialectOptions;
use crate::llm::transport::request_body::ProviderRequestBody;
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};

/// Limit of an answer without a requested or configured one; the dialect requires one.
const MAX_TOKENS: u32 = 8192;
/// Tokens for reasoning, if the limit of the answer allows them.
const BUDGET: u32 = 4096;
/// The lowest budget that providers accept.
const BUDGET_MIN: u32 = 1024;
/// The limit of an answer with reasoning, if none is configured.
const CEILING: u32 = 32_000;

/// The request body.
pub(super) fn body(request: &ModelRequest, options: &DialectOptions) -> ProviderRequestBody {
    let turns = AnthropicMessages::arrange(&request.messages, &request.model);
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| {
        body.insert(key.to_owned(), value);
    };
    put("model", json!(options.upstream_id));
    let limit = request.max_tokens.into_iter().chain(options.max_output_tokens).min().unwrap_or(MAX_TOKENS);
    let budget_of_answer = AnswerBudget::of(limit, options.max_output_tokens);
    match budget_of_answer.filter(|_| request.thinking && turns.may_think) {
        Some(AnswerBudget { max_tokens, budget }) => {
            put("max_tokens", json!(max_tokens));
            put("thinking", json!({"type": "enabled", "budget_tokens": budget}));
        }
        None => put("max_tokens", json!(limit)),
    }
    if !turns.system.is_empty() {
        put("system", json!(turns.system));
    }
    let called = &turns.tools_called;
    put("messages", json!(turns.messages));
    // Tools that the history names must be listed even when none may be called.
    let offered = if request.may_call || !called.is_empty() { &request.tools[..] } else { &[] };
    let removed = if request.tools.is_empty() { removed_tools(called) } else { Vec::new() };
    if (!offered.is_empty() || !removed.is_empty()) && (!request.may_call || offered.is_empty()) {
        put("tool_choice", json!({"type": "none"}));
    }
    if !removed.is_empty() {
        put("tools", json!(removed));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature.clamp(0.0, 1.0)));
    }
    put("stream", json!(true));
    body.extend(options.extra_body.clone());
    if thinks(&body) && !options.extra_body.contains_key("temperature") {
        body.shift_remove("temperature");
    }
    ProviderRequestBody::new(body).offering(offered, write_tool)
}

/// The request that continues an answer after its provider has paused.
pub(super) fn continuation(
    first: &ProviderRequestBody,
    blocks: Vec<Value>,
    container: Option<&str>,
) -> ProviderRequestBody {
    let mut next = first.clone();
    if let Some(messages) = next.fields.get_mut("messages").and_then(Value::as_array_mut) {
        turns::continue_with(messages, blocks);
    }
    if let Some(container) = container {
        next.fields.entry("container").or_insert_with(|| json!(container));
    }
    next
}

fn thinks(body: &Map<String, Value>) -> bool {
    let kind = body.get("thinking").and_then(|thinking| thinking.get("type"));
    kind.and_then(Value::as_str).is_some_and(|kind| kind != "disabled")
}

/// Tools that were called and no longer exist. Only their names are known.
fn removed_tools(called: &[String]) -> Vec<Value> {
    called.iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect()
}

fn write_tool(tool: &ToolDefinition, text: &mut String) {
    text.extend(["{", tool.introduction(), ",\"input_schema\":", tool.schema(), "}"]);
}

/// The limit of the answer and the share of it for reasoning.
struct AnswerBudget {
    max_tokens: u32,
    budget: u32,
}

impl AnswerBudget {
    /// The requested limit and the reasoning beside it, as far as the provider's limit allows; `None` if it
    /// leaves too little.
    fn of(limit: u32, max_output_tokens: Option<u32>) -> Option<Self> {
        let ceiling = max_output_tokens.unwrap_or(CEILING).max(limit);
        let max_tokens = limit.saturating_add(BUDGET).min(ceiling);
        // If the limit cannot be raised, reasoning gets half of it.
        let budget = (max_tokens - limit).max(max_tokens / 2).clamp(BUDGET_MIN, BUDGET);
        (budget < max_tokens).then_some(Self { max_tokens, budget })
    }
}
