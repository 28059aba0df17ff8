//! Passes requests to other endpoints on and their answers back, unchanged. The tokens are read on the way.

use super::chunk::ReportedUsage;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::tokens::TokenEstimator;
use crate::domain::usage::Usage;
use crate::llm::sse::SseParser;
use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure, unavailable};
use crate::net::CallSlot;
use crate::ports::{ForwardEndpoint, ForwardRequest, ForwardSink, ModelCaller, ModelError, ModelRequest};
use serde_json::{Deserializer, Map, Value};
use std::io::Read;

/// Size of one read, bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// The largest answer, bytes.
const ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// The largest event of a stream, bytes.
const EVENT_BYTES: usize = 1024 * 1024;
/// How much of the start and of the end of an object is kept: its usage stands in one of them.
const KEPT_BYTES: usize = 4 * 1024;
/// Answer bytes for a token, where nothing better is known.
const BYTES_PER_TOKEN: u64 = 4;

/// The text of a request, for the limits of the provider and for estimates.
pub(in crate::llm) fn as_model_request(request: &ForwardRequest) -> ModelRequest {
    let input = request.body.get(request.endpoint.input_field());
    let max_tokens = match request.endpoint {
        ForwardEndpoint::Embeddings => Some(0),
        ForwardEndpoint::Completions => {
            request.body.get("max_tokens").and_then(Value::as_u64).and_then(|most| u32::try_from(most).ok())
        }
    };
    ModelRequest {
        caller: ModelCaller { user: request.user, job: None },
        model: request.model.clone(),
        messages: vec![Message::user(input.map(text_of).unwrap_or_default())],
        tools: Vec::new(),
        may_call: false,
        temperature: None,
        max_tokens,
        thinking: false,
        settings: ModelSettings::default(),
    }
}

/// The texts in an input, which may also hold numbers of tokens.
fn text_of(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text_of).collect::<Vec<_>>().join(" "),
        Value::Number(_) => "word".to_owned(),
        _ => String::new(),
    }
}

/// The body for the provider.
pub(super) fn body(
    request: &ForwardRequest,
    upstream_id: &str,
    max_output_tokens: Option<u32>,
) -> Map<String, Value> {
    let mut body = request.body.clone();
    body.insert("model".to_owned(), upstream_id.into());
    let asked = body.get("max_tokens").and_then(Value::as_u64);
    if let Some(most) = max_output_tokens.filter(|most| asked.is_some_and(|asked| asked > u64::from(*most))) {
        body.insert("max_tokens".to_owned(), most.into());
    }
    body
}

/// An answer on its way to the client.
pub(in crate::llm) struct ForwardedAnswer<'a> {
    sink: ForwardSink<'a>,
    /// Whether all events of a stream must come before its end.
    is_stream: bool,
    events: SseParser,
    start: Vec<u8>,
    end: Vec<u8>,
    bytes: usize,
    reported: Option<ReportedUsage>,
    /// Tokens of the texts in a stream.
    streamed_tokens: u64,
    estimator: TokenEstimator,
}

impl<'a> ForwardedAnswer<'a> {
    pub(in crate::llm) fn new(request: &ForwardRequest, sink: ForwardSink<'a>) -> Self {
        let is_stream = request.endpoint == ForwardEndpoint::Completions
            && request.body.get("stream").and_then(Value::as_bool) == Some(true);
        Self {
            sink,
            is_stream,
            events: SseParser::new(EVENT_BYTES),
            start: Vec::new(),
            end: Vec::new(),
            bytes: 0,
            reported: None,
            streamed_tokens: 0,
            estimator: TokenEstimator::of_model(&request.model),
        }
    }

    /// Reads the answer to its end and passes it on.
    pub(super) fn read(
        &mut self,
        body: &mut dyn Read,
        (errors, slot): (&ErrorMapper, &CallSlot),
    ) -> Result<(), ProviderFailure> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = body.read(&mut piece).map_err(|error| errors.read(&error))?;
            let read = piece.get(..count).unwrap_or_default();
            if count == 0 && self.bytes == 0 {
                return Err(unavailable("the model's provider sent an empty answer").into());
            }
            if count == 0 {
                return Ok(());
            }
            if self.bytes == 0 && read.trim_ascii_start().first() == Some(&b'<') {
                return Err(unavailable("the model's provider sent a web page instead of an answer").into());
            }
            self.bytes = self.bytes.saturating_add(count);
            if self.bytes > ANSWER_BYTES {
                let text = format!("the model's answer is longer than {ANSWER_BYTES} bytes");
                return Err(ModelError::TooLarge(text).into());
            }
            slot.note_progress();
            self.look(read)?;
            if (self.sink)(read).is_break() {
                return Err(ModelError::Stopped.into());
            }
        }
    }

    fn look(&mut self, read: &[u8]) -> Result<(), ModelError> {
        if !self.is_stream {
            let missing = KEPT_BYTES.saturating_sub(self.start.len()).min(read.len());
            self.start.extend_from_slice(read.get(..missing).unwrap_or_default());
            self.end.extend_from_slice(read.get(missing..).unwrap_or_default());
            let spare = self.end.len().saturating_sub(KEPT_BYTES);
            self.end.drain(..spare);
            return Ok(());
        }
        let mut input = read;
        loop {
            let event = self.events.next_event(&mut input);
            let event = event.map_err(|error| ModelError::TooLarge(error.to_string()))?;
            let Some(event) = event else { return Ok(()) };
            let Ok(data) = serde_json::from_str::<Value>(&event.data) else { continue };
            let text = data.pointer("/choices/0/text").and_then(Value::as_str).unwrap_or_default();
            self.streamed_tokens = self.streamed_tokens.saturating_add(self.estimator.text(text));
            self.reported = data.get("usage").and_then(ReportedUsage::read).or(self.reported.take());
        }
    }

    /// The tokens of the call so far.
    pub(in crate::llm) fn usage(&self, request: &ModelRequest) -> Usage {
        if self.bytes == 0 {
            return Usage::default();
        }
        let prompt = self.estimator.messages(&request.messages);
        let answer = match (self.is_stream, request.max_tokens) {
            (true, _) => self.streamed_tokens,
            (false, Some(0)) => 0,
            (false, _) => u64::try_from(self.bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN,
        };
        let whole = [self.start.as_slice(), self.end.as_slice()].concat();
        let reported = if self.is_stream { self.reported } else { usage_in(&whole) };
        let estimated = Usage::new(prompt, answer);
        match reported {
            None => estimated,
            // A report without an answer means that there was none: embeddings have none.
            Some(reported) => reported.over(Usage::new(estimated.prompt_tokens, 0)),
        }
    }
}

/// The usage in the text of an object, the last one if there are several. A quote before the name that is
/// escaped belongs to a text.
fn usage_in(text: &[u8]) -> Option<ReportedUsage> {
    const NAME: &[u8] = b"\"usage\"";
    let mut places: Vec<usize> =
        (0..text.len()).filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(NAME))).collect();
    while let Some(at) = places.pop() {
        let is_escaped = at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\\');
        let rest = text.get(at.saturating_add(NAME.len())..).unwrap_or_default().trim_ascii_start();
        let value = rest.strip_prefix(b":").filter(|_| !is_escaped);
        let value = value.and_then(|value| Deserializer::from_slice(value).into_iter::<Value>().next()?.ok());
        if let Some(usage) = value.as_ref().and_then(ReportedUsage::read) {
            return Some(usage);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::llm::testing::error_mapper;
    use crate::llm::transport::endpoint::CHAT;
    use serde_json::json;
    use std::ops::ControlFlow;

    fn request(endpoint: ForwardEndpoint, body: Value) -> ForwardRequest {
        let Value::Object(body) = body else { panic!("{body}") };
        ForwardRequest { user: UserId(1), endpoint, model: "m".into(), body }
    }

    /// What the client gets, and the usage.
    fn read(request: &ForwardRequest, pieces: &[&str]) -> (String, Usage) {
        let mut got = Vec::new();
        let mut sink = |piece: &[u8]| {
            got.extend_from_slice(piece);
            ControlFlow::Continue(())
        };
        let mut answer = ForwardedAnswer::new(request, &mut sink);
        let errors = error_mapper(CHAT, "secret");
        for piece in pieces {
            // A read gives a piece at a time.
            let mut one = piece.as_bytes();
            while !one.is_empty() {
                answer.read(&mut one, (&errors, &CallSlot::default())).expect("is read");
            }
        }
        let usage = answer.usage(&as_model_request(request));
        (String::from_utf8(got).expect("UTF-8"), usage)
    }

    #[test]
    fn the_model_is_renamed_and_the_limit_of_an_answer_lowered() {
        let asked =
            request(ForwardEndpoint::Completions, json!({"model": "m", "prompt": "x", "max_tokens": 9}));
        assert_eq!(
            Value::from(body(&asked, "up", Some(5))),
            json!({"model": "up", "prompt": "x", "max_tokens": 5})
        );
        assert_eq!(body(&asked, "up", Some(50)).get("max_tokens"), Some(&json!(9)));
    }

    #[test]
    fn an_answer_passes_unchanged_and_its_usage_is_found_at_either_end() {
        let vectors = format!("[{}]", vec!["0.125"; 20_000].join(","));
        let usage = r#""usage": {"prompt_tokens": 7, "total_tokens": 7}"#;
        let asked = request(ForwardEndpoint::Embeddings, json!({"input": "hello"}));
        for whole in
            [format!("{{{usage}, \"data\": {vectors}}}"), format!("{{\"data\": {vectors}, {usage}}}")]
        {
            let (got, usage) = read(&asked, &[&whole]);
            assert_eq!((got, usage.prompt_tokens, usage.total_tokens), (whole, 7, 7));
        }
        let fake = r#"{"choices": [{"text": "\"usage\": {\"prompt_tokens\": 99}"}]}"#;
        let (_, usage) = read(&request(ForwardEndpoint::Completions, json!({"prompt": "hello"})), &[fake]);
        assert!(usage.prompt_tokens < 99 && usage.total_tokens > 0, "an estimate: {usage:?}");
    }

    #[test]
    fn the_usage_of_a_stream_is_reported_or_estimated() {
        let asked = request(ForwardEndpoint::Completions, json!({"prompt": "hello", "stream": true}));
        let text = "data: {\"choices\": [{\"text\": \"one two\"}], \"usage\": null}\n\n";
        let end = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 2}}\n\ndata: [DONE]\n\n";
        let (got, usage) = read(&asked, &[text, end]);
        assert_eq!((got, usage), (format!("{text}{end}"), Usage::new(3, 2)));
        let (_, usage) = read(&asked, &[text]);
        assert!(usage.prompt_tokens > 0 && usage.completion_tokens > 0, "{usage:?}");
    }
}
