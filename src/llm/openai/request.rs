//! The request body in this dialect: fields, messages, tools.

use super::naming;
use super::quirks::ProviderQuirks;
use super::replay_data;
use super::settings::put_settings;
use super::unsupported::{RESPONSE_FORMAT, UnsupportedParameters};
use crate::domain::attachment::Attachment;
use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::domain::tool::{ToolCall, ToolDefinition};
use crate::domain::user_parts::{self, UserPart};
use crate::llm::images::base64;
use crate::llm::transport::request_body::ProviderRequestBody;
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};

/// The settings that shape the requests to one model.
#[derive(Debug, Clone)]
pub(super) struct RequestShape {
    /// The model's name at the provider.
    pub(super) upstream_id: String,
    /// The provider's quirks.
    pub(super) quirks: ProviderQuirks,
    /// The configured limit of one answer, tokens.
    pub(super) max_output_tokens: Option<u32>,
    /// Fields that replace those of the dialect; `null` removes one.
    pub(super) extra: Map<String, Value>,
}

/// The request body without the fields that the provider does not support.
pub(super) fn body(
    request: &ModelRequest,
    shape: &RequestShape,
    unsupported: UnsupportedParameters,
) -> ProviderRequestBody {
    let quirks = &shape.quirks;
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| {
        if !unsupported.has(key) {
            body.insert(key.to_owned(), value);
        }
    };
    put("model", json!(shape.upstream_id));
    let format = request.settings.response_format.as_ref().filter(|_| unsupported.has(RESPONSE_FORMAT));
    let instructed = format.map(|format| with_instruction(&request.messages, &format.instruction()));
    let messages = instructed.as_ref().unwrap_or(&request.messages);
    put("messages", messages.iter().map(|m| message(m, request, quirks, unsupported)).collect());
    put("stream", json!(true));
    if quirks.reports_usage_on_demand {
        put("stream_options", json!({"include_usage": true}));
    }
    if let Some(temperature) = request.temperature.filter(|_| quirks.accepts_temperature(&shape.upstream_id))
    {
        put("temperature", json!(temperature));
    }
    // A configured limit replaces the cap of the provider. Without any limit the provider's own default
    // applies.
    let cap = shape.max_output_tokens.or(quirks.max_tokens_cap.filter(|_| request.max_tokens.is_some()));
    let limit = request.max_tokens.into_iter().chain(cap).min();
    if let (Some(limit), Some(field)) = (limit, unsupported.limit_field(quirks.max_tokens)) {
        put(field, json!(limit));
    }
    let is_offer = request.may_call && !unsupported.has("tools") && !shape.extra.contains_key("tools");
    let tools = if is_offer { &request.tools[..] } else { &[] };
    put_settings(request, (quirks, &shape.upstream_id), !tools.is_empty(), &mut put);
    for (key, value) in &shape.extra {
        if value.is_null() {
            body.shift_remove(key);
        } else {
            body.insert(key.clone(), value.clone());
        }
    }
    ProviderRequestBody::new(body).offering(tools, write_tool)
}

/// The messages with an instruction at the end of the first one: some providers accept only one instruction.
fn with_instruction(messages: &[Message], instruction: &str) -> Vec<Message> {
    let mut messages = messages.to_vec();
    match messages.first_mut() {
        Some(Message::System { content }) => {
            content.push_str("\n\n");
            content.push_str(instruction);
        }
        _ => messages.insert(0, Message::System { content: instruction.to_owned() }),
    }
    messages
}

fn message(
    message: &Message,
    request: &ModelRequest,
    quirks: &ProviderQuirks,
    unsupported: UnsupportedParameters,
) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content, attachments, images } => {
            json!({"role": "user", "content": user_content(content, attachments, images)})
        }
        Message::Tool { id_ref, content, .. } => {
            json!({"role": "tool", "tool_call_id": naming::id(id_ref, quirks.ids), "content": content})
        }
        Message::Assistant { content, thinking, tool_calls, echo } => {
            let mut fields = Map::new();
            fields.insert("role".to_owned(), json!("assistant"));
            let is_empty = content.is_empty() && !tool_calls.is_empty();
            fields.insert("content".to_owned(), if is_empty { Value::Null } else { json!(content) });
            // A thinking model refuses a turn with calls without this field, even if there was no reasoning.
            let is_wanted = !thinking.is_empty() || (request.thinking && !tool_calls.is_empty());
            if quirks.echoes_reasoning && is_wanted {
                fields.insert("reasoning_content".to_owned(), json!(thinking));
            }
            if !tool_calls.is_empty() {
                fields.insert(
                    "tool_calls".to_owned(),
                    tool_calls.iter().map(|one| call(one, quirks)).collect(),
                );
            }
            if let Some(echo) = echo.as_ref().filter(|echo| echo.model == request.model) {
                let ids: Vec<&str> = tool_calls.iter().map(|call| call.id_ref.as_str()).collect();
                replay_data::put_back(echo, &mut fields, &ids, !unsupported.has(replay_data::EXTRA));
            }
            fields.retain(|key, _| !unsupported.has(key));
            Value::Object(fields)
        }
    }
}

/// The text alone, or parts in the user's order.
fn user_content(content: &str, attachments: &[Attachment], images: &[Image]) -> Value {
    if images.is_empty() {
        return Message::user_text(content, attachments).into();
    }
    let image = |image: &Image| {
        let url = format!("data:{};base64,{}", image.media_type.as_str(), base64(image)?);
        let mut fields = json!({"url": url});
        if let (Some(detail), Some(map)) = (image.detail, fields.as_object_mut()) {
            map.insert("detail".to_owned(), json!(detail));
        }
        Some(json!({"type": "image_url", "image_url": fields}))
    };
    let parts = user_parts::in_order(content, attachments, images).into_iter();
    let parts = parts.filter_map(|part| match part {
        UserPart::Text(text) => Some(json!({"type": "text", "text": text})),
        UserPart::Image(found) => image(found),
    });
    parts.collect()
}

fn call(call: &ToolCall, quirks: &ProviderQuirks) -> Value {
    json!({
        "id": naming::id(&call.id_ref, quirks.ids),
        "type": "function",
        "function": {"name": naming::name(&call.name), "arguments": arguments(&call.arguments)},
    })
}

/// Providers refuse a history with malformed arguments.
fn arguments(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => text.to_owned(),
        _ => ToolCall::object_of(text).to_string(),
    }
}

fn write_tool(tool: &ToolDefinition, text: &mut String) {
    let parts = [tool.introduction(), ",\"parameters\":", tool.schema()];
    text.push_str("{\"type\":\"function\",\"function\":{");
    text.extend(parts);
    if let Some(strict) = tool.strict() {
        text.push_str(if strict { ",\"strict\":true" } else { ",\"strict\":false" });
    }
    text.push_str("}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::domain::message::ProviderReplay;
    use crate::domain::model_settings::ModelSettings;
    use crate::domain::tool::ToolSpec;
    use crate::llm::options::Provider;
    use crate::ports::ModelCaller;

    fn request() -> ModelRequest {
        let call = |arguments: &str| ToolCall {
            id_ref: "c1".into(),
            name: "calculator".into(),
            arguments: arguments.into(),
        };
        ModelRequest {
            caller: ModelCaller { user: UserId(1), job: None },
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
            tools: vec![
                ToolSpec { name: "t".into(), description: "d".into(), parameters: json!({"type": "object"}) }
                    .into(),
            ],
            may_call: true,
            temperature: Some(0.5),
            max_tokens: Some(100),
            thinking: true,
            settings: ModelSettings::default(),
        }
    }

    fn shape(provider: Provider, host: &str) -> RequestShape {
        let quirks = ProviderQuirks::of(provider, host);
        RequestShape { upstream_id: "up".into(), quirks, max_output_tokens: None, extra: Map::new() }
    }

    fn posted(request: &ModelRequest, shape: &RequestShape) -> Value {
        body(request, shape, UnsupportedParameters::default()).read()
    }

    fn sent_to(host: &str) -> Value {
        posted(&request(), &shape(Provider::Openai, host))
    }

    #[test]
    fn a_plain_provider_gets_the_standard_fields() {
        let shape = RequestShape { max_output_tokens: Some(50), ..shape(Provider::Openai, "localhost") };
        let sent = posted(&request(), &shape);
        assert_eq!(sent["model"], "up");
        assert_eq!(sent["messages"][2]["content"], Value::Null);
        assert_eq!(sent["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
        assert_eq!(sent["messages"][2]["tool_calls"][2]["function"]["arguments"], "{}");
        assert_eq!(sent["messages"][3], json!({"role": "tool", "tool_call_id": "c1", "content": "{}"}));
        assert_eq!(sent["stream_options"], json!({"include_usage": true}));
        assert_eq!(sent["tools"][0]["function"]["name"], "t");
        assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(50), &json!(0.5)));
        assert!(sent.get("thinking").is_none() && sent["messages"][2].get("reasoning_content").is_none());
        let closing = posted(&ModelRequest { may_call: false, ..request() }, &shape);
        assert!(closing.get("tools").is_none());
    }

    #[test]
    fn malformed_arguments_are_wrapped_in_an_object() {
        let sent = sent_to("localhost");
        let echoed = sent["messages"][2]["tool_calls"][1]["function"]["arguments"].as_str().expect("a text");
        assert_eq!(
            serde_json::from_str::<Value>(echoed).expect("JSON"),
            json!({"malformed_arguments": "{bad"})
        );
    }

    #[test]
    fn request_quirks_follow_the_host_or_the_provider() {
        let sent = sent_to("api.deepseek.com");
        assert_eq!(sent["thinking"], json!({"type": "enabled"}));
        assert_eq!(sent["messages"][2]["reasoning_content"], "hm");
        assert_eq!(sent_to("api.openai.com")["max_completion_tokens"], 100);
        assert!(sent_to("api.mistral.ai").get("stream_options").is_none());
        assert_eq!(sent_to("OpenRouter.ai")["reasoning"], json!({"enabled": true}));
        assert_eq!(
            ProviderQuirks::of(Provider::Openai, "notz.ai"),
            ProviderQuirks::of(Provider::Openai, "localhost")
        );
        assert_eq!(
            ProviderQuirks::of(Provider::Glm, "10.0.0.1"),
            ProviderQuirks::of(Provider::Openai, "api.z.ai")
        );
        assert_eq!(
            ProviderQuirks::of(Provider::Deepseek, "gateway.test"),
            ProviderQuirks::of(Provider::Openai, "api.deepseek.com")
        );
    }

    #[test]
    fn the_lowest_limit_of_an_answer_counts() {
        let bound = |requested: Option<u32>, configured: Option<u32>, provider: Provider| {
            let shape = RequestShape { max_output_tokens: configured, ..shape(provider, "x.test") };
            let request = ModelRequest { max_tokens: requested, ..request() };
            posted(&request, &shape).get("max_tokens").and_then(Value::as_u64)
        };
        assert_eq!(bound(Some(100_000), None, Provider::Deepseek), Some(8192));
        assert_eq!(bound(None, Some(100_000), Provider::Glm), Some(100_000), "configured");
        assert_eq!(bound(Some(100_000), None, Provider::Glm), Some(65_536));
        assert_eq!(bound(Some(10), Some(20), Provider::Glm), Some(10));
        assert_eq!(bound(None, None, Provider::Deepseek), None);
        assert_eq!(bound(Some(100_000), None, Provider::Openai), Some(100_000));
    }

    #[test]
    fn a_thinking_model_gets_the_reasoning_field_even_when_it_is_empty() {
        let mut asked = request();
        let Some(Message::Assistant { thinking, .. }) = asked.messages.get_mut(2) else { panic!("a turn") };
        thinking.clear();
        let shape = shape(Provider::Deepseek, "x.test");
        let sent = posted(&asked, &shape);
        assert_eq!(sent["messages"][2]["reasoning_content"], "");
        let sent = posted(&ModelRequest { thinking: false, ..asked }, &shape);
        assert!(sent["messages"][2].get("reasoning_content").is_none());
    }

    #[test]
    fn openai_reasoning_models_get_no_temperature() {
        for (model, takes) in [
            ("gpt-4o", true),
            ("gpt-5-chat-latest", true),
            ("gpt-5", false),
            ("gpt-5.1-mini", false),
            ("o1", false),
            ("o3-mini", false),
            ("o4-mini", false),
        ] {
            let shape =
                RequestShape { upstream_id: model.into(), ..shape(Provider::Openai, "api.openai.com") };
            let sent = posted(&request(), &shape);
            assert_eq!(sent.get("temperature").is_some(), takes, "{model}");
        }
        assert!(sent_to("localhost").get("temperature").is_some());
    }

    #[test]
    fn extra_fields_replace_add_and_remove_fields() {
        let extra = json!({"temperature": null, "max_tokens": 7, "top_k": 3, "stream_options": null});
        let shape = RequestShape {
            extra: extra.as_object().expect("an object").clone(),
            ..shape(Provider::Openai, "localhost")
        };
        let sent = posted(&request(), &shape);
        assert_eq!((&sent["max_tokens"], &sent["top_k"]), (&json!(7), &json!(3)));
        assert!(sent.get("temperature").is_none() && sent.get("stream_options").is_none());
    }

    #[test]
    fn replay_data_goes_back_to_the_same_model_only() {
        let parts = json!({"reasoning_details": [{"data": "d"}], "extra_content": {"c1": {"google": 1}}});
        let mut asked = request();
        let Some(Message::Assistant { echo, .. }) = asked.messages.get_mut(2) else { panic!("a turn") };
        *echo = Some(ProviderReplay { model: "m".into(), parts });
        let shape = shape(Provider::Openai, "localhost");
        let message = posted(&asked, &shape)["messages"][2].clone();
        assert_eq!(message["reasoning_details"], json!([{"data": "d"}]));
        assert_eq!(message["tool_calls"][0]["extra_content"], json!({"google": 1}));
        let other = ModelRequest { model: "other".into(), ..asked };
        let message = posted(&other, &shape)["messages"][2].clone();
        assert!(
            message.get("reasoning_details").is_none()
                && message["tool_calls"][0].get("extra_content").is_none()
        );
    }
}
