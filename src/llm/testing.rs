//! Parts that the tests of both dialects share. The recordings lie beside the repository; without them a
//! replay says so and passes.

use super::answer_output::AnswerLimits;
use super::dialect_options::call_timeouts;
use super::transport::endpoint::{Endpoint, EndpointPath};
use super::transport::error_mapper::ErrorMapper;
use crate::domain::id::UserId;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::secret::Secret;
use crate::ports::{Completion, ModelCaller, ModelError, ModelRequest};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// A body that arrives in slices of at most so many bytes.
pub(super) struct BodySlices<R>(pub(super) R, pub(super) usize);

impl<R: Read> Read for BodySlices<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

pub(super) const LIMITS: AnswerLimits =
    AnswerLimits { output_bytes: 4 << 20, tool_calls: 64, tool_arguments_bytes: 2 << 20 };

pub(super) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: "m".into(),
        messages,
        tools: Vec::new(),
        temperature: None,
        max_tokens: None,
        thinking: false,
        may_call: true,
        settings: ModelSettings::default(),
    }
}

pub(super) fn error_mapper(path: EndpointPath, key: &str) -> ErrorMapper {
    let endpoint = Endpoint::parse("https://api.example.test/v1", path).expect("a URL");
    let timeouts = call_timeouts(Duration::from_secs(1), Duration::from_secs(1));
    ErrorMapper::new(&endpoint, Secret::from(key.to_owned()), timeouts)
}

/// A recorded stream and the answer that the manifest expects.
pub(super) struct Recording {
    pub(super) file: String,
    pub(super) body: Vec<u8>,
    pub(super) expected: Value,
}

/// The recorded streams of a dialect. Fails if the manifest has fewer than `at_least`.
pub(super) fn recordings(api: &str, at_least: usize) -> Vec<Recording> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/provider-streams");
    let Ok(manifest) = std::fs::read_to_string(directory.join("manifest.json")) else {
        eprintln!("SKIPPED: no recorded streams at {}", directory.display());
        return Vec::new();
    };
    let manifest: Value = serde_json::from_str(&manifest).expect("the manifest is JSON");
    let fixtures = manifest["fixtures"].as_array().expect("a list of fixtures").iter();
    let found: Vec<_> = fixtures
        .filter(|fixture| fixture["api"] == api)
        .map(|fixture| {
            let file = fixture["file"].as_str().expect("a file name").to_owned();
            let body = std::fs::read(directory.join(&file)).expect("the recording exists");
            Recording { file, body, expected: fixture["expected"].clone() }
        })
        .collect();
    assert!(found.len() >= at_least, "the manifest has {} streams of {api}", found.len());
    found
}

pub(super) fn with_crlf(body: &[u8]) -> Vec<u8> {
    String::from_utf8(body.to_vec()).expect("UTF-8").replace('\n', "\r\n").into_bytes()
}

/// The calls whose pieces were passed on, as names and arguments.
#[derive(Debug, Default)]
pub(super) struct StreamedCalls(Vec<(String, String)>);

impl StreamedCalls {
    /// Adds a piece.
    pub(super) fn add(&mut self, place: usize, name: &str, (offset, arguments): (usize, &str)) {
        if place == self.0.len() {
            self.0.push((name.to_owned(), String::new()));
        }
        // A provider may begin its answer anew.
        let Some((known, text)) = self.0.get_mut(place).filter(|(_, text)| text.len() == offset) else {
            return;
        };
        assert_eq!(known, name);
        text.push_str(arguments);
    }

    /// Checks that the calls of the answer begin with their pieces.
    pub(super) fn check(&self, result: &Result<Completion, ModelError>) {
        let Ok(completion) = result else { return };
        for ((name, text), call) in self.0.iter().zip(&completion.tool_calls) {
            assert_eq!(*name, call.name);
            assert!(call.arguments.starts_with(text.as_str()), "{text} {call:?}");
        }
    }
}

/// Checks text, reasoning and calls of a replayed answer. Returns its completion, or nothing if an error was
/// expected.
pub(super) fn assert_answer<'a>(
    (text, thinking): (&str, &str),
    result: &'a Result<Completion, ModelError>,
    expected: &Value,
    what: &str,
) -> Option<&'a Completion> {
    assert_eq!(json!(text), expected["text"], "text of {what}");
    assert_eq!(json!(thinking), expected["reasoning"], "reasoning of {what}");
    let completion = match result {
        Ok(completion) => completion,
        Err(error) => {
            let message =
                expected["error"]["message"].as_str().unwrap_or_else(|| panic!("{what} failed: {error}"));
            assert!(error.to_string().ends_with(message), "error of {what}: {error}");
            return None;
        }
    };
    assert!(expected["error"].is_null(), "{what} must fail");
    let calls = completion.tool_calls.iter();
    let calls: Vec<Value> =
        calls.map(|c| json!({"id": c.id_ref, "name": c.name, "arguments": c.arguments})).collect();
    assert_eq!(json!(calls), expected["tool_calls"], "tool calls of {what}");
    Some(completion)
}
