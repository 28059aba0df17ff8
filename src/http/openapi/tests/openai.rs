//! Routes of `OpenAI`'s API.

use super::Drawing;
use super::bodies::body;
use super::operation::{Operation, json_of, named};
use crate::domain::tool::Strictness;
use crate::http::v1::openai::chat::completion::ChatCompletion;
use crate::http::v1::openai::chat::request::{ChatRequest, FIELDS};
use crate::http::v1::openai::models::{ModelListResponse, OpenAiModel};
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    let list = Operation::new("GET", "/v1/models", "The configured models");
    let list = list.answers::<ModelListResponse>(drawing, 200, "In configured order");
    drawing.add(list);
    let show = Operation::new("GET", "/v1/models/{*id}", "One model");
    let show = show.answers::<OpenAiModel>(drawing, 200, "It is configured");
    drawing.add(show);
    drawing.component("ChatCompletionRequest", chat_request());
    let summary = "Asks a model: OpenAI's chat completions, as a job";
    let chat = with_job_headers(Operation::new("POST", "/v1/chat/completions", summary))
        .takes(json_of(named("ChatCompletionRequest")));
    let mut answers = json_of(drawing.shape::<ChatCompletion>());
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    drawing.add(chat.says(200, "The completion, or with 'stream' its chunks and [DONE]", answers));
    forwarded(drawing, ("/v1/embeddings", "input"), "Asks the model's provider for vectors; no job");
    forwarded(drawing, ("/v1/completions", "prompt"), "Passes a text on to the model's provider; no job");
}

/// A route whose body and answer are the provider's.
fn forwarded(drawing: &mut Drawing, (path, input): (&'static str, &str), summary: &'static str) {
    let input_schema = json!({"anyOf": [{"type": "string"}, {"type": "array"}]});
    let body = json!({
        "type": "object",
        "properties": {"model": named("Model"), input: input_schema},
        "required": ["model", input],
    });
    let mut answers = json_of(json!({"type": "object"}));
    if path == "/v1/completions" {
        answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
    let operation = Operation::new("POST", path, summary).takes(json_of(body));
    drawing.add(operation.says(200, "The provider's answer as it is", answers));
}

/// The same with the headers of a request that becomes a job.
pub(super) fn with_job_headers(operation: Operation) -> Operation {
    let tools =
        json!({"type": "string", "minLength": 1, "description": "default, none, or names with commas"});
    operation
        .header("Idempotency-Key", json!({"type": "string", "minLength": 1, "maxLength": 255}))
        .header("NanoClaw-Tools", tools)
        .header("NanoClaw-Project", json!({"type": "string", "minLength": 1}))
        .header("NanoClaw-Strictness", json!({"enum": Strictness::ALL.map(Strictness::name)}))
        .header("NanoClaw-Priority", json!({"type": "integer", "minimum": 0, "maximum": 9}))
        .header("NanoClaw-Webhook", json!({"type": "string", "format": "uri", "maxLength": 2_048}))
}

/// A text, or a list of such items.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
fn text_or_list(items: Value) -> Value {
    json!({"anyOf": [{"type": "string"}, {"type": "array", "items": items}]})
}

/// An object with these fields and no others.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
fn closed(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// A message of each role. A result must follow its call, which no schema can say.
fn message() -> Value {
    let part = json!({"type": {"enum": ["text"]}, "text": {"type": "string"}});
    let content = text_or_list(closed(part, &["type", "text"]));
    let or_null = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
    let text_or_null = json!({"type": ["string", "null"]});
    let function = json!({"name": {"type": "string"}, "arguments": {"type": "string"}});
    let function = closed(function, &["name", "arguments"]);
    let call = json!({"id": {"type": "string"}, "type": {"enum": ["function"]}, "function": function});
    let calls = json!({"type": "array", "minItems": 1, "items": closed(call, &["id", "function"])});
    let asked = json!({
        "role": {"enum": ["system", "developer", "user"]}, "content": content, "name": text_or_null,
    });
    let said = json!({
        "role": {"enum": ["assistant"]}, "content": content, "name": text_or_null,
        "reasoning_content": text_or_null, "tool_calls": or_null(calls.clone()),
    });
    let called = json!({
        "role": {"enum": ["assistant"]}, "content": or_null(content.clone()), "name": text_or_null,
        "reasoning_content": text_or_null, "tool_calls": calls,
    });
    let result = json!({"role": {"enum": ["tool"]}, "content": content, "tool_call_id": {"type": "string"}});
    json!({"anyOf": [
        closed(asked, &["role", "content"]),
        closed(said, &["role", "content"]),
        closed(called, &["role", "tool_calls"]),
        closed(result, &["role", "content", "tool_call_id"]),
    ]})
}

fn chat_request() -> Value {
    let format = json!({
        "type": "object",
        "properties": {
            "type": {"enum": ["text", "json_object", "json_schema"]},
            "json_schema": {"type": ["object", "null"]},
        },
        "required": ["type"],
    });
    let stop = json!({"anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "maxItems": 4, "items": {"type": "string", "minLength": 1}},
    ]});
    let number = |least: f64, most: f64| json!({"type": "number", "minimum": least, "maximum": most});
    let special = [
        ("messages", json!({"type": "array", "minItems": 1, "items": message()})),
        ("model", named("Model")),
        ("metadata", named("Metadata")),
        ("tools", json!({"type": "array", "maxItems": 128, "items": tool()})),
        ("tool_choice", json!({"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}]})),
        ("response_format", format),
        ("stop", stop),
        ("top_p", number(0.0, 1.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("seed", json!({"type": "integer"})),
    ];
    let mut drawn = body::<ChatRequest>(&special, &[]);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}

fn tool() -> Value {
    let function = json!({
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "description": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]},
        "strict": {"type": ["boolean", "null"]},
    });
    let tool = json!({"type": {"enum": ["function"]}, "function": closed(function, &["name"])});
    closed(tool, &["type", "function"])
}
