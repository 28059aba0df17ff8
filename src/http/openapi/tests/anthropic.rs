//! `/v1/messages`.

use super::Drawing;
use super::bodies::body;
use super::openai::with_job_headers;
use super::operation::{Operation, json_of, named};
use super::shapes::{
    closed, function_name, image_url, messages, number, open, or_null, text, text_or_list, text_or_null,
};
use crate::http::v1::anthropic::input::IDLE as BLOCK_IDLE;
use crate::http::v1::anthropic::object::{MessageObject, TokenCountResponse};
use crate::http::v1::anthropic::request::{FIELDS, MessagesRequest};
use crate::http::v1::anthropic::tools::IDLE as TOOL_IDLE;
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    blocks(drawing);
    drawing.component("MessagesRequest", request(&["model", "max_tokens"]));
    drawing.component("CountTokensRequest", request(&["model"]));
    let beta = || json!({"type": "string", "description": "Accepted and unused"});
    let create = Operation::new("POST", "/v1/messages", "Asks a model: Anthropic's Messages API, as a job");
    let create = with_job_headers(create).query("beta", beta()).takes(json_of(named("MessagesRequest")));
    let mut answers = json_of(drawing.shape::<MessageObject>());
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    drawing.add(create.says(200, "The message, or with 'stream' its events", answers));
    let count = Operation::new("POST", "/v1/messages/count_tokens", "Estimates the tokens of a request")
        .query("beta", beta())
        .takes(json_of(named("CountTokensRequest")));
    let count = count.answers::<TokenCountResponse>(drawing, 200, "No model is called");
    drawing.add(count);
}

/// Fields that change nothing here.
fn with_idle(mut fields: Value, idle: &[&str]) -> Value {
    for name in idle.iter().copied() {
        if fields.get(name).is_none() {
            fields[name] = json!({"description": "Accepted and unused"});
        }
    }
    fields
}

/// A content block of this type with these fields and no others.
fn block(kind: &str, mut fields: Value, required: &[&str]) -> Value {
    fields["type"] = json!({"const": kind});
    closed(with_idle(fields, &BLOCK_IDLE), &[&["type"][..], required].concat())
}

fn blocks(drawing: &mut Drawing) {
    let data = json!({
        "type": {"const": "base64"}, "media_type": {"enum": ["image/png", "image/jpeg", "image/gif", "image/webp"]},
        "data": {"type": "string", "contentEncoding": "base64"},
    });
    let url = json!({"type": {"const": "url"}, "url": image_url()});
    let file = json!({"type": {"const": "file"}, "file_id": text()});
    let sources = [
        open(data, &["type", "media_type", "data"]),
        open(url, &["type", "url"]),
        open(file, &["type", "file_id"]),
    ];
    let plain = open(json!({"type": {"const": "text"}, "data": text()}), &["type", "data"]);
    let document = json!({"source": plain, "title": text_or_null(), "context": text_or_null()});
    let thinking = json!({"thinking": text(), "signature": {}});
    let call = json!({"id": text(), "name": text(), "input": {"type": "object"}});
    drawing.component("TextBlock", block("text", json!({"text": text()}), &["text"]));
    let texts = || text_or_list(named("TextBlock"));
    let document = block("document", document, &["source"]);
    let found = json!({"source": text(), "title": text(), "content": texts()});
    let found = block("search_result", found, &["source", "title", "content"]);
    let image = block("image", json!({"source": {"anyOf": sources}}), &["source"]);
    let parts = json!({"anyOf": [named("TextBlock"), image, document, found]});
    let result = json!({
        "tool_use_id": text(), "content": or_null(text_or_list(parts)), "is_error": {"type": ["boolean", "null"]},
    });
    let user =
        json!([named("TextBlock"), image, document, found, block("tool_result", result, &["tool_use_id"]),]);
    let assistant = json!([
        named("TextBlock"),
        block("thinking", thinking, &["thinking"]),
        open(json!({"type": {"const": "redacted_thinking"}}), &["type"]),
        block("tool_use", call, &["id", "name", "input"]),
    ]);
    let message = |role: &str, content: Value| {
        closed(json!({"role": {"const": role}, "content": content}), &["role", "content"])
    };
    let message = json!({"anyOf": [
        message("user", text_or_list(json!({"anyOf": user}))),
        message("assistant", text_or_list(json!({"anyOf": assistant}))),
        message("system", texts()),
    ]});
    drawing.component("MessageParam", message);
}

/// A tool of the client, or of this server.
fn tool() -> Value {
    let custom = json!({
        "type": {"enum": ["custom", null]}, "name": function_name(128), "description": text_or_null(),
        "input_schema": {"type": "object"}, "strict": {"type": ["boolean", "null"]},
        "input_examples": {"type": ["array", "null"], "items": {"type": "object"}},
    });
    let hosted = json!({
        "type": {"type": "string", "pattern": "^(web_search|code_execution|bash)_"}, "name": function_name(128),
        "allowed_callers": {}, "max_uses": {"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX},
    });
    json!({"anyOf": [
        closed(with_idle(custom, &TOOL_IDLE), &["name", "input_schema"]),
        closed(with_idle(hosted, &TOOL_IDLE), &["type", "name"]),
    ]})
}

fn request(required: &[&str]) -> Value {
    let number = number(0.0, 1.0);
    let stop = json!({"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1}});
    let flag = json!({"type": ["boolean", "null"]});
    let choice = |kinds: Value, mut fields: Value, required: &[&str]| {
        fields["type"] = json!({"enum": kinds});
        fields["disable_parallel_tool_use"] = flag.clone();
        open(fields, &[&["type"][..], required].concat())
    };
    let choice = json!({"anyOf": [
        choice(json!(["auto", "any", "none"]), json!({}), &[]),
        choice(json!(["tool"]), json!({"name": text()}), &["name"]),
    ]});
    let special = [
        ("messages", messages(named("MessageParam"))),
        ("model", named("Model")),
        ("system", text_or_list(named("TextBlock"))),
        ("temperature", number.clone()),
        ("top_p", number),
        ("top_k", json!({"type": "integer", "minimum": 0})),
        ("stop_sequences", stop),
        ("tools", json!({"type": "array", "maxItems": 128, "items": tool()})),
        ("tool_choice", choice),
    ];
    let mut drawn = body::<MessagesRequest>(&special, required);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}
