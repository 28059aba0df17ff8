//! The chunks of a stream against the parts of the same answer as a whole.

use super::super::answer::parts::AnswerParts;
use super::super::answer::pieces::{AnswerEnd, AnswerPieces};
use super::chunk::ChunkWriter;
use crate::domain::event::{Event, FailureCode, FinishReason, SequencedEvent, StepKind};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use serde_json::{Value, json};

fn delta(index: u32, kind: StepKind, text: &str) -> Event {
    Event::Delta { index, kind, offset: 0, first_seq: 0, text: text.to_owned() }
}

fn text(index: u32, text: &str) -> Event {
    delta(index, StepKind::Text, text)
}

fn call(index: u32, name: &str, is_client: bool) -> Event {
    let call = ToolCall { id_ref: "provider".into(), name: name.into(), arguments: "{}".into() };
    Event::ToolCall { index, call, is_client }
}

fn result(index: u32) -> Event {
    let (id_ref, name, content) = ("provider".into(), "tool".into(), "{}".into());
    Event::ToolResult { index, id_ref, name, content, skipped: false, ended_at_ms: None }
}

fn done(finish_reason: FinishReason) -> Event {
    let message_id = JobId::from_bits(7).message_id();
    let usage = Usage::new(10, 5);
    Event::Done {
        message_id,
        token_count: 5,
        suggested_title: None,
        usage,
        finish_reason,
        stop_sequence: None,
    }
}

fn job() -> Job {
    let spec = JobSpec::new("demo".into(), vec![Message::user("x")], 1, 60);
    Job::queued(JobId::from_bits(7), UserId::SINGLE, 5_000, &spec)
}

/// The chunks of these events, and how the stream ended.
fn chunks(events: Vec<Event>, final_text_only: bool) -> (Vec<Value>, Option<AnswerEnd>) {
    let writer = Box::new(ChunkWriter::new(&job(), true));
    let mut pieces = AnswerPieces::new(job().id, writer, final_text_only);
    let mut out = Vec::new();
    let end = events.into_iter().find_map(|event| pieces.write(&mut out, event));
    let text = String::from_utf8(out).expect("UTF-8");
    let frames = text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").expect("data"));
    let frames = frames.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data)));
    (frames.collect(), end)
}

fn content(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

fn whole(mut events: Vec<Event>, final_text_only: bool) -> AnswerParts {
    let mut begun = 0;
    for event in &mut events {
        if let Event::Delta { index, offset, .. } = event {
            *offset = u64::from(*index < begun);
            begun = *index + 1;
        }
    }
    let events = (1..).zip(events).map(|(seq, event)| SequencedEvent::new(seq, event));
    AnswerParts::of(JobId::from_bits(7), events.collect(), final_text_only)
}

fn failed(end: Option<AnswerEnd>) -> ApiError {
    match end {
        Some(AnswerEnd::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_and_a_whole_completion_have_the_same_parts() {
    let events = || {
        vec![
            delta(0, StepKind::Thinking, "hm"),
            text(1, "Let me "),
            text(1, "see."),
            call(2, "calculator", false),
            result(3),
            text(4, "It is "),
            text(5, "42."),
            call(6, "theirs", true),
            call(7, "theirs", true),
            done(FinishReason::ToolCalls),
        ]
    };
    for (final_text_only, expected) in [(false, "Let me see.\n\nIt is 42."), (true, "It is 42.")] {
        let (chunks, end) = chunks(events(), final_text_only);
        assert!(matches!(end, Some(AnswerEnd::Complete)), "{end:?}");
        let parts = whole(events(), final_text_only);
        let joined = |kind| parts.joined(kind);
        assert_eq!((joined(StepKind::Text).as_str(), joined(StepKind::Thinking).as_str()), (expected, "hm"));
        assert_eq!(content(&chunks, "content"), expected);
        assert_eq!(content(&chunks, "reasoning_content"), "hm");
        let calls: Vec<&Value> = chunks
            .iter()
            .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten())
            .collect();
        let ids: Vec<_> = calls.iter().map(|call| call["id"].as_str().expect("an id")).collect();
        assert_eq!(ids, parts.calls.iter().map(|call| call.id_ref.as_str()).collect::<Vec<_>>());
        assert_eq!(calls.iter().map(|call| &call["index"]).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(chunks.last(), Some(&json!("[DONE]")));
    }
}

#[test]
fn a_stream_begins_with_the_role_and_ends_with_the_reason_and_the_usage() {
    let (chunks, _) = chunks(vec![text(0, "hi"), done(FinishReason::MaxSteps)], false);
    let choices: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"]).collect();
    assert_eq!(choices[0][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(choices[1][0]["delta"], json!({"content": "hi"}));
    assert_eq!((&choices[2][0]["delta"], &choices[2][0]["finish_reason"]), (&json!({}), &json!("stop")));
    assert_eq!(choices[3], &json!([]));
    assert_eq!(chunks[3]["usage"]["total_tokens"], 15);
    assert!(chunks[..3].iter().all(|chunk| chunk["usage"].is_null() && chunk["created"] == 5));
}

#[test]
fn a_text_that_broke_off_is_not_sent_twice_when_the_model_repeats_it() {
    let discarded = |index| Event::StepDiscarded { index };
    let events = vec![
        text(0, "one two"),
        discarded(0),
        text(1, "one "),
        discarded(1),
        text(2, "on"),
        text(2, "e two three"),
        done(FinishReason::Stop),
    ];
    let (chunks, end) = chunks(events, false);
    assert!(matches!(end, Some(AnswerEnd::Complete)), "{end:?}");
    assert_eq!(content(&chunks, "content"), "one two three");
}

#[test]
fn a_text_that_begins_anew_ends_the_stream_with_an_error_that_names_the_job() {
    for next in [text(1, "other"), done(FinishReason::Stop), call(1, "theirs", true)] {
        let events = vec![text(0, "one two"), Event::StepDiscarded { index: 0 }, next];
        let error = failed(chunks(events, false).1);
        assert_eq!(error.code(), "answer_restarted");
        assert!(error.to_string().contains("/v1/jobs/job_"), "{error}");
    }
    let held =
        vec![text(0, "one"), Event::StepDiscarded { index: 0 }, text(1, "two"), done(FinishReason::Stop)];
    assert_eq!(content(&chunks(held, true).0, "content"), "two", "nothing of it was sent");
}

#[test]
fn text_that_turns_out_to_be_reasoning_is_sent_once() {
    let thinking = delta(1, StepKind::Thinking, "so it is");
    let events = vec![
        text(0, "so it is\n"),
        Event::StepDiscarded { index: 0 },
        thinking,
        text(2, "42"),
        done(FinishReason::Stop),
    ];
    let (chunks, _) = chunks(events, false);
    assert_eq!(content(&chunks, "content"), "so it is\n42");
    assert_eq!(content(&chunks, "reasoning_content"), "");
}

#[test]
fn failures_of_jobs_have_the_codes_of_this_api() {
    for (code, status, name) in [
        (FailureCode::ContextTooLong, 400, "context_length_exceeded"),
        (FailureCode::ProviderError, 502, "provider_error"),
        (FailureCode::InvalidRequest, 400, "invalid_request"),
        (FailureCode::ContentFilter, 400, "content_filter"),
        (FailureCode::RateLimited, 429, "rate_limited"),
        (FailureCode::Timeout, 504, "timeout"),
        (FailureCode::Cancelled, 400, "cancelled"),
    ] {
        let error =
            failed(chunks(vec![Event::Error { content: "x".into(), code, retry_after_ms: None }], false).1);
        assert_eq!((error.class().0.as_u16(), error.class().1), (status, name));
    }
}
