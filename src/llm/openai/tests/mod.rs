//! Replays streams that were recorded from real providers, and hand-made ones.

mod malformed;

use super::answer::OpenAiAnswer;
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::answer_output::{AnswerLimits, AnswerOutput};
use crate::llm::testing::{
    BodySlices, LIMITS, Recording, StreamedCalls, assert_answer, error_mapper, recordings, request, with_crlf,
};
use crate::llm::transport::endpoint::CHAT;
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;

/// The result of reading a body.
struct OpenAiReplay {
    text: String,
    thinking: String,
    usage: Usage,
    result: Result<Completion, ModelError>,
}

/// The name of this dialect in the manifest.
const API: &str = "openai-chat";

fn replay_within(body: &[u8], slice: usize, limits: AnswerLimits) -> OpenAiReplay {
    replay_from(BodySlices(Cursor::new(body.to_vec()), slice), limits, &request(Vec::new()), false)
}

/// Reads a body; `text_calls` as in the options.
fn replay_from(
    body: impl Read,
    limits: AnswerLimits,
    request: &ModelRequest,
    text_calls: bool,
) -> OpenAiReplay {
    let errors = error_mapper(CHAT, "");
    let (mut text, mut thinking, mut usage) = (String::new(), String::new(), Usage::default());
    let mut streamed = StreamedCalls::default();
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Thinking(piece) => thinking.push_str(piece),
            Chunk::TextWasThinking => thinking.push_str(&std::mem::take(&mut text)),
            Chunk::Spent(spent) => usage = spent,
            Chunk::Call { place, name, offset, arguments } => streamed.add(place, name, (offset, arguments)),
            Chunk::CaughtUp => {}
        }
        ControlFlow::Continue(())
    };
    let answer = OpenAiAnswer::new(AnswerOutput::new(&mut sink, limits), &errors, request, text_calls);
    let result = answer.read(body, &CallSlot::default()).map_err(|failure| failure.error);
    streamed.check(&result);
    OpenAiReplay { text, thinking, usage, result }
}

fn replay(body: &str) -> OpenAiReplay {
    replay_within(body.as_bytes(), 4096, LIMITS)
}

fn stream_of(chunks: &[Value]) -> String {
    chunks.iter().fold(String::new(), |all, chunk| format!("{all}data: {chunk}\n\n"))
}

fn finish_word(reason: FinishReason) -> Value {
    serde_json::to_value(reason).expect("serialises")
}

fn assert_matches(outcome: &OpenAiReplay, expected: &Value, what: &str) {
    let answer = (outcome.text.as_str(), outcome.thinking.as_str());
    let Some(completion) = assert_answer(answer, &outcome.result, expected, what) else { return };
    // Without a finish reason the calls decide.
    let default = if completion.tool_calls.is_empty() { json!("stop") } else { json!("tool_calls") };
    let reason = if expected["finish_reason"].is_null() { &default } else { &expected["finish_reason"] };
    assert_eq!(&finish_word(completion.finish_reason), reason, "finish reason of {what}");
    for (field, count) in [
        ("prompt_tokens", outcome.usage.prompt_tokens),
        ("completion_tokens", outcome.usage.completion_tokens),
        ("total_tokens", outcome.usage.total_tokens),
    ] {
        let reported = expected["usage"][field].as_u64().unwrap_or(0);
        assert_eq!(count, reported, "{field} of {what}");
    }
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    for piece in body.chunks(100) {
        packer.write_all(piece).expect("packs");
        packer.flush().expect("packs");
    }
    packer.finish().expect("packs")
}

#[test]
fn recorded_streams_parse_to_their_manifest() {
    for Recording { file, body, expected } in recordings(API, 1) {
        let crlf = with_crlf(&body);
        for slice in [1, 7, 4096] {
            for (ending, bytes) in [("LF", &body), ("CRLF", &crlf)] {
                let outcome = replay_within(bytes, slice, LIMITS);
                assert_matches(&outcome, &expected, &format!("{file} ({ending}, slices of {slice})"));
            }
        }
    }
}

#[test]
fn recorded_streams_parse_the_same_with_gzip() {
    for Recording { file, body, expected } in recordings(API, 1) {
        let packed = packed(&body);
        for slice in [1, 4096] {
            let reader = MultiGzDecoder::new(BodySlices(Cursor::new(packed.clone()), slice));
            let outcome = replay_from(reader, LIMITS, &request(Vec::new()), false);
            assert_matches(&outcome, &expected, &format!("{file} (gzip, slices of {slice})"));
        }
    }
}

#[test]
fn p8_a_compression_bomb_is_not_unpacked_to_its_end() {
    let bomb = packed(&b": nothing\n".repeat(1 << 20));
    let limits = AnswerLimits { output_bytes: 1000, ..LIMITS };
    let outcome = replay_from(MultiGzDecoder::new(Cursor::new(bomb)), limits, &request(Vec::new()), false);
    assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
}

#[test]
fn usage_is_read_from_the_chunk_or_from_a_choice() {
    let end = json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]});
    let alone = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let usage = replay(&stream_of(&[end, alone])).usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (3, 4, 7));
    let inside =
        json!({"choices": [{"finish_reason": "stop", "usage": {"prompt_tokens": 1, "total_tokens": 9}}]});
    assert_eq!(replay(&stream_of(&[inside])).usage.total_tokens, 9);
}

#[test]
fn an_answer_is_complete_with_a_finish_reason_or_done() {
    let text = json!({"choices": [{"delta": {"content": "half", "tool_calls": null}}]});
    let cut = replay(&stream_of(std::slice::from_ref(&text)));
    assert_eq!(cut.text, "half");
    assert!(matches!(cut.result, Err(ModelError::Unavailable { .. })));
    let end = json!({"choices": [{"delta": {}, "finish_reason": "length"}]});
    let whole = replay(stream_of(&[text.clone(), end]).trim_end()).result.expect("complete");
    assert_eq!(whole.finish_reason, FinishReason::Length);
    let done = replay(&format!("{}data: [DONE]", stream_of(&[text]))).result.expect("complete");
    assert_eq!(done.finish_reason, FinishReason::Stop);
}

#[test]
fn errors_in_a_200_response_are_errors() {
    let error = json!({"error": {"message": "slow down", "code": 429}});
    assert!(matches!(replay(&stream_of(&[error])).result, Err(ModelError::RateLimited { .. })));
    let error = json!({"error": {"message": "no such model", "code": "model_not_found"}}).to_string();
    let failure = replay(&error).result.expect_err("an error object instead of a stream");
    let message = "the model's provider reports an error: no such model".to_owned();
    assert_eq!(failure, ModelError::UnknownModel(message));
    let bare = json!({"object": "error", "message": "too long", "code": 400}).to_string();
    for body in [bare.clone(), format!("event: error\ndata: {bare}\n\n")] {
        assert!(matches!(replay(&body).result, Err(ModelError::Refused(_))), "{body}");
    }
    let gave_up = json!({"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]});
    assert!(matches!(replay(&stream_of(&[gave_up])).result, Err(ModelError::Unavailable { .. })));
    for garbage in ["<html>login</html>", "data: {\"choices\": [\n\n", "", "data: [1]\n\n"] {
        assert!(matches!(replay(garbage).result, Err(ModelError::Unavailable { .. })), "{garbage}");
    }
}

#[test]
fn a_whole_completion_without_a_stream_is_read() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}});
    let message =
        json!({"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [call]});
    let whole = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    for slice in [1, 4096] {
        let outcome = replay_within(format!("\n\n  {whole}").as_bytes(), slice, LIMITS);
        assert_eq!((outcome.text.as_str(), outcome.thinking.as_str()), ("hi", "hm"));
        assert_eq!(outcome.usage.total_tokens, 3);
        assert_eq!(outcome.result.expect("complete").tool_calls.len(), 1);
    }
}

#[test]
fn the_first_name_of_a_model_is_that_of_the_answer() {
    let chunk = |model: Value| json!({"model": model, "choices": [{"delta": {"content": "x"}}]});
    let end = json!({"model": "other", "choices": [{"delta": {}, "finish_reason": "stop"}]});
    for (first, named) in [
        (json!("m-2026"), Some("m-2026")),
        (json!(""), Some("other")),
        (json!(null), Some("other")),
        (json!([]), Some("other")),
    ] {
        let completion = replay(&stream_of(&[chunk(first), end.clone()])).result.expect("complete");
        assert_eq!(completion.response_model.as_deref(), named);
    }
    let named = |name: &str| Completion {
        response_model: Some(name.to_owned()),
        ..Completion::new(Vec::new(), FinishReason::Stop)
    };
    assert_eq!(named("m-2026").of_model("m"), named("m-2026"));
    for dropped in ["m", "", &"m".repeat(300)] {
        assert_eq!(named(dropped).of_model("m").response_model, None, "{dropped}");
    }
}

#[test]
fn reasoning_in_the_text_is_reasoning() {
    let call = r#"<tool_call>{"name":"calc","arguments":{"n":1}}</tool_call>"#;
    for (content, thinking, text, calls) in [
        (format!("<think>\nhm, so\n</think>\n\nyes {call}"), "hm, so", "yes ", 1),
        (format!("hm, so\n</think>\n\nyes\n{call}"), "hm, so\n", "yes\n", 1),
        ("look: `</think>`".to_owned(), "", "look: `</think>`", 0),
    ] {
        let pieces: Vec<Value> = content
            .chars()
            .map(|c| json!({"choices": [{"delta": {"content": c.to_string()}}]}))
            .chain([json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})])
            .collect();
        let message = json!({"role": "assistant", "content": content});
        let whole =
            json!({"object": "chat.completion", "choices": [{"message": message, "finish_reason": "stop"}]});
        let tool = crate::domain::tool::ToolSpec {
            name: "calc".into(),
            description: "".into(),
            parameters: json!({"type": "object"}),
        };
        let request = ModelRequest { tools: vec![tool.into()], ..request(Vec::new()) };
        for body in [stream_of(&pieces), whole.to_string()] {
            let outcome = replay_from(body.as_bytes(), LIMITS, &request, true);
            assert_eq!((outcome.thinking.as_str(), outcome.text.as_str()), (thinking, text), "{body}");
            assert_eq!(outcome.result.expect("complete").tool_calls.len(), calls, "{body}");
        }
    }
    // A provider with a field for reasoning.
    let thought = json!({"choices": [{"delta": {"reasoning_content": "hm"}}]});
    let text = json!({"choices": [{"delta": {"content": "a\n</think>\nb"}, "finish_reason": "stop"}]});
    let outcome = replay(&stream_of(&[thought, text]));
    assert_eq!((outcome.thinking.as_str(), outcome.text.as_str()), ("hm", "a\n</think>\nb"));
}

#[test]
fn p8_answer_size_is_bounded() {
    let chunk = json!({"choices": [{"delta": {"content": "0123456789"}}]});
    let limits = AnswerLimits { output_bytes: 25, ..LIMITS };
    let outcome = replay_within(stream_of(&vec![chunk; 3]).as_bytes(), 7, limits);
    assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
    assert_eq!(outcome.text.len(), 20, "what was within the bound has been handed on");
    let endless = format!("data: {}", "x".repeat(1 << 20));
    for body in [endless.clone(), format!("{{{endless}")] {
        let outcome = replay_within(body.as_bytes(), 4096, limits);
        assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
    }
}
