//! Entry points of the fuzz targets in `fuzz/`, one for each dialect. Built only with the feature `fuzzing`.
//!
//! The fuzzer's bytes are read as the body of an answer, in slices of a chosen size, and the invariants of
//! every answer are checked.

use super::answer_output::{AnswerLimits, AnswerOutput};
use super::dialect_options::call_timeouts;
use super::transport::endpoint::{CHAT, Endpoint};
use super::transport::error_mapper::ErrorMapper;
use super::{anthropic, openai};
use crate::domain::id::UserId;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::secret::Secret;
use crate::domain::tool::ToolSpec;
use crate::ports::{Chunk, Completion, ModelCaller, ModelError, ModelRequest};
use serde_json::Value;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Duration;

/// Limits of an answer, small enough for a fuzzer to reach.
const OUTPUT_BYTES: usize = 4096;
const TOOL_CALLS: usize = 8;
const TOOL_ARGUMENTS_BYTES: usize = 1024;

/// A body that comes in slices.
struct SlicedBody<'a> {
    rest: &'a [u8],
    slice: usize,
}

impl Read for SlicedBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (taken, rest) = self.rest.split_at(self.rest.len().min(self.slice).min(buffer.len()));
        self.rest = rest;
        for (to, from) in buffer.iter_mut().zip(taken) {
            *to = *from;
        }
        Ok(taken.len())
    }
}

/// What came of a body.
#[derive(Debug, Default, PartialEq)]
struct FuzzedAnswer {
    text: String,
    thinking: String,
    result: Option<Result<Completion, ModelError>>,
}

fn request() -> ModelRequest {
    let tool =
        |name: &'static str| ToolSpec { name: name.into(), description: "".into(), parameters: Value::Null };
    ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: "m".to_owned(),
        messages: vec![Message::user("hi")],
        tools: ["calculator", "bash"].map(|name| tool(name).into()).to_vec(),
        may_call: true,
        temperature: None,
        max_tokens: None,
        thinking: false,
        settings: ModelSettings::default(),
    }
}

/// The dialects whose bodies are read.
#[derive(Debug, Clone, Copy)]
enum FuzzedDialect {
    Openai { text_calls: bool },
    Anthropic,
}

/// Reads a body; `None` where no provider can be made up, which the addresses here never are.
fn read(body: SlicedBody<'_>, dialect: FuzzedDialect) -> Option<FuzzedAnswer> {
    let limits = AnswerLimits {
        output_bytes: OUTPUT_BYTES,
        tool_calls: TOOL_CALLS,
        tool_arguments_bytes: TOOL_ARGUMENTS_BYTES,
    };
    let second = Duration::from_secs(1);
    let endpoint = Endpoint::parse("http://127.0.0.1/v1", CHAT).ok()?;
    let errors = ErrorMapper::new(&endpoint, Secret::default(), call_timeouts(second, second));
    let mut outcome = FuzzedAnswer::default();
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Text(piece) => outcome.text.push_str(piece),
            Chunk::Thinking(piece) => outcome.thinking.push_str(piece),
            Chunk::TextWasThinking => outcome.thinking.push_str(&std::mem::take(&mut outcome.text)),
            Chunk::Spent(_) | Chunk::Call { .. } | Chunk::CaughtUp => {}
        }
        ControlFlow::Continue(())
    };
    let request = request();
    let output = AnswerOutput::new(&mut sink, limits);
    let result = match dialect {
        FuzzedDialect::Openai { text_calls } => {
            openai::read_body(body, &request, &errors, text_calls, output)
        }
        FuzzedDialect::Anthropic => anthropic::read_body(body, &request, &errors, output),
    };
    outcome.result = Some(result);
    Some(outcome)
}

/// Reads a body of the OpenAI-style dialect twice: in slices and at once. The first two bytes say how.
///
/// # Panics
///
/// When a bound is passed, when slices change the answer, or when a failure's text could break a line: a bug.
pub fn openai(data: &[u8]) {
    let Some(([how, slice], body)) = data.split_first_chunk::<2>() else { return };
    check(FuzzedDialect::Openai { text_calls: how & 1 == 1 }, *slice, body);
}

/// The same for Anthropic's dialect; the first byte says how.
///
/// # Panics
///
/// As [`openai`].
pub fn anthropic(data: &[u8]) {
    let Some((slice, body)) = data.split_first() else { return };
    check(FuzzedDialect::Anthropic, *slice, body);
}

fn check(dialect: FuzzedDialect, slice: u8, body: &[u8]) {
    let slice = usize::from(slice).saturating_add(1);
    let Some(sliced) = read(SlicedBody { rest: body, slice }, dialect) else { return };
    let bytes = sliced.text.len().saturating_add(sliced.thinking.len());
    assert!(bytes <= OUTPUT_BYTES, "an answer is bounded");
    match &sliced.result {
        Some(Ok(completion)) => {
            assert!(completion.tool_calls.len() <= TOOL_CALLS, "calls are bounded");
            for call in &completion.tool_calls {
                assert!(!call.name.is_empty() && !call.id_ref.is_empty(), "a call has a name and an id");
            }
        }
        Some(Err(error)) => assert!(!error.to_string().contains('\n'), "a failure is one line"),
        None => {}
    }
    let Some(whole) = read(SlicedBody { rest: body, slice: usize::MAX }, dialect) else { return };
    // Where a bound ends it, more or less of the last piece has gone before.
    if !matches!(sliced.result, Some(Err(ModelError::TooLarge(_)))) {
        assert_eq!(sliced, whole, "slices mean nothing");
    }
}
