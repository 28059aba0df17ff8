//! The fold of a log against its own prefixes and pages, and the messages of items.

use super::fold::{LogCut, ResponseFold, StreamedEvent};
use super::input::{MessageBuilder, items, shown};
use super::{history, images, request};
use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, FailureCode, FinishReason, SequencedEvent, StatusPhase, StepKind};
use crate::domain::id::{JobId, UserId};
use crate::domain::image::{Image, ImageType};
use crate::domain::job::{Job, JobSpec};
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::domain::response_request::{McpListedTool, McpToolList, ResponseRequest};
use crate::domain::stored_file::ContentDigest;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::testing::{MemoryStore, app};
use crate::ports::{NewJob, Store};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const JOB: JobId = JobId::from_bits(7);

fn job() -> Job {
    let spec = JobSpec::new("demo".into(), vec![Message::user("x")], 1, 60);
    Job::queued(JOB, UserId::SINGLE, 5_000, &spec)
}

fn new_fold(after: Option<u64>) -> ResponseFold {
    let request = ResponseRequest {
        input: Vec::new(),
        shown: Map::new(),
        is_stored: true,
        is_background: true,
        mcp_lists: Vec::new(),
        listed_before: Vec::new(),
        loaded_before: Vec::new(),
    };
    ResponseFold::new(&job(), &request).streamed(after)
}

fn status(status: StatusPhase) -> Event {
    Event::Status { status, attempt: 1, reason: None }
}

fn delta(index: u32, kind: StepKind, text: &str) -> Event {
    Event::Delta { index, kind, offset: 0, first_seq: 0, text: text.to_owned() }
}

fn call(index: u32, name: &str, is_client: bool) -> Event {
    let call = ToolCall { id_ref: format!("c{index}"), name: name.into(), arguments: "{}".into() };
    Event::ToolCall { index, call, is_client }
}

fn result(index: u32, of: u32) -> Event {
    let (id_ref, name, content) = (format!("c{of}"), "tool".into(), "{\"success\":true}".into());
    Event::ToolResult { index, id_ref, name, content, skipped: false, ended_at_ms: None }
}

fn done(finish_reason: FinishReason) -> Event {
    let (message_id, usage) = (JOB.message_id(), Usage::new(10, 5));
    Event::Done {
        message_id,
        token_count: 5,
        suggested_title: None,
        usage,
        finish_reason,
        stop_sequence: None,
    }
}

/// A job that thinks, crashes in mid-answer, runs tools and hands a call to its client.
fn log() -> Vec<SequencedEvent> {
    let events = vec![
        status(StatusPhase::Queued),
        status(StatusPhase::Running),
        delta(0, StepKind::Thinking, "hm"),
        delta(1, StepKind::Text, "one "),
        delta(1, StepKind::Text, "tw"),
        Event::StepDiscarded { index: 1 },
        status(StatusPhase::Running),
        delta(2, StepKind::Text, "one two"),
        call(3, "execute_python", false),
        call(4, "calculator", false),
        call(5, "web_search", false),
        result(6, 4),
        result(7, 3),
        result(8, 5),
        delta(9, StepKind::Text, "so "),
        delta(9, StepKind::Text, "it is"),
        call(10, "theirs", true),
        done(FinishReason::ToolCalls),
    ];
    (1..).zip(events).map(|(seq, event)| SequencedEvent::new(seq, event)).collect()
}

/// The frames of these pages, with the numbers of their `id` lines checked.
fn frames(pages: &[Vec<SequencedEvent>], after: Option<u64>) -> Vec<Value> {
    let mut fold = new_fold(after);
    let mut text = String::new();
    for page in pages {
        for event in page.clone() {
            fold.apply(event).expect("no gap");
        }
        text.extend(fold.take_events().iter().map(StreamedEvent::to_frame));
    }
    text.split_terminator("\n\n").map(frame).collect()
}

fn frame(text: &str) -> Value {
    let mut lines = text.lines();
    let mut field = |name: &str| lines.next().and_then(|line| line.strip_prefix(name)).expect("a line");
    let (event, id) = (field("event: "), field("id: "));
    let data: Value = serde_json::from_str(field("data: ")).expect("JSON");
    assert_eq!((data["type"].as_str(), data["sequence_number"].to_string()), (Some(event), id.to_owned()));
    data
}

fn of_type<'f>(frames: &'f [Value], kind: &str) -> Vec<&'f Value> {
    frames.iter().filter(|frame| frame["type"] == kind).collect()
}

#[test]
fn numbers_count_from_zero_and_every_item_begins_and_ends_once() {
    let frames = frames(&[log()], None);
    let numbers: Vec<u64> = frames.iter().filter_map(|frame| frame["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..frames.len() as u64).collect::<Vec<_>>());
    let types: Vec<_> = frames.iter().take(3).filter_map(|frame| frame["type"].as_str()).collect();
    assert_eq!(types, ["response.created", "response.queued", "response.in_progress"]);
    let places = |kind: &str| {
        let mut places: Vec<u64> =
            of_type(&frames, kind).iter().filter_map(|frame| frame["output_index"].as_u64()).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places("response.output_item.added"), (0..8).collect::<Vec<_>>());
    assert_eq!(places("response.output_item.done"), (0..8).collect::<Vec<_>>());
    assert_eq!(frames.last().expect("frames")["type"], "response.completed");
}

#[test]
fn a_text_that_was_cut_off_is_streamed_as_incomplete_and_not_part_of_the_response() {
    let frames = frames(&[log()], None);
    let done = of_type(&frames, "response.output_item.done");
    let cut = done.iter().find(|frame| frame["output_index"] == 1).expect("the item");
    assert_eq!(
        (&cut["item"]["status"], &cut["item"]["content"][0]["text"]),
        (&json!("incomplete"), &json!("one tw"))
    );
    let response = &frames.last().expect("frames")["response"];
    let output = response["output"].as_array().expect("output");
    let types: Vec<_> = output.iter().filter_map(|item| item["type"].as_str()).collect();
    let expected = [
        "reasoning",
        "message",
        "code_interpreter_call",
        "mcp_call",
        "web_search_call",
        "message",
        "function_call",
    ];
    assert_eq!(types, expected);
    assert_eq!(output[1]["content"][0]["text"], "one two");
    let id = ClientCallId::new(JOB, 0).to_string();
    assert_eq!((&output[6]["call_id"], &response["usage"]["total_tokens"]), (&json!(id), &json!(15)));
}

#[test]
fn ends_have_the_status_and_the_event_of_their_kind() {
    let error = |code| Event::Error { content: "x".into(), code, retry_after_ms: None };
    for (event, kind, status) in [
        (done(FinishReason::Stop), "response.completed", "completed"),
        (done(FinishReason::Length), "response.incomplete", "incomplete"),
        (error(FailureCode::Cancelled), "response.incomplete", "cancelled"),
        (error(FailureCode::Timeout), "response.failed", "failed"),
    ] {
        let events = [status_events(), vec![delta(0, StepKind::Text, "a"), event]].concat();
        let events: Vec<_> = (1..).zip(events).map(|(seq, event)| SequencedEvent::new(seq, event)).collect();
        let frames = frames(&[events], None);
        let last = frames.last().expect("frames");
        assert_eq!((&last["type"], &last["response"]["status"]), (&json!(kind), &json!(status)));
        assert_eq!(last["response"]["error"].is_object(), status == "failed");
    }
}

fn status_events() -> Vec<Event> {
    vec![status(StatusPhase::Queued), status(StatusPhase::Running)]
}

#[test]
fn tools_are_listed_once_when_the_job_begins_and_at_the_same_numbers_again() {
    let tool = McpListedTool {
        name: "echo".to_owned(),
        description: "d".to_owned(),
        input_schema: json!({"type": "object"}),
    };
    let list = McpToolList { label: "fake".to_owned(), tools: vec![tool] };
    let request = ResponseRequest {
        input: Vec::new(),
        shown: Map::new(),
        is_stored: true,
        is_background: true,
        mcp_lists: vec![list],
        listed_before: Vec::new(),
        loaded_before: Vec::new(),
    };
    let read = |after: Option<u64>| {
        let mut fold = ResponseFold::new(&job(), &request).streamed(after);
        for event in log() {
            fold.apply(event).expect("no gap");
        }
        let text: String = fold.take_events().iter().map(StreamedEvent::to_frame).collect();
        text.split_terminator("\n\n").map(frame).collect::<Vec<Value>>()
    };
    let whole = read(None);
    let kinds: Vec<&str> = whole.iter().filter_map(|frame| frame["type"].as_str()).collect();
    let expected = [
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ];
    assert_eq!(kinds[2..7], expected, "also after a second attempt");
    assert_eq!(kinds.iter().filter(|kind| kind.contains("mcp_list_tools")).count(), 2);
    assert_eq!(whole[3]["item"]["tools"], json!([]));
    let end = &whole.last().expect("an end")["response"]["output"];
    assert_eq!((&end[0]["type"], &end[0]["tools"][0]["name"]), (&json!("mcp_list_tools"), &json!("echo")));
    assert_eq!(read(Some(4)), whole[5..]);
}

#[test]
fn a_gap_in_the_log_is_an_error() {
    let mut fold = new_fold(None);
    assert_eq!(fold.apply(SequencedEvent::new(2, status(StatusPhase::Running))), Err(LogCut));
}

proptest! {
    #[test]
    fn a_stream_is_the_same_in_any_pages_and_from_any_number(
        cuts in proptest::collection::vec(0_usize..18, 0..6),
        after in proptest::option::of(0_u64..80),
    ) {
        let whole = frames(&[log()], None);
        let (mut pages, mut rest, mut cuts) = (Vec::new(), log(), cuts);
        cuts.sort_unstable();
        for cut in cuts.into_iter().rev() {
            pages.insert(0, rest.split_off(cut.min(rest.len())));
        }
        pages.insert(0, rest);
        let expected: Vec<Value> = whole
            .into_iter()
            .filter(|frame| after.is_none_or(|after| frame["sequence_number"].as_u64() > Some(after)))
            .collect();
        prop_assert_eq!(frames(&pages, after), expected);
    }
}

fn messages(given: Value) -> Vec<Message> {
    let items = items(Some(given)).expect("items");
    MessageBuilder::default().extend("input", &items).expect("messages").finish()
}

#[test]
fn items_become_messages_and_the_parts_of_an_answer_one_message() {
    let id = |place| ClientCallId::new(JOB, place).to_string();
    let call = |place| json!({"type": "function_call", "call_id": id(place), "name": "f", "arguments": "{}"});
    let output = |place| json!({"type": "function_call_output", "call_id": id(place), "output": "ok"});
    let own = super::ids::item_id("mcp", JOB, 1);
    let read = messages(json!([
        {"role": "developer", "content": "brief"},
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "Let me see."},
        {"type": "mcp_call", "id": own, "name": "calculator", "arguments": "{}", "output": "42"},
        call(0), call(1), output(1), output(0),
        {"type": "mcp_call", "id": "mcp_x", "name": "calculator", "arguments": "{}", "output": "42"},
    ]));
    assert_eq!(read.len(), 7, "{read:?}");
    let Message::Assistant { content, thinking, tool_calls, .. } = &read[2] else { panic!("{read:?}") };
    assert_eq!((content.as_str(), thinking.as_str(), tool_calls.len()), ("Let me see.", "hm", 2));
    assert!(matches!(&read[4], Message::Tool { name, id_ref, .. } if name == "f" && *id_ref == id(0)));
    assert!(matches!(&read[6], Message::Tool { content, .. } if content == "42"));
}

#[test]
fn bad_items_are_refused_by_name() {
    for (item, path, code) in [
        (json!({"type": "message", "role": "bot", "content": ""}), "input[0].role", "invalid_value"),
        (
            json!({"role": "assistant", "content": [{"type": "input_image"}]}),
            "input[0].content[0].type",
            "unsupported_parameter",
        ),
        (
            json!({"type": "function_call_output", "call_id": "x", "output": ""}),
            "input[0].call_id",
            "invalid_value",
        ),
        (json!({"type": "computer_call"}), "input[0].type", "unsupported_parameter"),
        (
            json!({"type": "compaction", "encrypted_content": "x"}),
            "input[0].encrypted_content",
            "invalid_value",
        ),
        (json!({}), "input[0].type", "invalid_value"),
        (json!(5), "input[0]", "invalid_value"),
        (
            json!({"role": "user", "content": [{"type": "input_image"}, {"type": "input_text"}]}),
            "input[0].content[1].text",
            "invalid_value",
        ),
        (json!({"type": 5, "role": "user", "content": ""}), "input[0].type", "invalid_value"),
        (json!({"type": "message", "content": ""}), "input[0].role", "invalid_value"),
        (json!({"type": "reasoning", "summary": "hm"}), "input[0].summary", "invalid_value"),
        (json!({"type": "reasoning", "content": [{"text": 1}]}), "input[0].content[0].text", "invalid_value"),
        (json!({"type": "mcp_call"}), "input[0].name", "invalid_value"),
        (json!({"type": "mcp_call", "name": "n", "output": 1}), "input[0].output", "invalid_value"),
        (json!({"type": "mcp_approval_response"}), "input[0].approval_request_id", "invalid_value"),
        (
            json!({"type": "mcp_approval_response", "approval_request_id": "r", "approve": "yes"}),
            "input[0].approve",
            "invalid_value",
        ),
    ] {
        let error = MessageBuilder::default().extend("input", &[item]).expect_err("refused");
        assert_eq!((error.param(), error.code()), (Some(path), code), "{error}");
    }
}

/// A stored response that said this.
fn store_with_response(text: &str) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::default());
    let mut spec = JobSpec::new("demo".into(), vec![Message::user("x")], 1, 60);
    let request = ResponseRequest {
        input: Vec::new(),
        shown: Map::new(),
        is_stored: true,
        is_background: false,
        mcp_lists: Vec::new(),
        listed_before: Vec::new(),
        loaded_before: Vec::new(),
    };
    spec.response = Some(request);
    let new = NewJob { id: JOB, user: UserId::SINGLE, created_at_ms: 0, spec, in_existing: false };
    store.submit(vec![new]).wait().expect("stored");
    store.say(JOB, 0, text);
    store.end(JOB, text);
    store
}

#[test]
fn p8_references_name_no_more_text_than_the_input_of_a_job_has() {
    let mut app = app(&store_with_response(&"x".repeat(400)));
    app.limits.input_bytes = 1_024;
    let resolved = |references: usize, id: &str| {
        let items = vec![json!({"type": "item_reference", "id": id}); references];
        history::resolved(&app, (UserId::SINGLE, None), "items", items)
    };
    let id = super::ids::item_id("msg", JOB, 0);
    let items = resolved(2, &id).expect("items");
    assert_eq!(items[1]["content"][0]["text"], "x".repeat(400), "{items:?}");
    assert!(matches!(resolved(3, &id), Err(ApiError::InputTooLarge(1_024))));
    for other in [super::ids::item_id("msg", JOB, 9), "msg_1".to_owned()] {
        assert_eq!(resolved(1, &other).expect_err("unknown").param(), Some("items[0].id"));
    }
}

#[test]
fn p8_a_page_ends_before_the_images_that_are_too_large_together() {
    let image = Image {
        media_type: ImageType::Png,
        content: ContentDigest::from_bytes([7; 32]),
        bytes: 600,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: None,
    };
    let part = json!({"type": "input_image", "image": image});
    let items = vec![json!({"type": "message", "role": "user", "content": [part]}); 3];
    let most = |body_bytes: usize| Limits { body_bytes, ..Limits::default() };
    for (limit, bytes, fitting) in [(3, 1_800, 3), (2, 1_800, 2), (3, 1_799, 2), (3, 1, 1)] {
        assert_eq!(images::fitting(&items, limit, &most(bytes)), fitting, "{limit} items, {bytes} bytes");
    }
}

#[test]
fn a_compaction_item_is_understood_again() {
    let item = super::compaction::item(JOB, "they met");
    let read = messages(json!([item, {"role": "user", "content": "go on"}]));
    assert!(matches!(&read[0], Message::System { content } if content.ends_with("they met")), "{read:?}");
}

#[test]
fn input_items_are_listed_with_ids_types_and_parts() {
    let listed = shown(JOB, 1, json!({"role": "user", "content": "a"}));
    assert_eq!(listed["content"], json!([{"type": "input_text", "text": "a"}]));
    assert_eq!((&listed["type"], &listed["status"]), (&json!("message"), &json!("completed")));
    assert!(super::ids::item_place(listed["id"].as_str().expect("an id")).is_none());
}

#[test]
fn unknown_and_unsupported_fields_are_refused_by_name() {
    for (name, value) in [("prompt", json!("c")), ("top_logprobs", json!(2)), ("colour", json!("red"))] {
        let body = Map::from_iter([(name.to_owned(), value)]);
        let error = request::read(body).expect_err("refused");
        assert_eq!((error.param(), error.code()), (Some(name), "unsupported_parameter"), "{error}");
    }
}
