//! The request body in this dialect, except for the conversation ([`AnthropicMessages`]). It leaves out
//! combinations that providers refuse.

use super::turns::{self, AnthropicMessages};
use crate::domain::model_settings::{CallMode, ModelSettings, ReasoningEffort};
use crate::domain::tool::ToolDefinition;
use crate::llm::dialect_options::DialectOptions;
use crate::llm::transport::request_body::ProviderRequestBody;
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};

/// Limit of an answer without a requested or configured one; the dialect requires one.
const MAX_TOKENS: u32 = 8192;
/// Tokens for reasoning, if the limit of the answer allows them.
const BUDGET: u32 = 4096;
/// The same for more effort.
const BUDGET_HIGH: u32 = 10_000;
const BUDGET_XHIGH: u32 = 20_000;
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
    let settings = &request.settings;
    let budget_of_answer = match settings.reasoning_tokens {
        Some(most) => AnswerBudget::within(limit, most),
        None => AnswerBudget::of(limit, options.max_output_tokens, settings.reasoning_effort),
    };
    // Providers refuse a forced call together with reasoning.
    let may_think = turns.may_think && settings.call_mode.is_none();
    match budget_of_answer.filter(|_| request.thinking && may_think) {
        Some(AnswerBudget { max_tokens, budget }) => {
            put("max_tokens", json!(max_tokens));
            put("thinking", json!({"type": "enabled", "budget_tokens": budget}));
        }
        None => put("max_tokens", json!(limit)),
    }
    let format = settings.response_format.as_ref().map(|format| turns::text(&format.instruction()));
    let system: Vec<Value> = turns.system.into_iter().chain(format).collect();
    if !system.is_empty() {
        put("system", json!(system));
    }
    let called = &turns.tools_called;
    put("messages", json!(turns.messages));
    // Tools that the history names must be listed even when none may be called.
    let offered = if request.may_call || !called.is_empty() { &request.tools[..] } else { &[] };
    let removed = if request.tools.is_empty() { removed_tools(called) } else { Vec::new() };
    if !offered.is_empty() || !removed.is_empty() {
        let may_call = request.may_call && !offered.is_empty();
        if let Some(choice) = tool_choice(settings, may_call) {
            put("tool_choice", choice);
        }
    }
    if !removed.is_empty() {
        put("tools", json!(removed));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature.clamp(0.0, 1.0)));
    }
    if !settings.stop.is_empty() {
        put("stop_sequences", json!(settings.stop));
    }
    // Newer models refuse both.
    if let Some(top_p) = settings.top_p.filter(|_| request.temperature.is_none()) {
        put("top_p", json!(top_p));
    }
    if let Some(top_k) = settings.top_k {
        put("top_k", json!(top_k));
    }
    put("stream", json!(true));
    body.extend(options.extra_body.clone());
    for field in ["temperature", "top_p", "top_k"] {
        if thinks(&body) && !options.extra_body.contains_key(field) {
            body.shift_remove(field);
        }
    }
    ProviderRequestBody::new(body).offering(offered, write_tool)
}

/// Whether the model must call something. `None`: as the provider does by itself.
fn tool_choice(settings: &ModelSettings, may_call: bool) -> Option<Value> {
    let single = settings.parallel_tool_calls == Some(false);
    let (kind, name) = match &settings.call_mode {
        _ if !may_call => return Some(json!({"type": "none"})),
        None if single => ("auto", None),
        None => return None,
        Some(CallMode::Required) => ("any", None),
        Some(CallMode::Named(name)) => ("tool", Some(name)),
    };
    let mut choice = Map::new();
    choice.insert("type".to_owned(), json!(kind));
    choice.extend(name.map(|name| ("name".to_owned(), json!(name))));
    choice.extend(single.then(|| ("disable_parallel_tool_use".to_owned(), json!(true))));
    Some(choice.into())
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
    text.extend(["{", tool.introduction(), ",\"input_schema\":", tool.schema()]);
    if let Some(examples) = tool.examples() {
        text.extend([",\"input_examples\":", examples]);
    }
    text.push('}');
}

/// The limit of the answer and the share of it for reasoning.
struct AnswerBudget {
    max_tokens: u32,
    budget: u32,
}

impl AnswerBudget {
    /// The requested limit and the reasoning beside it, as far as the provider's limit allows; `None` if it
    /// leaves too little.
    fn of(limit: u32, max_output_tokens: Option<u32>, effort: Option<ReasoningEffort>) -> Option<Self> {
        let wanted = match effort {
            None | Some(ReasoningEffort::Medium) => BUDGET,
            Some(ReasoningEffort::None | ReasoningEffort::Minimal | ReasoningEffort::Low) => BUDGET_MIN,
            Some(ReasoningEffort::High) => BUDGET_HIGH,
            Some(ReasoningEffort::Xhigh | ReasoningEffort::Max) => BUDGET_XHIGH,
        };
        let ceiling = max_output_tokens.unwrap_or(CEILING).max(limit);
        let max_tokens = limit.saturating_add(wanted).min(ceiling);
        // If the limit cannot be raised, reasoning gets half of it.
        let budget = (max_tokens - limit).max(max_tokens / 2).clamp(BUDGET_MIN, wanted);
        (budget < max_tokens).then_some(Self { max_tokens, budget })
    }

    /// The requested limit with this much reasoning in it; `None` if it leaves too little.
    fn within(max_tokens: u32, most: u32) -> Option<Self> {
        let budget = most.min(max_tokens.saturating_sub(1));
        (budget >= BUDGET_MIN).then_some(Self { max_tokens, budget })
    }
}
