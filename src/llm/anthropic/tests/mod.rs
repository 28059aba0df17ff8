//! Replays streams that were recorded from real providers, whole and cut.

mod answer;
mod request;

use super::answer::AnthropicAnswer;
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::answer_output::{AnswerLimits, AnswerOutput};
use crate::llm::testing::{
    BodySlices, LIMITS, Recording, StreamedCalls, assert_answer, error_mapper, recordings,
    request as model_request, with_crlf,
};
use crate::llm::transport::endpoint::MESSAGES;
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use serde_json::{Value, json};
use std::io::{Cursor, Read};
use std::ops::ControlFlow;

/// The name of this dialect in the manifest, and how many recordings there are at least.
const API: (&str, usize) = ("anthropic-messages", 16);

/// The result of reading a body, or several that continue each other.
#[derive(Debug)]
struct AnthropicReplay {
    text: String,
    thinking: String,
    usage: Usage,
    /// Each `Chunk::Spent`.
    spent: Vec<Usage>,
    /// The blocks that went back to the provider after each pause.
    pages: Vec<Vec<Value>>,
    result: Result<Completion, ModelError>,
}

/// Reads the bodies as the dialect does: the next one while the provider pauses.
fn read(
    request: &ModelRequest,
    bodies: &mut [&mut dyn Read],
    slice: usize,
    limits: AnswerLimits,
) -> AnthropicReplay {
    let errors = error_mapper(MESSAGES, "topsecret");
    let (mut text, mut thinking, mut spent) = (String::new(), String::new(), Vec::new());
    let mut streamed = StreamedCalls::default();
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Call { place, name, offset, arguments } => streamed.add(place, name, (offset, arguments)),
            Chunk::Text("") | Chunk::Thinking("") => panic!("a text is never empty"),
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Thinking(piece) => thinking.push_str(piece),
            Chunk::TextWasThinking => panic!("this dialect marks its reasoning"),
            Chunk::Spent(usage) => spent.push(usage),
            Chunk::CaughtUp => {}
        }
        ControlFlow::Continue(())
    };
    let mut pages = Vec::new();
    let output = AnswerOutput::new(&mut sink, limits);
    let mut answer = AnthropicAnswer::new(output, &errors, request);
    let mut result = Ok(());
    for body in bodies {
        if answer.is_paused() {
            pages.push(answer.begin_continuation());
        }
        let read = answer.read(&mut BodySlices(body, slice), &CallSlot::default());
        result = read.map_err(|failure| failure.error);
    }
    let result = result.and_then(|()| answer.finish());
    streamed.check(&result);
    let usage = spent.last().copied().unwrap_or_default();
    AnthropicReplay { text, thinking, usage, spent, pages, result }
}

fn replay_within(body: &[u8], slice: usize, limits: AnswerLimits) -> AnthropicReplay {
    read(&model_request(Vec::new()), &mut [&mut Cursor::new(body)], slice, limits)
}

fn replay(body: &str) -> AnthropicReplay {
    replay_within(body.as_bytes(), 4096, LIMITS)
}

fn stream_of(events: &[Value]) -> String {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    let told = |event: &Value| format!("event: {}\ndata: {event}\n\n", name(event));
    events.iter().map(told).collect::<Vec<_>>().concat()
}

/// The word of this server for one of Anthropic's.
fn finish_word(word: &Value) -> FinishReason {
    match word.as_str().expect("a finish reason") {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        other => panic!("what does {other} mean?"),
    }
}

fn assert_matches(outcome: &AnthropicReplay, expected: &Value, what: &str) {
    let answer = (outcome.text.as_str(), outcome.thinking.as_str());
    let Some(completion) = assert_answer(answer, &outcome.result, expected, what) else { return };
    assert_eq!(completion.finish_reason, finish_word(&expected["finish_reason"]), "finish reason of {what}");
    let count = |field: &str| expected["usage"][field].as_u64().unwrap_or(0);
    let prompt =
        count("input_tokens") + count("cache_creation_input_tokens") + count("cache_read_input_tokens");
    assert_eq!(outcome.usage, Usage::new(prompt, count("output_tokens")), "usage of {what}");
}

#[test]
fn recorded_streams_parse_to_their_manifest() {
    for Recording { file, body, expected } in recordings(API.0, API.1) {
        let crlf = with_crlf(&body);
        for slice in [1, 7, 4096] {
            for (ending, bytes) in [("LF", &body), ("CRLF", &crlf)] {
                let outcome = replay_within(bytes, slice, LIMITS);
                let what = format!("{file} ({ending}, slices of {slice})");
                assert_matches(&outcome, &expected, &what);
            }
        }
    }
}

#[test]
fn recorded_blocks_that_providers_need_back_are_echoed_unchanged() {
    let kinds = |name: &str| {
        let recording =
            recordings(API.0, API.1).into_iter().find(|recording| recording.file.ends_with(name))?;
        let outcome = replay_within(&recording.body, 4096, LIMITS);
        let echo = outcome.result.expect("complete").echo?;
        let kind = |part: &Value| part["type"].as_str().expect("a kind").to_owned();
        Some((echo.parts.as_array().expect("parts").iter().map(kind).collect::<Vec<_>>(), echo.parts))
    };
    if recordings(API.0, API.1).is_empty() {
        return;
    }
    let (sealed, _) = kinds("pyd-anthropic_model_thinking_part_redacted_stream.sse").expect("an echo");
    assert_eq!(sealed, ["redacted_thinking", "redacted_thinking", "text"]);
    let (thought, parts) = kinds("sonnet4-thinking-streaming.1.sse").expect("an echo");
    assert_eq!(thought, ["thinking", "tool_use"]);
    assert!(parts[0]["signature"].as_str().expect("a seal").starts_with("EtYDCkYICxgC"));
    assert_eq!(parts[1]["input"], json!({"location": "Florence, Italy"}));
    let (spliced, parts) = kinds("vercel-spliced-message-start.sse").expect("an echo");
    assert_eq!((spliced.len(), &parts[0]["signature"]), (2, &json!("sig-second")));
    let (searched, parts) = kinds("vercel-anthropic-web-search-tool.1.sse").expect("an echo");
    assert_eq!(searched[..3], ["server_tool_use", "web_search_tool_result", "text"]);
    assert_eq!(parts[0]["input"], json!({"query": "tech news today September 26 2025"}));
    assert_eq!(parts[3]["citations"].as_array().map(Vec::len), Some(3));
    for plain in ["sonnet4-multi_tool_streaming.1.sse", "vercel-anthropic-fallback.sse"] {
        assert_eq!(kinds(plain), None, "{plain}");
    }
}

#[test]
fn a_truncated_recorded_stream_is_complete_or_unavailable() {
    for Recording { file, body, expected } in recordings(API.0, API.1) {
        let step = if body.len() > 20_000 { 331 } else { 10 };
        let mut failed = 0;
        for end in (0..body.len()).step_by(step) {
            let outcome = replay_within(&body[..end], 4096, LIMITS);
            let whole = expected["text"].as_str().expect("a text");
            assert!(whole.starts_with(&outcome.text), "{file} cut at {end}");
            match &outcome.result {
                Ok(_) => assert_matches(&outcome, &expected, &format!("{file} cut at {end}")),
                Err(ModelError::Unavailable { .. }) => failed += 1,
                Err(other) => panic!("{file} cut at {end}: {other:?}"),
            }
        }
        assert!(failed > 0, "a stream without its end is no answer");
    }
}
