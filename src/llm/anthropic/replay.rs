//! Replays streams that were recorded from real providers, whole and cut. Owns no fixture: the recordings lie beside
//! the repository; without them the replay says so and passes. Owns the reading of bodies for the tests beside it.

use super::answer::AnthropicAnswer;
use crate::domain::event::FinishReason;
use crate::domain::message::Message;
use crate::domain::secret::Secret;
use crate::domain::usage::Usage;
use crate::llm::dialect_options::AnswerLimits;
use crate::llm::dialect_options::call_timeouts;
use crate::llm::transport::body;
use crate::llm::transport::endpoint::{Endpoint, MESSAGES};
use crate::llm::transport::error_mapper::ErrorMapper;
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use serde_json::{Value, json};
use std::io::Write as _;
use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What came of one body, or of several that go on with each other.
#[derive(Debug)]
pub(super) struct AnthropicReplay {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) usage: Usage,
    /// Each `Chunk::Spent`.
    pub(super) spent: Vec<Usage>,
    /// What the provider was given back after each pause.
    pub(super) pages: Vec<Vec<Value>>,
    pub(super) result: Result<Completion, ModelError>,
}

/// Gives at most `slice` bytes at a time.
struct AnthropicBodySlices<R>(R, usize);

impl<R: Read> Read for AnthropicBodySlices<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

pub(super) const LIMITS: AnswerLimits =
    AnswerLimits { output_bytes: 4 << 20, tool_calls: 64, tool_arguments_bytes: 2 << 20 };

pub(super) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "m".into(),
        messages,
        tools: Vec::new(),
        temperature: None,
        max_tokens: None,
        thinking: false,
        may_call: true,
    }
}

/// Reads the bodies as the dialect does: the next one while the provider pauses.
pub(super) fn read(
    asked: &ModelRequest,
    bodies: &mut [&mut dyn Read],
    slice: usize,
    limits: AnswerLimits,
) -> AnthropicReplay {
    let endpoint = Endpoint::parse("https://api.example.test/v1", MESSAGES).expect("a URL");
    let timeouts = call_timeouts(Duration::from_secs(1), Duration::from_secs(1));
    let errors = ErrorMapper::new(&endpoint, Secret::from("topsecret".to_owned()), timeouts);
    let (mut text, mut thinking, mut spent) = (String::new(), String::new(), Vec::new());
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Text("") | Chunk::Thinking("") => panic!("a text is never empty"),
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Thinking(piece) => thinking.push_str(piece),
            Chunk::Spent(usage) => spent.push(usage),
        }
        ControlFlow::Continue(())
    };
    let mut pages = Vec::new();
    let mut answer = AnthropicAnswer::new(&mut sink, limits, &errors, asked);
    let mut result = Ok(());
    for body in bodies {
        if answer.is_paused() {
            pages.push(answer.begin_continuation());
        }
        let done = body::read(
            &mut AnthropicBodySlices(body, slice),
            &CallSlot::default(),
            &mut answer,
            limits.output_bytes,
        );
        result = done.map_err(|failure| failure.error).and_then(|done| answer.check_end(done));
    }
    let result = result.and_then(|()| answer.finish());
    let usage = spent.last().copied().unwrap_or_default();
    AnthropicReplay { text, thinking, usage, spent, pages, result }
}

pub(super) fn replay_within(body: &[u8], slice: usize, limits: AnswerLimits) -> AnthropicReplay {
    read(&request(Vec::new()), &mut [&mut Cursor::new(body)], slice, limits)
}

pub(super) fn replay(body: &str) -> AnthropicReplay {
    replay_within(body.as_bytes(), 4096, LIMITS)
}

pub(super) fn stream_of(events: &[Value]) -> String {
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
    assert_eq!(completion.finish_reason, finish_word(&expected["finish_reason"]), "finish reason of {what}");
    let count = |field: &str| expected["usage"][field].as_u64().unwrap_or(0);
    let prompt =
        count("input_tokens") + count("cache_creation_input_tokens") + count("cache_read_input_tokens");
    assert_eq!(outcome.usage, Usage::new(prompt, count("output_tokens")), "usage of {what}");
}

/// The recordings of this dialect; none, said aloud, where they are missing.
fn recordings() -> Vec<(PathBuf, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/provider-streams");
    let Ok(manifest) = std::fs::read_to_string(directory.join("manifest.json")) else {
        writeln!(std::io::stderr(), "SKIPPED: no recorded streams at {}", directory.display())
            .expect("stderr");
        return Vec::new();
    };
    let manifest: Value = serde_json::from_str(&manifest).expect("the manifest is JSON");
    let fixtures = manifest["fixtures"].as_array().expect("a list of fixtures").iter();
    let ours = fixtures.filter(|fixture| fixture["api"] == "anthropic-messages");
    let ours: Vec<_> = ours
        .map(|fixture| {
            let file = fixture["file"].as_str().expect("a file name");
            (directory.join(file), fixture["expected"].clone())
        })
        .collect();
    assert!(ours.len() >= 16, "the manifest has {} streams of this dialect", ours.len());
    eprintln!("replaying {} recorded streams", ours.len());
    ours
}

#[test]
fn recorded_streams_read_as_their_manifest_says() {
    for (file, expected) in recordings() {
        let body = std::fs::read(&file).expect("the recording is there");
        let crlf = String::from_utf8(body.clone()).expect("UTF-8").replace('\n', "\r\n").into_bytes();
        for slice in [1, 7, 4096] {
            for (ending, bytes) in [("LF", &body), ("CRLF", &crlf)] {
                let outcome = replay_within(bytes, slice, LIMITS);
                let what = format!("{} ({ending}, slices of {slice})", file.display());
                assert_matches(&outcome, &expected, &what);
            }
        }
    }
}

#[test]
fn recorded_blocks_that_must_come_back_are_echoed_as_they_were() {
    let kinds = |name: &str| {
        let (file, _) = recordings().into_iter().find(|(file, _)| file.ends_with(name))?;
        let outcome = replay_within(&std::fs::read(file).expect("the recording is there"), 4096, LIMITS);
        let echo = outcome.result.expect("complete").echo?;
        let kind = |part: &Value| part["type"].as_str().expect("a kind").to_owned();
        Some((echo.parts.as_array().expect("parts").iter().map(kind).collect::<Vec<_>>(), echo.parts))
    };
    if recordings().is_empty() {
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
fn a_recorded_stream_cut_anywhere_is_whole_or_a_typed_failure() {
    for (file, expected) in recordings() {
        let body = std::fs::read(&file).expect("the recording is there");
        let step = if body.len() > 20_000 { 331 } else { 10 };
        let mut failed = 0;
        for end in (0..body.len()).step_by(step) {
            let outcome = replay_within(&body[..end], 4096, LIMITS);
            let whole = expected["text"].as_str().expect("a text");
            assert!(whole.starts_with(&outcome.text), "{} cut at {end}", file.display());
            match &outcome.result {
                Ok(_) => assert_matches(&outcome, &expected, &format!("{} cut at {end}", file.display())),
                Err(ModelError::Unavailable { .. }) => failed += 1,
                Err(other) => panic!("{} cut at {end}: {other:?}", file.display()),
            }
        }
        assert!(failed > 0, "a stream without its end is no answer");
    }
}
