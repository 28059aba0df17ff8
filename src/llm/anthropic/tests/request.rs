//! Request bodies: the conversation in turns, echoes, tools, thinking and configured fields.

use crate::domain::image::{Image, ImageType};
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::model_settings::{CallMode, ModelSettings, ReasoningEffort, ResponseFormat};
use crate::domain::secret::Secret;
use crate::domain::stored_file::ContentDigest;
use crate::domain::tool::{ToolCall, ToolDefinition, ToolSpec};
use crate::llm::anthropic::request::{body, continuation};
use crate::llm::dialect_options::DialectOptions;
use crate::llm::dialect_options::call_timeouts;
use crate::llm::testing::{LIMITS, request};
use crate::ports::ModelRequest;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn terms() -> DialectOptions {
    DialectOptions {
        key: Secret::default(),
        upstream_id: "provider".into(),
        max_output_tokens: None,
        extra_body: Map::new(),
        text_calls: false,
        extra_headers: BTreeMap::new(),
        timeouts: call_timeouts(Duration::from_secs(1), Duration::from_secs(1)),
        limits: LIMITS,
    }
}

fn sent(messages: Vec<Message>) -> Value {
    posted(&request(messages), &terms())
}

fn posted(request: &ModelRequest, terms: &DialectOptions) -> Value {
    body(request, terms).read()
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id_ref: id.into(), name: "t".into(), arguments: arguments.into() }
}

fn calling(content: &str, tool_calls: Vec<ToolCall>) -> Message {
    Message::Assistant { content: content.into(), thinking: "unsealed".into(), tool_calls, echo: None }
}

fn echoing(content: &str, tool_calls: Vec<ToolCall>, model: &str, parts: Value) -> Message {
    let echo = Some(ProviderReplay { model: model.into(), parts });
    Message::Assistant { content: content.into(), thinking: "hm".into(), tool_calls, echo }
}

fn result(id: &str, content: &str) -> Message {
    Message::Tool { id_ref: id.into(), name: "t".into(), content: content.into() }
}

fn system(content: &str) -> Message {
    Message::System { content: content.into() }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn spec() -> ToolDefinition {
    let parameters = json!({"type": "object", "properties": {}});
    ToolSpec { name: "t".into(), description: "d".into(), parameters }.into()
}

#[test]
fn a_conversation_is_sent_in_alternating_turns() {
    let body = sent(vec![
        system("be brief"),
        system("be kind"),
        Message::user("one"),
        Message::user("two"),
        Message::assistant("yes"),
        Message::assistant(""),
        Message::assistant("and"),
        system("now in French"),
        Message::user("  \n"),
        Message::user("three"),
    ]);
    assert_eq!(body["system"], json!([text("be brief"), text("be kind")]));
    let expected = json!([
        {"role": "user", "content": [text("one"), text("two")]},
        {"role": "assistant", "content": [text("yes"), text("and")]},
        {"role": "user", "content": [text("now in French"), text("three")]},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(
        (&body["model"], &body["stream"], &body["max_tokens"]),
        (&json!("provider"), &json!(true), &json!(8192))
    );
    for absent in ["tools", "tool_choice", "thinking", "temperature"] {
        assert!(body.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn tool_results_come_first_in_the_order_of_their_calls() {
    let body = sent(vec![
        Message::user("go"),
        calling("", vec![call("a", "{\"n\":1}"), call("b", "{bad"), call("c", ""), call("d", "[1]")]),
        system("hurry"),
        result("c", "plain"),
        result("a", "{\"success\":true}"),
        result("b", "{\"success\":false,\"error\":\"no\"}"),
    ]);
    let used = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "t", "input": input});
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            used("a", json!({"n": 1})),
            used("b", json!({"malformed_arguments": "{bad"})),
            used("c", json!({})),
            used("d", json!({"malformed_arguments": "[1]"})),
        ])
    );
    let content = body["messages"][2]["content"].as_array().expect("blocks").clone();
    let told =
        |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    assert_eq!(content[0], told("a", "{\"success\":true}"));
    assert_eq!(content[1]["is_error"], true);
    assert_eq!(content[2], told("c", "plain"));
    assert_eq!(
        (&content[3]["tool_use_id"], &content[3]["is_error"]),
        (&json!("d"), &json!(true)),
        "it has none"
    );
    assert_eq!(content[4..], [text("hurry")]);
}

#[test]
fn a_conversation_begins_with_the_user_and_each_call_has_a_result() {
    let body = sent(vec![result("gone", "42"), Message::user("go"), calling("", vec![call("a", "{}")])]);
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[0]["content"], json!([text("(Result of an earlier call of t: 42)"), text("go")]));
    assert_eq!(messages[2]["content"][0]["type"], "tool_result", "an unanswered call is refused");
    let body = sent(vec![system("s"), Message::assistant("I begin. \n")]);
    assert_eq!(body["messages"][0]["role"], "user");
    assert_eq!(body["messages"][1]["content"], json!([text("I begin.")]), "no white space at the end");
    assert_eq!(sent(vec![])["messages"].as_array().map(Vec::len), Some(1));
}

#[test]
fn images_follow_the_text_of_their_message() {
    let image = |data: Option<&[u8]>| Image {
        media_type: ImageType::Png,
        content: ContentDigest::from_bytes([1; 32]),
        bytes: 3,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: data.map(Arc::from),
    };
    let images = vec![image(Some(b"abc")), image(None)];
    let body = sent(vec![Message::User { content: "look".into(), attachments: Vec::new(), images }]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "YWJj"});
    let mut content = body["messages"][0]["content"].clone();
    if let Some(map) = content.as_array_mut().and_then(|blocks| blocks[1].as_object_mut()) {
        map.remove("cache_control");
    }
    assert_eq!(content, json!([text("look"), {"type": "image", "source": source}]));
}

#[test]
fn ids_and_names_are_valid_and_each_id_is_used_once() {
    let odd = ToolCall { id_ref: "f.t:0".into(), name: "f.t".into(), arguments: "{}".into() };
    let body = sent(vec![
        Message::user("go"),
        calling("", vec![odd, call("f_t_0", "{}"), call("", "{}")]),
        result("f_t_0", "second"),
        result("f.t:0", "first"),
        result("", "third"),
        calling("", vec![call("f_t_0", "{}")]),
        result("f_t_0", "fourth"),
    ]);
    let ids = |at: usize, key: &str| -> Vec<String> {
        let blocks = body["messages"][at]["content"].as_array().expect("blocks");
        blocks.iter().map(|block| block[key].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(1, "id"), ["f_t_0", "f_t_0_2", "call"]);
    assert_eq!(ids(2, "tool_use_id"), ids(1, "id"));
    assert_eq!(ids(2, "content"), ["first", "second", "third"]);
    assert_eq!((ids(3, "id"), ids(4, "tool_use_id")), (vec!["f_t_0_3".into()], vec!["f_t_0_3".into()]));
    assert_eq!(body["messages"][1]["content"][0]["name"], "f_t");
}

#[test]
fn an_echo_of_the_same_model_is_sent_unchanged() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let used =
        json!({"type": "tool_use", "id": "a", "name": "t", "input": {"n": 1}, "caller": {"type": "direct"}});
    let dropped = json!({"type": "tool_use", "id": "skipped", "name": "t", "input": {}});
    let parts = json!([thinking, text("I see"), text(" "), used, dropped]);
    let calls = vec![call("b", "{}"), call("a", "{\"n\":1}")];
    let history = |model: &str| {
        let said = echoing("I see", calls.clone(), model, parts.clone());
        vec![Message::user("go"), said, result("a", "1"), result("b", "2")]
    };
    let added = json!({"type": "tool_use", "id": "b", "name": "t", "input": {}});
    let body = sent(history("m"));
    assert_eq!(body["messages"][1]["content"], json!([thinking, text("I see"), used, added]));
    let results = body["messages"][2]["content"].as_array().expect("blocks");
    let order: Vec<_> = results.iter().map(|block| block["tool_use_id"].as_str()).collect();
    assert_eq!(order, [Some("a"), Some("b")], "as the turn before has them");
    let plain = &sent(history("another"))["messages"][1]["content"];
    assert_eq!(plain.as_array().map(Vec::len), Some(3));
    assert!(!plain.to_string().contains("\"thinking\""), "a foreign seal is worth nothing: {plain}");
    let idle = vec![Message::user("a"), echoing("", vec![], "m", json!([thinking])), Message::user("b")];
    let alone = sent(idle)["messages"].clone();
    assert_eq!(
        alone,
        json!([{"role": "user", "content": [text("a"), text("b")]}]),
        "thinking alone is refused"
    );
}

#[test]
fn tools_stay_listed_while_the_history_names_them() {
    let plain = || vec![Message::user("go")];
    let used = || vec![Message::user("go"), calling("", vec![call("a", "{}")]), result("a", "1")];
    let listed = |messages: Vec<Message>, tools: Vec<ToolDefinition>, may_call: bool| {
        let body = posted(&ModelRequest { tools, may_call, ..request(messages) }, &terms());
        (body.get("tools").cloned(), body.get("tool_choice").cloned())
    };
    let tool =
        json!([{"name": "t", "description": "d", "input_schema": {"type": "object", "properties": {}}}]);
    let none = json!({"type": "none"});
    assert_eq!(listed(plain(), vec![spec()], true), (Some(tool.clone()), None));
    assert_eq!(listed(plain(), vec![spec()], false), (None, None));
    assert_eq!(listed(used(), vec![spec()], true), (Some(tool.clone()), None));
    assert_eq!(listed(used(), vec![spec()], false), (Some(tool), Some(none.clone())));
    let gone = json!([{"name": "t", "input_schema": {"type": "object"}}]);
    assert_eq!(listed(used(), vec![], true), (Some(gone), Some(none)));
}

#[test]
fn thinking_needs_a_large_enough_limit() {
    let asked = |max_tokens: Option<u32>, max_output_tokens: Option<u32>| {
        let request = ModelRequest {
            thinking: true,
            max_tokens,
            temperature: Some(0.5),
            ..request(vec![Message::user("go")])
        };
        let body = posted(&request, &DialectOptions { max_output_tokens, ..terms() });
        let budget =
            body.get("thinking").map(|thinking| thinking["budget_tokens"].as_u64().expect("a budget"));
        assert_eq!(body.get("temperature").is_none(), budget.is_some(), "the two exclude each other");
        (body["max_tokens"].as_u64().expect("a bound"), budget)
    };
    for (max_tokens, bound, sent) in [
        (None, None, (12_288, Some(4096))),
        (Some(1), None, (4097, Some(4096))),
        (Some(100), Some(2000), (2000, Some(1900))),
        (Some(2000), Some(2000), (2000, Some(1024))),
        (Some(9000), Some(1024), (1024, None)),
        (Some(500), Some(900), (500, None)),
        (None, Some(64_000), (64_000, Some(4096))),
        (Some(40_000), None, (40_000, Some(4096))),
        (Some(u32::MAX), None, (u64::from(u32::MAX), Some(4096))),
    ] {
        assert_eq!(asked(max_tokens, bound), sent, "{max_tokens:?} within {bound:?}");
    }
}

#[test]
fn a_turn_that_began_without_thinking_continues_without_it() {
    let thinks = |messages: Vec<Message>| {
        posted(&ModelRequest { thinking: true, ..request(messages) }, &terms()).get("thinking").is_some()
    };
    let sealed = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
    let bare = || vec![Message::user("go"), calling("", vec![call("a", "{}")]), result("a", "1")];
    assert!(!thinks(bare()));
    let thought = || {
        vec![Message::user("go"), echoing("", vec![call("a", "{}")], "m", sealed.clone()), result("a", "1")]
    };
    assert!(thinks(thought()));
    assert!(thinks([thought(), vec![calling("", vec![call("b", "{}")]), result("b", "1")]].concat()));
    assert!(thinks([bare(), vec![Message::assistant("done"), Message::user("again")]].concat()));
}

#[test]
fn the_temperature_stays_within_the_range_of_the_dialect() {
    for (asked, sent) in [(0.3, 0.3), (1.7, 1.0), (-1.0, 0.0)] {
        let request = ModelRequest { temperature: Some(asked), ..request(vec![Message::user("go")]) };
        assert_eq!(posted(&request, &terms())["temperature"], sent);
    }
}

#[test]
fn configured_fields_replace_those_of_the_dialect() {
    let extra =
        json!({"thinking": {"type": "adaptive"}, "max_tokens": 7, "cache_control": {"type": "ephemeral"}});
    let Value::Object(extra_body) = extra else { unreachable!("an object") };
    let request = ModelRequest { temperature: Some(0.5), ..request(vec![Message::user("go")]) };
    let sent = posted(&request, &DialectOptions { extra_body: extra_body.clone(), ..terms() });
    assert_eq!((&sent["max_tokens"], &sent["thinking"]["type"]), (&json!(7), &json!("adaptive")));
    assert_eq!(sent["cache_control"]["type"], "ephemeral");
    assert!(sent.get("temperature").is_none(), "it is refused beside thinking");
    let extra_body = extra_body.into_iter().chain([("temperature".to_owned(), json!(1))]).collect();
    assert_eq!(posted(&request, &DialectOptions { extra_body, ..terms() })["temperature"], 1);
}

#[test]
fn a_paused_answer_is_the_last_message_of_the_next_request() {
    let post = |messages: Vec<Message>| body(&request(messages), &terms());
    let first = post(vec![Message::user("go")]);
    let said = vec![json!({"type": "server_tool_use"}), text("so far \n")];
    let (next, first) = (continuation(&first, said, Some("c_1")).read(), first.read());
    assert_eq!(next["messages"][0], first["messages"][0]);
    let said = json!({"role": "assistant", "content": [{"type": "server_tool_use"}, text("so far")]});
    assert_eq!((&next["messages"][1], &next["container"]), (&said, &json!("c_1")));
    let after_assistant = post(vec![Message::user("go"), Message::assistant("well")]);
    let next = continuation(&after_assistant, vec![text("x")], None).read();
    assert_eq!(next["messages"][1]["content"], json!([text("well"), text("x")]));
    assert!(next.get("container").is_none());
}

#[test]
fn recorded_requests_equal_ours() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/provider-streams/anthropic");
    let Ok(recorded) = std::fs::read_to_string(directory.join("sonnet4-thinking-streaming.2.req.json"))
    else {
        writeln!(std::io::stderr(), "SKIPPED: no recorded requests at {}", directory.display())
            .expect("stderr");
        return;
    };
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let parts = recorded["messages"][1]["content"].clone();
    let id = parts[1]["id"].as_str().expect("an id").to_owned();
    let weather = ToolCall { id_ref: id.clone(), name: "weather".into(), arguments: "{}".into() };
    let request = ModelRequest {
        thinking: true,
        max_tokens: Some(96),
        tools: vec![
            ToolSpec {
                name: "weather".into(),
                description: "Get weather information for a location".into(),
                parameters: recorded["tools"][0]["input_schema"].clone(),
            }
            .into(),
        ],
        ..request(vec![
            system("You are a helpful assistant"),
            Message::user("What's the weather in Florence, Italy?"),
            echoing("", vec![weather], "m", parts),
            Message::Tool { id_ref: id, name: "weather".into(), content: "40 C".into() },
        ])
    };
    let mut sent = posted(&request, &DialectOptions { max_output_tokens: Some(4096), ..terms() });
    assert_eq!(sent["messages"][2]["content"][0]["content"], "40 C");
    sent["messages"][2]["content"][0]["content"] = json!([text("40 C")]); // the longer spelling of the same
    for field in ["system", "messages", "tools", "stream", "max_tokens"] {
        assert_eq!(sent[field], recorded[field], "{field}");
    }
    assert_eq!(sent["thinking"]["budget_tokens"], 4000);
}

#[test]
fn settings_are_sent_as_this_dialect_spells_them() {
    let format = ResponseFormat::JsonSchema {
        name: "n".into(),
        description: None,
        schema: json!({"type": "object"}),
        strict: None,
    };
    let settings = ModelSettings {
        call_mode: Some(CallMode::Named("t".into())),
        parallel_tool_calls: Some(false),
        response_format: Some(format),
        stop: vec!["x".into()],
        top_p: Some(0.5),
        seed: Some(7),
        ..ModelSettings::default()
    };
    let asked = ModelRequest {
        settings,
        tools: vec![spec()],
        thinking: true,
        ..request(vec![system("be brief"), Message::user("go")])
    };
    let body = posted(&asked, &terms());
    let choice = json!({"type": "tool", "name": "t", "disable_parallel_tool_use": true});
    assert_eq!(body["tool_choice"], choice);
    assert!(body.get("thinking").is_none(), "a forced call excludes it");
    assert_eq!((&body["stop_sequences"], &body["top_p"]), (&json!(["x"]), &json!(0.5)));
    assert_eq!(body["system"][0], text("be brief"));
    assert!(body["system"][1]["text"].as_str().expect("a text").contains("\"type\":\"object\""));
    assert!(body.get("seed").is_none());
    let both = posted(&ModelRequest { temperature: Some(0.5), ..asked }, &terms());
    assert!(both.get("top_p").is_none(), "newer models refuse both");
}

#[test]
fn more_effort_is_a_larger_budget() {
    let budget = |effort| {
        let settings = ModelSettings { reasoning_effort: Some(effort), ..ModelSettings::default() };
        let asked = ModelRequest { settings, thinking: true, ..request(vec![Message::user("go")]) };
        posted(&asked, &terms())["thinking"]["budget_tokens"].as_u64()
    };
    assert_eq!(budget(ReasoningEffort::Low), Some(1024));
    assert_eq!(budget(ReasoningEffort::High), Some(10_000));
}
