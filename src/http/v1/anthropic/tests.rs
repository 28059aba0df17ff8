//! Requests as jobs, and events against the same message as a whole.

use super::events::MessageEventWriter;
use super::object::{MessageObject, ThinkingView};
use super::request::{self, MessagesForm, MessagesJob};
use crate::domain::event::{Event, FailureCode, FinishReason, SequencedEvent, StepKind};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec, OnDisconnect};
use crate::domain::message::Message;
use crate::domain::model_settings::{CallMode, ModelSettings, ReasoningEffort, ResponseFormat};
use crate::domain::tool::{ToolCall, ToolChoice};
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::middleware::request_id::RequestId;
use crate::http::testing::{MemoryStore, app};
use crate::http::v1::openai::answer::ending::AnswerEnding;
use crate::http::v1::openai::answer::finished::FinishedAnswer;
use crate::http::v1::openai::answer::parts::AnswerParts;
use crate::http::v1::openai::answer::pieces::{AnswerEnd, AnswerPieces};
use crate::http::v1::openai::headers::JobHeaders;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

/// The job of a request with these fields.
fn job(fields: Value) -> Result<MessagesJob, ApiError> {
    job_with_headers(fields, &HeaderMap::new())
}

fn job_with_headers(fields: Value, headers: &HeaderMap) -> Result<MessagesJob, ApiError> {
    let mut body =
        json!({"model": "demo", "max_tokens": 2_000, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().expect("an object").extend(object(fields));
    let app = app(&Arc::new(MemoryStore::default()));
    request::read(object(body))?.into_job(JobHeaders::of(headers)?, &app, UserId::SINGLE)
}

#[test]
fn the_header_names_the_webhook_of_a_message() {
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("nanoclaw-webhook"),
        HeaderValue::from_static("https://hooks.example/x"),
    )]);
    let spec = job_with_headers(json!({}), &headers).expect("a job").spec;
    assert!(spec.webhook_url.is_some());
}

fn refused(fields: Value) -> (String, &'static str) {
    let error = job(fields).expect_err("refused");
    (error.param().unwrap_or_default().to_owned(), error.code())
}

#[test]
fn every_field_reaches_the_job() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let job = job(json!({
        "system": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"], "metadata": {"user_id": "u-1"},
        "thinking": {"type": "enabled", "budget_tokens": 1_500},
        "output_config": {"effort": "max", "format": {"type": "json_schema", "schema": schema}},
        "tools": [{"name": "weather", "description": "d", "input_schema": schema, "strict": true}],
        "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": true},
        "service_tier": "auto", "cache_control": {"type": "ephemeral"}, "context_management": {"edits": []},
    }))
    .expect("a job");
    let spec = job.spec;
    let ends = |text: &str| Message::System { content: text.to_owned() };
    assert_eq!(spec.input, [ends("be\n\nbrief"), Message::user("hi")]);
    assert_eq!((spec.temperature, spec.max_tokens, spec.thinking), (Some(0.5), Some(2_000), true));
    assert_eq!(spec.metadata.get("user_id").map(String::as_str), Some("u-1"));
    assert_eq!(
        (&spec.tools, spec.is_plain, spec.on_disconnect),
        (&ToolChoice::All(false), true, OnDisconnect::Cancel)
    );
    let settings = ModelSettings {
        call_mode: Some(CallMode::Named("weather".into())),
        parallel_tool_calls: Some(false),
        response_format: Some(ResponseFormat::JsonSchema {
            name: "answer".into(),
            description: None,
            schema: schema.clone(),
            strict: Some(true),
        }),
        checks_answer: true,
        stop: vec!["END".into()],
        top_p: Some(0.9),
        top_k: Some(40),
        reasoning_effort: Some(ReasoningEffort::Xhigh),
        reasoning_tokens: Some(1_500),
        ..ModelSettings::default()
    };
    assert_eq!(spec.settings, settings);
    assert_eq!((spec.functions.len(), &spec.functions[0].parameters), (1, &schema));
    assert_eq!((job.form.thinking, job.form.is_stream), (ThinkingView::Shown, false));
}

#[test]
fn blocks_become_messages_and_results_stand_before_the_text() {
    let job = job(json!({"messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "document", "title": "a.txt", "source": {"type": "text", "media_type": "text/plain", "data": "content"}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "I ", "citations": null}, {"type": "text", "text": "ask"},
            {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}, "caller": {"type": "direct"}},
            {"type": "tool_use", "id": "toolu_2", "name": "b", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "text", "text": "go on"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "two"}], "is_error": true},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
        ]},
    ]}))
    .expect("a job");
    let shown = serde_json::to_value(&job.spec.input).expect("JSON");
    assert_eq!(shown[0]["attachments"][0]["content"], "content");
    assert_eq!(shown[1]["content"], "I ask");
    assert_eq!(
        (&shown[1]["thinking"], &shown[1]["tool_calls"][0]["arguments"]),
        (&json!("hm"), &json!("{\"x\":1}"))
    );
    let tool = |id: &str, name: &str, content: &str| json!({"role": "tool", "id_ref": id, "name": name, "content": content});
    assert_eq!(shown[2], tool("toolu_2", "b", r#"{"success":false,"error":"two"}"#));
    assert_eq!(shown[3], tool("toolu_1", "a", "one"));
    assert_eq!(shown[4], json!({"role": "user", "content": "go on"}));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let content = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let tool = |fields: Value| json!({"tools": [fields]});
    for (fields, param, code) in [
        (json!({"wat": 1}), "wat", "unsupported_parameter"),
        (json!({"container": "c"}), "container", "unsupported_parameter"),
        (json!({"mcp_servers": [{}]}), "mcp_servers", "unsupported_parameter"),
        (
            content(json!({"type": "image", "source": {}})),
            "messages[0].content[0].source.type",
            "unsupported_parameter",
        ),
        (
            content(json!({"type": "text", "text": "x", "wat": 1})),
            "messages[0].content[0].wat",
            "unsupported_parameter",
        ),
        (
            content(json!({"type": "tool_result", "tool_use_id": "gone"})),
            "messages[0].content[0].tool_use_id",
            "invalid_value",
        ),
        (json!({"messages": []}), "messages", "invalid_value"),
        (json!({"messages": [{"role": "user", "content": ""}]}), "messages[0].content", "invalid_value"),
        (json!({"max_tokens": null}), "max_tokens", "missing_required_parameter"),
        (json!({"model": null}), "model", "missing_required_parameter"),
        (json!({"temperature": 1.5}), "temperature", "invalid_value"),
        (json!({"thinking": {"type": "enabled"}}), "thinking.budget_tokens", "invalid_value"),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
            "thinking.budget_tokens",
            "invalid_value",
        ),
        (
            json!({"thinking": {"type": "adaptive", "budget_tokens": 1_024}}),
            "thinking.budget_tokens",
            "unsupported_parameter",
        ),
        (tool(json!({"name": "a", "input_schema": 1})), "tools[0].input_schema", "invalid_value"),
        (tool(json!({"name": "a b", "input_schema": {}})), "tools[0].name", "invalid_value"),
        (
            tool(json!({"name": "a", "input_schema": {}, "defer_loading": true})),
            "tools[0].defer_loading",
            "unsupported_parameter",
        ),
        (tool(json!({"type": "computer_20250124", "name": "c"})), "tools[0].type", "unsupported_parameter"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice", "invalid_value"),
        (json!({"tool_choice": {"type": "tool", "name": "gone"}}), "tool_choice", "invalid_value"),
        (
            content(json!({"type": "document", "title": 5, "source": {"type": "text", "data": ""}})),
            "messages[0].content[0].title",
            "invalid_value",
        ),
        (tool(json!(5)), "tools[0]", "invalid_value"),
        (tool(json!({"name": "n", "input_schema": []})), "tools[0].input_schema", "invalid_value"),
        (tool(json!({"name": "n", "input_schema": {}, "strict": "yes"})), "tools[0].strict", "invalid_value"),
        (
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}),
            "tool_choice.disable_parallel_tool_use",
            "invalid_value",
        ),
    ] {
        assert_eq!(refused(fields.clone()), (param.to_owned(), code), "{fields}");
    }
}

fn delta(index: u32, kind: StepKind, offset: u64, text: &str) -> Event {
    Event::Delta { index, kind, offset, first_seq: 0, text: text.to_owned() }
}

fn call(index: u32, arguments: &str, is_client: bool) -> Event {
    let call = ToolCall { id_ref: "provider".into(), name: "weather".into(), arguments: arguments.into() };
    Event::ToolCall { index, call, is_client }
}

fn done(finish_reason: FinishReason) -> Event {
    let usage = Usage { cached_tokens: 4, reasoning_tokens: 2, ..Usage::new(10, 5) };
    let message_id = JobId::from_bits(7).message_id();
    Event::Done {
        message_id,
        token_count: 5,
        suggested_title: None,
        usage,
        finish_reason,
        stop_sequence: None,
    }
}

fn queued() -> Job {
    let spec = JobSpec::new("demo".into(), vec![Message::user("x")], 1, 60);
    Job::queued(JobId::from_bits(7), UserId::SINGLE, 5_000, &spec)
}

fn id() -> RequestId {
    let store = Arc::new(MemoryStore::default());
    RequestId::of(&HeaderMap::new(), app(&store).entropy.as_ref())
}

/// The frames of these events: names and data.
fn frames(events: Vec<Event>, view: ThinkingView) -> (Vec<Value>, Option<AnswerEnd>) {
    let form = MessagesForm { is_stream: true, final_text_only: false, thinking: view, input_tokens: 3 };
    let writer = MessageEventWriter::new(&queued(), &form, id());
    let mut pieces = AnswerPieces::new(queued().id, Box::new(writer), false);
    let mut out = Vec::new();
    let end = events.into_iter().find_map(|event| pieces.write(&mut out, event));
    let text = String::from_utf8(out).expect("UTF-8");
    let frames = text.split_terminator("\n\n").map(|frame| {
        let (name, data) = frame.split_once("\ndata: ").expect("two lines");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    (frames.collect(), end)
}

/// The message as a client puts it together.
fn gathered(frames: &[Value]) -> Value {
    let mut message = Value::Null;
    let mut input = String::new();
    for frame in frames {
        let at = frame["index"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
        match frame["type"].as_str().expect("a type") {
            "message_start" => message = frame["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("blocks");
                assert_eq!(content.len(), at);
                content.push(frame["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let delta = &frame["delta"];
                let block = &mut message["content"][at];
                for (kind, field) in
                    [("text_delta", "text"), ("thinking_delta", "thinking"), ("signature_delta", "signature")]
                {
                    if delta["type"] == kind {
                        let whole = format!(
                            "{}{}",
                            block[field].as_str().expect("text"),
                            delta[field].as_str().expect("text")
                        );
                        block[field] = json!(whole);
                    }
                }
                if let Some(piece) = delta["partial_json"].as_str() {
                    input.push_str(piece);
                    block["input"] = serde_json::from_str(&input).expect("JSON");
                }
            }
            "message_delta" => {
                for (name, value) in frame["delta"].as_object().expect("an object") {
                    message[name.as_str()] = value.clone();
                }
                message["usage"] = frame["usage"].clone();
            }
            _ => {}
        }
    }
    message
}

fn answer() -> Vec<Event> {
    vec![
        delta(0, StepKind::Thinking, 0, "hm"),
        delta(0, StepKind::Thinking, 2, " hm"),
        delta(1, StepKind::Text, 0, "Let me "),
        delta(1, StepKind::Text, 7, "see."),
        call(2, "{}", false),
        Event::ToolResult {
            index: 3,
            id_ref: "p".into(),
            name: "t".into(),
            content: "{}".into(),
            skipped: false,
            ended_at_ms: None,
        },
        delta(4, StepKind::Thinking, 0, "aha"),
        delta(5, StepKind::Text, 0, "It is 42."),
        call(6, "{\"city\": \"Rome\"}", true),
        call(7, "{broken", true),
        done(FinishReason::ToolCalls),
    ]
}

#[test]
fn a_stream_puts_together_the_same_message_as_a_whole_answer() {
    for view in [ThinkingView::Shown, ThinkingView::Omitted, ThinkingView::Hidden] {
        let events = (1..).zip(answer()).map(|(seq, event)| SequencedEvent::new(seq, event));
        let parts = AnswerParts::of(queued().id, events.collect(), false);
        let Event::Done { usage, .. } = done(FinishReason::Stop) else { panic!("an end") };
        let job = Job { usage, ..queued() };
        let whole = MessageObject::new(
            FinishedAnswer {
                job,
                parts,
                ending: AnswerEnding { reason: FinishReason::ToolCalls, stop_sequence: None },
            },
            view,
        );
        let (frames, end) = frames(answer(), view);
        assert!(matches!(end, Some(AnswerEnd::Complete)), "{end:?}");
        assert_eq!(gathered(&frames), serde_json::to_value(&whole).expect("JSON"), "{view:?}");
        assert_eq!(frames.last(), Some(&json!({"type": "message_stop"})));
    }
}

#[test]
fn a_message_has_blocks_in_order_and_usage_without_cached_tokens() {
    let (frames, _) = frames(answer(), ThinkingView::Shown);
    let message = gathered(&frames);
    let blocks = message["content"].as_array().expect("blocks");
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["thinking", "text", "thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(blocks[0]["signature"], JobId::from_bits(7).to_string());
    assert_eq!((&blocks[1]["text"], &blocks[3]["text"]), (&json!("Let me see."), &json!("\n\nIt is 42.")));
    assert_eq!(blocks[4]["input"], json!({"city": "Rome"}));
    assert_eq!(blocks[5]["input"], json!({"malformed_arguments": "{broken"}));
    assert!(blocks[4]["id"].as_str().is_some_and(|id| id.starts_with("toolu_")), "{}", blocks[4]);
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(
        (&message["usage"]["input_tokens"], &message["usage"]["cache_read_input_tokens"]),
        (&json!(6), &json!(4))
    );
    assert_eq!(message["usage"]["output_tokens_details"]["thinking_tokens"], 2);
    let starts = frames.iter().filter(|frame| frame["type"] == "content_block_start").count();
    let stops = frames.iter().filter(|frame| frame["type"] == "content_block_stop").count();
    assert_eq!((starts, stops), (6, 6));
}

#[test]
fn an_empty_answer_is_a_message_without_blocks() {
    let (frames, _) = frames(vec![done(FinishReason::Length)], ThinkingView::Shown);
    let names: Vec<_> = frames.iter().map(|frame| frame["type"].as_str().expect("a type")).collect();
    assert_eq!(names, ["message_start", "message_delta", "message_stop"]);
    assert_eq!(frames[1]["delta"]["stop_reason"], "max_tokens");
}

#[test]
fn a_failure_has_no_message_of_its_own() {
    let events =
        vec![Event::Error { content: "x".into(), code: FailureCode::ProviderError, retry_after_ms: None }];
    let (frames, end) = frames(events, ThinkingView::Shown);
    assert!(frames.is_empty() && matches!(end, Some(AnswerEnd::Failed(_))), "{end:?}");
}

#[test]
fn ids_of_calls_come_back_as_they_were() {
    let own = "call_00000000000000000000000000_0";
    let id = super::tools::shown_id(own);
    assert_eq!(id.strip_prefix("toolu_"), own.strip_prefix("call_"));
    assert_eq!(super::tools::call_id("toolu_abc"), "toolu_abc", "an id of another server");
}
