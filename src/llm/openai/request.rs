//! The request's body. Owns the wire form of messages and tools; refuses to send arguments that are not JSON.

use super::quirks::{Quirks, ThinkingField};
use crate::domain::message::Message;
use crate::domain::tool::{ToolCall, ToolSpec};
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};

/// What is posted.
pub(super) fn body(request: &ModelRequest, max_output_tokens: Option<u32>, quirks: &Quirks) -> Value {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| {
        body.insert(key.to_owned(), value);
    };
    put("model", json!(request.model));
    put("messages", request.messages.iter().map(|m| message(m, quirks)).collect());
    put("stream", json!(true));
    put("stream_options", json!({"include_usage": true}));
    if request.may_call && !request.tools.is_empty() {
        put("tools", request.tools.iter().map(tool).collect());
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature));
    }
    if let Some(bound) = request.max_tokens.into_iter().chain(max_output_tokens).min() {
        put(quirks.max_tokens, json!(bound));
    }
    match quirks.thinking {
        ThinkingField::None => {}
        ThinkingField::Type => {
            let state = if request.thinking { "enabled" } else { "disabled" };
            put("thinking", json!({"type": state}));
        }
        ThinkingField::Enabled => put("reasoning", json!({"enabled": request.thinking})),
    }
    Value::Object(body)
}

fn message(message: &Message, quirks: &Quirks) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content, attachments } => {
            json!({"role": "user", "content": Message::user_text(content, attachments)})
        }
        Message::Tool { id_ref, content, .. } => {
            json!({"role": "tool", "tool_call_id": id_ref, "content": content})
        }
        Message::Assistant { content, thinking, tool_calls, .. } => {
            let mut said = Map::new();
            said.insert("role".to_owned(), json!("assistant"));
            let silent = content.is_empty() && !tool_calls.is_empty();
            said.insert("content".to_owned(), if silent { Value::Null } else { json!(content) });
            if quirks.echoes_reasoning && !thinking.is_empty() {
                said.insert("reasoning_content".to_owned(), json!(thinking));
            }
            if !tool_calls.is_empty() {
                said.insert("tool_calls".to_owned(), tool_calls.iter().map(call).collect());
            }
            Value::Object(said)
        }
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id_ref,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments(&call.arguments)},
    })
}

/// Providers refuse a history with malformed arguments; the tool's result has told the model what was wrong.
fn arguments(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => text.to_owned(),
        _ if text.trim().is_empty() => "{}".to_owned(),
        _ => json!({"malformed_arguments": text}).to_string(),
    }
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ModelRequest {
        let call = |arguments: &str| ToolCall {
            id_ref: "c1".into(),
            name: "calculator".into(),
            arguments: arguments.into(),
        };
        ModelRequest {
            model: "m".into(),
            messages: vec![
                Message::System { content: "be brief".into() },
                Message::user("hi"),
                Message::Assistant {
                    content: String::new(),
                    thinking: "hm".into(),
                    tool_calls: vec![call("{\"a\":1}"), call("{bad"), call("")],
                    echo: None,
                },
                Message::Tool { id_ref: "c1".into(), name: "calculator".into(), content: "{}".into() },
            ],
            tools: vec![ToolSpec { name: "t", description: "d", parameters: json!({"type": "object"}) }],
            may_call: true,
            temperature: Some(0.5),
            max_tokens: Some(100),
            thinking: true,
        }
    }

    #[test]
    fn a_plain_provider_gets_the_plain_dialect() {
        let sent = body(&request(), Some(50), &Quirks::of_host("localhost"));
        assert_eq!(sent["messages"][2]["content"], Value::Null);
        assert_eq!(sent["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
        assert_eq!(sent["messages"][2]["tool_calls"][2]["function"]["arguments"], "{}");
        assert_eq!(sent["messages"][3], json!({"role": "tool", "tool_call_id": "c1", "content": "{}"}));
        assert_eq!(sent["stream_options"], json!({"include_usage": true}));
        assert_eq!(sent["tools"][0]["function"]["name"], "t");
        assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(50), &json!(0.5)));
        assert!(sent.get("thinking").is_none() && sent["messages"][2].get("reasoning_content").is_none());
    }

    #[test]
    fn malformed_arguments_are_never_echoed_as_they_are() {
        let sent = body(&request(), None, &Quirks::of_host("localhost"));
        let echoed = sent["messages"][2]["tool_calls"][1]["function"]["arguments"].as_str().expect("a text");
        assert_eq!(
            serde_json::from_str::<Value>(echoed).expect("JSON"),
            json!({"malformed_arguments": "{bad"})
        );
    }

    #[test]
    fn quirks_follow_the_host() {
        let sent = body(&request(), None, &Quirks::of_host("api.deepseek.com"));
        assert_eq!(sent["thinking"], json!({"type": "enabled"}));
        assert_eq!(sent["messages"][2]["reasoning_content"], "hm");
        let sent = body(&request(), None, &Quirks::of_host("api.openai.com"));
        assert_eq!(sent["max_completion_tokens"], 100);
        assert_eq!(Quirks::of_host("notz.ai"), Quirks::of_host("localhost"));
    }
}
