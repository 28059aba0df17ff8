//! Routes of `OpenAI`'s API.

use super::Drawing;
use super::bodies::body;
use super::operation::{Operation, json_of, named};
use super::shapes::{
    closed, function_name, image_detail, image_url, messages, number, open, or_null, text, text_or_list,
    text_or_null,
};
use super::v1::key;
use crate::domain::tool::Strictness;
use crate::http::v1::anthropic::models::{AnthropicModel, AnthropicModelPage, MODELS_MAX};
use crate::http::v1::openai::chat::completion::ChatCompletion;
use crate::http::v1::openai::chat::request::{ChatRequest, FIELDS};
use crate::http::v1::openai::chat::stored::{
    ChatPageResponse, CompletionUpdateRequest, DeletedCompletionResponse, StoredChatMessage, StoredCompletion,
};
use crate::http::v1::openai::models::{ModelListResponse, OpenAiModel};
use serde_json::{Value, json};

/// What the field `store` says.
pub(super) const UNSTORED: &str = "`false`: the job ends with its client, and may be in memory until its end";

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    models(drawing);
    drawing.component("ChatCompletionRequest", chat_request());
    let summary = "Asks a model: OpenAI's chat completions, as a job";
    let chat = with_job_headers(Operation::new("POST", "/v1/chat/completions", summary))
        .takes(json_of(named("ChatCompletionRequest")));
    let mut answers = json_of(drawing.shape::<ChatCompletion>());
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    drawing.add(chat.says(200, "The completion, or with 'stream' its chunks and [DONE]", answers));
    stored(drawing);
    forwarded(drawing, ("/v1/embeddings", "input"), "Asks the model's provider for vectors; no job");
    forwarded(drawing, ("/v1/completions", "prompt"), "Passes a text on to the model's provider; no job");
}

/// Models, in the shape of the client's API.
fn models(drawing: &mut Drawing) {
    let version = || json!({"type": "string", "description": "Answers in Anthropic's shape"});
    let beta = || json!({"type": "string", "description": "Accepted and unused"});
    let id = || json!({"type": "string", "description": "With 'anthropic-version' alone"});
    let list = Operation::new("GET", "/v1/models", "The configured models")
        .header("anthropic-version", version())
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": MODELS_MAX, "description": "With 'anthropic-version' alone"}))
        .query("after_id", id())
        .query("before_id", id())
        .query("beta", beta());
    let shapes = [drawing.shape::<ModelListResponse>(), drawing.shape::<AnthropicModelPage>()];
    drawing.add(list.says(200, "In configured order", json_of(json!({"anyOf": shapes}))));
    let show = Operation::new("GET", "/v1/models/{*id}", "One model")
        .header("anthropic-version", version())
        .query("beta", beta());
    let shapes = [drawing.shape::<OpenAiModel>(), drawing.shape::<AnthropicModel>()];
    drawing.add(show.says(200, "It is configured", json_of(json!({"anyOf": shapes}))));
}

/// Completions that were created with `store`.
fn stored(drawing: &mut Drawing) {
    const ONE: &str = "/v1/chat/completions/{id}";
    let page = |operation: Operation, after: Value| {
        operation
            .query("after", after)
            .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
            .query("order", json!({"enum": ["asc", "desc"]}))
    };
    let list = Operation::new("GET", "/v1/chat/completions", "Chat completions that were stored");
    let after = json!({"type": "string", "pattern": "^chatcmpl-job_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let list = page(list, after).query("model", json!({"type": "string"}));
    let said = "Oldest first by default";
    let list = list.answers::<ChatPageResponse<StoredCompletion>>(drawing, 200, said);
    drawing.add(list);
    let show = Operation::new("GET", ONE, "A stored chat completion");
    let show = show.answers::<StoredCompletion>(drawing, 200, "Its job has succeeded");
    drawing.add(show);
    let update = Operation::new("POST", ONE, "Replaces the metadata of a stored chat completion")
        .takes(json_of(body::<CompletionUpdateRequest>(&[("metadata", named("Metadata"))], &[])));
    let update = update.answers::<StoredCompletion>(drawing, 200, "It is stored");
    drawing.add(update);
    let delete = Operation::new("DELETE", ONE, "Deletes a stored chat completion with its job");
    let delete = delete.answers::<DeletedCompletionResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let path = "/v1/chat/completions/{id}/messages";
    let messages = Operation::new("GET", path, "The messages that a stored chat completion answered");
    let messages = page(messages, json!({"type": "string"}));
    let messages = messages.answers::<ChatPageResponse<StoredChatMessage>>(drawing, 200, said);
    drawing.add(messages);
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
    with_settings(operation.header("Idempotency-Key", key()))
}

/// The headers with the settings of a job.
pub(super) fn with_settings(operation: Operation) -> Operation {
    let tools =
        json!({"type": "string", "minLength": 1, "description": "default, none, or names with commas"});
    operation
        .header("NanoClaw-Tools", tools)
        .header("NanoClaw-Project", json!({"type": "string", "minLength": 1}))
        .header("NanoClaw-Strictness", json!({"enum": Strictness::ALL.map(Strictness::name)}))
        .header("NanoClaw-Priority", json!({"type": "integer", "minimum": 0, "maximum": 9}))
        .header("NanoClaw-Webhook", json!({"type": "string", "format": "uri", "maxLength": 2_048}))
}

/// A message of each role. A result must follow its call, which no schema can say.
fn message() -> Value {
    let text_part = open(json!({"type": {"const": "text"}, "text": text()}), &["type", "text"]);
    let refusal = open(json!({"type": {"const": "refusal"}, "refusal": text()}), &["type", "refusal"]);
    let image = open(json!({"url": image_url(), "detail": image_detail()}), &["url"]);
    let image = json!({"type": {"const": "image_url"}, "image_url": {"anyOf": [image, image_url()]}});
    let image = open(image, &["type", "image_url"]);
    let content = text_or_list(json!({"anyOf": [text_part, refusal]}));
    let user_content = text_or_list(json!({"anyOf": [text_part, refusal, image]}));
    let function = json!({"name": {"type": "string"}, "arguments": {"type": "string"}});
    let function = closed(function, &["name", "arguments"]);
    let call = json!({"id": {"type": "string"}, "type": {"enum": ["function"]}, "function": function});
    let calls = json!({"type": "array", "minItems": 1, "items": closed(call, &["id", "function"])});
    let asked = json!({"role": {"enum": ["user"]}, "content": user_content, "name": text_or_null()});
    let instructed = json!({
        "role": {"enum": ["system", "developer"]}, "content": content, "name": text_or_null(),
    });
    let said = json!({
        "role": {"enum": ["assistant"]}, "content": content, "name": text_or_null(),
        "reasoning_content": text_or_null(), "tool_calls": or_null(calls.clone()),
    });
    let called = json!({
        "role": {"enum": ["assistant"]}, "content": or_null(content.clone()), "name": text_or_null(),
        "reasoning_content": text_or_null(), "tool_calls": calls,
    });
    let result = json!({"role": {"enum": ["tool"]}, "content": content, "tool_call_id": {"type": "string"}});
    json!({"anyOf": [
        closed(asked, &["role", "content"]),
        closed(instructed, &["role", "content"]),
        closed(said, &["role", "content"]),
        closed(called, &["role", "tool_calls"]),
        closed(result, &["role", "content", "tool_call_id"]),
    ]})
}

fn chat_request() -> Value {
    let function = open(json!({"name": text()}), &["name"]);
    let function = json!({"type": {"const": "function"}, "function": function});
    let choice =
        json!({"anyOf": [{"enum": ["none", "auto", "required"]}, open(function, &["type", "function"])]});
    let stop = json!({"anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "maxItems": 4, "items": {"type": "string", "minLength": 1}},
    ]});
    let special = [
        ("messages", messages(message())),
        ("model", named("Model")),
        ("metadata", named("Metadata")),
        ("tools", json!({"type": "array", "maxItems": 128, "items": tool()})),
        ("tool_choice", choice),
        ("stop", stop),
        ("top_p", number(0.0, 1.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("seed", json!({"type": "integer"})),
    ];
    let mut drawn = body::<ChatRequest>(&special, &["model"]);
    drawn["properties"]["store"]["description"] = json!(UNSTORED);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}

fn tool() -> Value {
    let function = json!({
        "name": function_name(64),
        "description": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]},
        "strict": {"type": ["boolean", "null"]},
    });
    let tool = json!({"type": {"enum": ["function"]}, "function": closed(function, &["name"])});
    closed(tool, &["type", "function"])
}
