//! The fields of thinking and of [`ModelSettings`] in this dialect.

use super::naming;
use super::quirks::{ProviderQuirks, ThinkingField};
use crate::domain::model_settings::{CallMode, ModelSettings, ReasoningEffort, ResponseFormat};
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};

/// Puts the fields into a request.
pub(super) fn put_settings(
    request: &ModelRequest,
    (quirks, upstream_id): (&ProviderQuirks, &str),
    has_tools: bool,
    put: &mut dyn FnMut(&str, Value),
) {
    let settings = &request.settings;
    let effort = settings.reasoning_effort.map(ReasoningEffort::as_str);
    match (quirks.thinking, effort) {
        (ThinkingField::None, None) => {}
        (ThinkingField::None, Some(effort)) => put("reasoning_effort", json!(effort)),
        (ThinkingField::Type, _) => {
            let state = if request.thinking { "enabled" } else { "disabled" };
            put("thinking", json!({"type": state}));
        }
        (ThinkingField::Enabled, Some(effort)) if request.thinking => {
            put("reasoning", json!({"enabled": true, "effort": effort}));
        }
        (ThinkingField::Enabled, _) => put("reasoning", json!({"enabled": request.thinking})),
    }
    if has_tools {
        put_calls(settings, put);
    }
    if let Some(format) = &settings.response_format {
        put("response_format", response_format(format));
    }
    if !settings.stop.is_empty() {
        put("stop", json!(settings.stop));
    }
    let top_p = settings.top_p.filter(|_| quirks.accepts_temperature(upstream_id));
    let numbers = [
        ("top_p", top_p),
        ("frequency_penalty", settings.frequency_penalty),
        ("presence_penalty", settings.presence_penalty),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            put(name, json!(value));
        }
    }
    if let Some(top_k) = settings.top_k.filter(|_| quirks.accepts_temperature(upstream_id)) {
        put("top_k", json!(top_k));
    }
    if let Some(seed) = settings.seed {
        put("seed", json!(seed));
    }
}

fn put_calls(settings: &ModelSettings, put: &mut dyn FnMut(&str, Value)) {
    match &settings.call_mode {
        None => {}
        Some(CallMode::Required) => put("tool_choice", json!("required")),
        Some(CallMode::Named(name)) => {
            let function = json!({"name": naming::name(name)});
            put("tool_choice", json!({"type": "function", "function": function}));
        }
    }
    if let Some(parallel) = settings.parallel_tool_calls {
        put("parallel_tool_calls", json!(parallel));
    }
}

fn response_format(format: &ResponseFormat) -> Value {
    let ResponseFormat::JsonSchema { name, description, schema, strict } = format else {
        return json!({"type": "json_object"});
    };
    let mut named = Map::new();
    named.insert("name".to_owned(), json!(name));
    named.insert("schema".to_owned(), schema.clone());
    named.extend(description.as_ref().map(|text| ("description".to_owned(), json!(text))));
    named.extend(strict.map(|strict| ("strict".to_owned(), json!(strict))));
    json!({"type": "json_schema", "json_schema": named})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Message;
    use crate::domain::model_settings::ClientFunction;
    use crate::llm::openai::request::{RequestShape, body};
    use crate::llm::openai::unsupported::UnsupportedParameters;
    use crate::llm::options::Provider;
    use crate::llm::testing::request;

    fn sent(host: &str, request: &ModelRequest) -> Value {
        let quirks = ProviderQuirks::of(Provider::Openai, host);
        let shape =
            RequestShape { upstream_id: "up".into(), quirks, max_output_tokens: None, extra: Map::new() };
        body(request, &shape, UnsupportedParameters::default()).read()
    }

    fn function() -> ClientFunction {
        ClientFunction {
            name: "weather".into(),
            description: "d".into(),
            parameters: json!({"type": "object"}),
            strict: Some(true),
            input_examples: Vec::new(),
        }
    }

    #[test]
    fn each_setting_has_its_field() {
        let format = ResponseFormat::JsonSchema {
            name: "n".into(),
            description: None,
            schema: json!({"type": "object"}),
            strict: Some(true),
        };
        let settings = ModelSettings {
            call_mode: Some(CallMode::Named("weather".into())),
            parallel_tool_calls: Some(false),
            response_format: Some(format),
            checks_answer: true,
            stop: vec!["x".into()],
            top_p: Some(0.5),
            top_k: Some(40),
            seed: Some(7),
            frequency_penalty: Some(1.0),
            presence_penalty: Some(-1.0),
            reasoning_effort: Some(ReasoningEffort::Low),
            reasoning_tokens: None,
        };
        let tools = vec![function().definition()];
        let request = ModelRequest { tools, settings, ..request(Vec::new()) };
        let body = sent("localhost", &request);
        assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "weather"}}));
        assert_eq!(body["tools"][0]["function"]["strict"], true);
        assert_eq!(body["parallel_tool_calls"], false);
        let schema = json!({"name": "n", "schema": {"type": "object"}, "strict": true});
        assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": schema}));
        assert_eq!((&body["stop"], &body["top_p"], &body["seed"]), (&json!(["x"]), &json!(0.5), &json!(7)));
        assert_eq!((&body["frequency_penalty"], &body["presence_penalty"]), (&json!(1.0), &json!(-1.0)));
        assert_eq!((&body["reasoning_effort"], &body["top_k"]), (&json!("low"), &json!(40)));
        let closing = sent("localhost", &ModelRequest { may_call: false, ..request });
        assert!(closing.get("tool_choice").is_none() && closing.get("parallel_tool_calls").is_none());
    }

    #[test]
    fn a_provider_that_does_not_know_the_format_gets_an_instruction() {
        let settings =
            ModelSettings { response_format: Some(ResponseFormat::JsonObject), ..ModelSettings::default() };
        let quirks = ProviderQuirks::of(Provider::Openai, "localhost");
        let shape =
            RequestShape { upstream_id: "up".into(), quirks, max_output_tokens: None, extra: Map::new() };
        let words = "unknown field response_format";
        let unsupported =
            UnsupportedParameters::default().with_named(ureq::http::StatusCode::BAD_REQUEST, words);
        let first = |messages: Vec<Message>| {
            let request = ModelRequest { settings: settings.clone(), ..request(messages) };
            let body = body(&request, &shape, unsupported).read();
            assert!(body.get("response_format").is_none());
            (
                body["messages"][0]["role"].clone(),
                body["messages"][0]["content"].as_str().expect("text").to_owned(),
            )
        };
        let (role, text) = first(vec![Message::user("go")]);
        assert!(role == "system" && text.starts_with("Your answer must be one JSON object."), "{text}");
        let (_, text) = first(vec![Message::System { content: "be brief".into() }, Message::user("go")]);
        assert!(text.starts_with("be brief\n\nYour answer"), "{text}");
    }

    #[test]
    fn thinking_is_asked_for_in_the_field_of_the_provider() {
        let settings =
            ModelSettings { reasoning_effort: Some(ReasoningEffort::High), ..ModelSettings::default() };
        let request = ModelRequest { settings, thinking: true, ..request(Vec::new()) };
        let deepseek = sent("api.deepseek.com", &request);
        assert_eq!(deepseek["thinking"], json!({"type": "enabled"}));
        assert!(deepseek.get("reasoning_effort").is_none());
        assert_eq!(sent("openrouter.ai", &request)["reasoning"], json!({"enabled": true, "effort": "high"}));
    }
}
