//! `/v1/messages`.

use super::Drawing;
use super::bodies::body;
use super::openai::with_job_headers;
use super::operation::{Operation, json_of, named};
use crate::http::v1::anthropic::object::{MessageObject, TokenCountResponse};
use crate::http::v1::anthropic::request::{FIELDS, MessagesRequest};
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    drawing.component("MessagesRequest", request());
    let beta = || json!({"type": "string", "description": "Accepted and unused"});
    let create = Operation::new("POST", "/v1/messages", "Asks a model: Anthropic's Messages API, as a job");
    let create = with_job_headers(create).query("beta", beta()).takes(json_of(named("MessagesRequest")));
    let mut answers = json_of(drawing.shape::<MessageObject>());
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    drawing.add(create.says(200, "The message, or with 'stream' its events", answers));
    let count = Operation::new("POST", "/v1/messages/count_tokens", "Estimates the tokens of a request")
        .query("beta", beta())
        .takes(json_of(named("MessagesRequest")));
    let count = count.answers::<TokenCountResponse>(drawing, 200, "No model is called");
    drawing.add(count);
}

fn request() -> Value {
    let block = json!({"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]});
    let content = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": block}]});
    let message = json!({
        "type": "object",
        "properties": {"role": {"enum": ["user", "assistant", "system"]}, "content": content},
        "required": ["role", "content"],
        "additionalProperties": false,
    });
    let number = json!({"type": "number", "minimum": 0.0, "maximum": 1.0});
    let stop = json!({"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1}});
    let choice = json!({
        "type": "object",
        "properties": {"type": {"enum": ["auto", "any", "tool", "none"]}, "name": {"type": "string"}},
        "required": ["type"],
    });
    let special = [
        ("messages", json!({"type": "array", "minItems": 1, "items": message})),
        ("model", named("Model")),
        ("system", content),
        ("temperature", number.clone()),
        ("top_p", number),
        ("top_k", json!({"type": "integer", "minimum": 0})),
        ("stop_sequences", stop),
        ("thinking", json!({"type": "object"})),
        ("tools", json!({"type": "array", "maxItems": 128, "items": {"type": "object"}})),
        ("tool_choice", choice),
        ("metadata", json!({"type": "object"})),
        ("output_config", json!({"type": "object"})),
    ];
    let mut drawn = body::<MessagesRequest>(&special, &["model"]);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}
