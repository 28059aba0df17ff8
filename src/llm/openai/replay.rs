//! Replays streams that were recorded from real providers, and hand-made ones. Owns no fixture: the recordings lie
//! beside the repository; without them the replay says so and passes.

use super::answer::OpenAiAnswer;
use super::stream;
use crate::domain::event::FinishReason;
use crate::domain::secret::Secret;
use crate::domain::usage::Usage;
use crate::llm::dialect_options::AnswerLimits;
use crate::llm::dialect_options::call_timeouts;
use crate::llm::transport::endpoint::{CHAT, Endpoint};
use crate::llm::transport::error_mapper::ErrorMapper;
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// What came of a body.
pub(super) struct OpenAiReplay {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) usage: Usage,
    pub(super) result: Result<Completion, ModelError>,
}

/// Gives at most `slice` bytes at a time.
struct OpenAiBodySlices(Cursor<Vec<u8>>, usize);

impl Read for OpenAiBodySlices {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

pub(super) const LIMITS: AnswerLimits =
    AnswerLimits { output_bytes: 4 << 20, tool_calls: 64, tool_arguments_bytes: 2 << 20 };

pub(super) fn request() -> ModelRequest {
    let (messages, tools) = (Vec::new(), Vec::new());
    ModelRequest {
        model: "m".into(),
        messages,
        tools,
        temperature: None,
        max_tokens: None,
        thinking: false,
        may_call: true,
    }
}

fn replay_within(body: &[u8], slice: usize, limits: AnswerLimits) -> OpenAiReplay {
    replay_from(OpenAiBodySlices(Cursor::new(body.to_vec()), slice), limits, &request(), false)
}

/// What comes of a body; `text_calls` as in the options.
pub(super) fn replay_from(
    body: impl Read,
    limits: AnswerLimits,
    asked: &ModelRequest,
    text_calls: bool,
) -> OpenAiReplay {
    let endpoint = Endpoint::parse("https://api.example.test/v1", CHAT).expect("a URL");
    let timeouts = call_timeouts(Duration::from_secs(1), Duration::from_secs(1));
    let errors = ErrorMapper::new(&endpoint, Secret::default(), timeouts);
    let (mut text, mut thinking, mut usage) = (String::new(), String::new(), Usage::default());
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Thinking(piece) => thinking.push_str(piece),
            Chunk::Spent(spent) => usage = spent,
        }
        ControlFlow::Continue(())
    };
    let answer = OpenAiAnswer::new(&mut sink, limits, &errors, asked);
    let answer = if text_calls { answer.reading_text_calls() } else { answer };
    let result = stream::read(body, &CallSlot::default(), answer, limits).map_err(|failure| failure.error);
    OpenAiReplay { text, thinking, usage, result }
}

/// The recorded streams of this dialect: file name, body, what the manifest expects. None when they are not here.
pub(super) fn recordings() -> Vec<(String, Vec<u8>, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/provider-streams");
    let Ok(manifest) = std::fs::read_to_string(directory.join("manifest.json")) else {
        writeln!(std::io::stderr(), "SKIPPED: no recorded streams at {}", directory.display())
            .expect("stderr");
        return Vec::new();
    };
    let manifest: Value = serde_json::from_str(&manifest).expect("the manifest is JSON");
    let fixtures = manifest["fixtures"].as_array().expect("a list of fixtures").iter();
    let ours: Vec<_> = fixtures
        .filter(|fixture| fixture["api"] == "openai-chat")
        .map(|fixture| {
            let file = fixture["file"].as_str().expect("a file name");
            let body = std::fs::read(directory.join(file)).expect("the recording is there");
            (file.to_owned(), body, fixture["expected"].clone())
        })
        .collect();
    assert!(!ours.is_empty(), "the manifest has no stream of this dialect");
    ours
}

pub(super) fn replay(body: &str) -> OpenAiReplay {
    replay_within(body.as_bytes(), 4096, LIMITS)
}

pub(super) fn stream_of(chunks: &[Value]) -> String {
    chunks.iter().fold(String::new(), |all, chunk| format!("{all}data: {chunk}\n\n"))
}

fn finish_word(reason: FinishReason) -> Value {
    serde_json::to_value(reason).expect("serialises")
}

fn assert_matches(outcome: &OpenAiReplay, expected: &Value, what: &str) {
    assert_eq!(json!(outcome.text), expected["text"], "text of {what}");
    assert_eq!(json!(outcome.thinking), expected["reasoning"], "reasoning of {what}");
    let completion = match &outcome.result {
        Ok(completion) => completion,
        Err(error) => {
            let said =
                expected["error"]["message"].as_str().unwrap_or_else(|| panic!("{what} failed: {error}"));
            assert!(error.to_string().ends_with(said), "error of {what}: {error}");
            return;
        }
    };
    assert!(expected["error"].is_null(), "{what} must fail");
    let calls = completion.tool_calls.iter();
    let calls: Vec<Value> =
        calls.map(|c| json!({"id": c.id_ref, "name": c.name, "arguments": c.arguments})).collect();
    assert_eq!(json!(calls), expected["tool_calls"], "tool calls of {what}");
    // Where a provider sent none, the calls tell.
    let unsaid = if calls.is_empty() { json!("stop") } else { json!("tool_calls") };
    let reason = if expected["finish_reason"].is_null() { &unsaid } else { &expected["finish_reason"] };
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
fn recorded_streams_read_as_their_manifest_says() {
    for (file, body, expected) in recordings() {
        let crlf = String::from_utf8(body.clone()).expect("UTF-8").replace('\n', "\r\n").into_bytes();
        for slice in [1, 7, 4096] {
            for (ending, bytes) in [("LF", &body), ("CRLF", &crlf)] {
                let outcome = replay_within(bytes, slice, LIMITS);
                assert_matches(&outcome, &expected, &format!("{file} ({ending}, slices of {slice})"));
            }
        }
    }
}

#[test]
fn recorded_streams_read_the_same_when_packed() {
    for (file, body, expected) in recordings() {
        let packed = packed(&body);
        for slice in [1, 4096] {
            let reader = MultiGzDecoder::new(OpenAiBodySlices(Cursor::new(packed.clone()), slice));
            let outcome = replay_from(reader, LIMITS, &request(), false);
            assert_matches(&outcome, &expected, &format!("{file} (gzip, slices of {slice})"));
        }
    }
}

#[test]
fn p8_a_bomb_is_not_unpacked_to_its_end() {
    let bomb = packed(&b": nothing\n".repeat(1 << 20));
    let limits = AnswerLimits { output_bytes: 1000, ..LIMITS };
    let outcome = replay_from(MultiGzDecoder::new(Cursor::new(bomb)), limits, &request(), false);
    assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
}

#[test]
fn usage_may_come_without_choices_or_inside_one() {
    let end = json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]});
    let alone = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let usage = replay(&stream_of(&[end, alone])).usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (3, 4, 7));
    let inside =
        json!({"choices": [{"finish_reason": "stop", "usage": {"prompt_tokens": 1, "total_tokens": 9}}]});
    assert_eq!(replay(&stream_of(&[inside])).usage.total_tokens, 9);
}

#[test]
fn an_answer_without_done_is_whole_once_it_has_a_finish_reason() {
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
fn failures_after_the_200_are_failures() {
    let error = json!({"error": {"message": "slow down", "code": 429}});
    assert!(matches!(replay(&stream_of(&[error])).result, Err(ModelError::Unavailable { .. })));
    let error = json!({"error": {"message": "no such model", "code": "model_not_found"}}).to_string();
    let told = replay(&error).result.expect_err("an error object instead of a stream");
    assert_eq!(told, ModelError::Denied("the model's provider reports an error: no such model".into()));
    let bare = json!({"object": "error", "message": "too long", "code": 400}).to_string();
    for body in [bare.clone(), format!("event: error\ndata: {bare}\n\n")] {
        assert!(matches!(replay(&body).result, Err(ModelError::Refused(_))), "{body}");
    }
    let gave_up = json!({"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]});
    assert!(matches!(replay(&stream_of(&[gave_up])).result, Err(ModelError::Unavailable { .. })));
    for rubbish in ["<html>login</html>", "data: {\"choices\": [\n\n", "", "data: [1]\n\n"] {
        assert!(matches!(replay(rubbish).result, Err(ModelError::Unavailable { .. })), "{rubbish}");
    }
}

#[test]
fn a_provider_that_does_not_stream_is_read_all_the_same() {
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
fn p8_an_answer_is_bounded() {
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
