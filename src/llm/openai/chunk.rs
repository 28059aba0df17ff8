//! Reads one chunk. Fields have many names and places, and an odd field that no answer needs never fails one.

use crate::domain::usage::Usage;
use crate::llm::json::{self, ParsedJson};
use serde_json::Value;

/// A `chat.completion.chunk`, or a whole `chat.completion`.
#[derive(Debug)]
pub(super) struct OpenAiChunk {
    value: Value,
    halved: bool,
}

/// Fields of a chunk. An object with a message and none of these fields is an error.
const CHUNK_FIELDS: [&str; 5] = ["choices", "usage", "timings", "delta", "message"];
/// Fields with the usage of a call, in a chunk or in a choice.
const USAGE_PLACES: [&str; 4] = ["/usage", "/x_groq/usage", "/message/usage", "/delta/usage"];

impl OpenAiChunk {
    /// Reads a chunk; `None` when the text is no JSON.
    pub(super) fn read(text: &str) -> Option<Self> {
        json::parse(text).map(|ParsedJson { value, halved }| Self { value, halved })
    }

    /// Whether texts have placeholders for lone surrogates.
    pub(super) fn is_halved(&self) -> bool {
        self.halved
    }

    /// The pieces of the first answer, which is the only one asked for.
    pub(super) fn choices(&self) -> impl Iterator<Item = ChunkChoice<'_>> {
        let is_first = |choice: &&Value| choice.get("index").and_then(json::count).unwrap_or(0) == 0;
        self.every_choice().filter(is_first).map(ChunkChoice)
    }

    fn every_choice(&self) -> impl Iterator<Item = &Value> {
        let (list, single) = match self.value.get("choices") {
            Some(Value::Array(list)) => (list.as_slice(), None),
            Some(choice @ Value::Object(_)) => (&[][..], Some(choice)),
            _ => (&[][..], None),
        };
        list.iter().chain(single).filter(|choice| choice.is_object())
    }

    /// The model that answers. Some first chunks name none, or an empty one.
    pub(super) fn model(&self) -> Option<&str> {
        self.value.get("model").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// The reported usage.
    pub(super) fn spent(&self) -> Option<ReportedUsage> {
        let at =
            |value: &Value| USAGE_PLACES.iter().find_map(|place| ReportedUsage::read(value.pointer(place)?));
        at(&self.value).or_else(|| self.every_choice().find_map(at))
    }

    /// The usage that llama.cpp measures.
    pub(super) fn measured(&self) -> Option<ReportedUsage> {
        let timings = self.value.get("timings")?;
        let number = |key: &str| timings.get(key).and_then(json::count);
        let prompt = number("prompt_n").map(|new| new.saturating_add(number("cache_n").unwrap_or(0)));
        ReportedUsage { prompt, completion: number("predicted_n"), ..ReportedUsage::default() }.if_any()
    }

    /// The reported error.
    pub(super) fn error(&self) -> Option<&Value> {
        // Gemini wraps its errors in a list.
        let value = self.value.get(0).unwrap_or(&self.value);
        let error = value.get("error").filter(|error| !json::is_blank(error));
        let minimax = || {
            let base = value.get("base_resp")?;
            base.get("status_code").filter(|code| !json::is_blank(code)).map(|_| base)
        };
        let bare = || {
            let has = |key: &str| value.get(key).is_some_and(|field| !json::is_blank(field));
            let is = |key: &str, word: &str| value.get(key).and_then(Value::as_str) == Some(word);
            let is_chunk = CHUNK_FIELDS.iter().any(|field| value.get(field).is_some_and(|v| !v.is_string()));
            let fails = (has("code") && value.get("code").and_then(json::count) != Some(200))
                || has("status")
                || is("type", "error");
            let is_failure = !is_chunk && (has("detail") || (fails && (has("message") || has("msg"))));
            (is_failure || is("object", "error")).then_some(value)
        };
        error.or_else(minimax).or_else(bare)
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkChoice<'a>(&'a Value);

impl<'a> ChunkChoice<'a> {
    /// The new part; `message` in a whole answer.
    pub(super) fn delta(self) -> ChoiceDelta<'a> {
        let part = |key: &str| self.0.get(key).filter(|part| part.is_object());
        // A completion of the older kind has its text in the choice itself.
        ChoiceDelta(part("delta").or_else(|| part("message")).unwrap_or(self.0))
    }

    /// The finish reason in lower case.
    pub(super) fn finish_word(self) -> Option<String> {
        let word = match self.0.get("finish_reason")? {
            Value::String(word) => word.as_str(),
            object @ Value::Object(_) => {
                ["type", "reason"].iter().find_map(|key| object.get(key).and_then(Value::as_str))?
            }
            other if json::is_blank(other) => return None,
            _ => "stop",
        };
        let word = word.trim().to_ascii_lowercase();
        (!matches!(word.as_str(), "" | "null" | "none")).then_some(word)
    }

    /// The text that ended the answer: few servers name it (`vLLM`, `SGLang`).
    pub(super) fn stop_sequence(self) -> Option<&'a str> {
        ["stop_reason", "matched_stop"].iter().find_map(|field| self.0.get(field)?.as_str())
    }
}

/// The new part of a choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChoiceDelta<'a>(&'a Value);

/// Fields with reasoning. The first one with text counts: some providers send it twice.
const THINKING_FIELDS: [&str; 4] = ["reasoning_content", "reasoning", "thinking", "reasoning_text"];

impl<'a> ChoiceDelta<'a> {
    /// The new piece of reasoning.
    pub(super) fn thinking(self) -> String {
        let named = THINKING_FIELDS.iter().filter_map(|field| self.0.get(field)).map(text_of);
        let detailed = || self.details().iter().map(text_of).collect::<String>();
        let in_parts = || match self.0.get("content") {
            Some(Value::Array(parts)) => {
                parts.iter().filter(|part| is_reasoning(part)).map(text_of).collect()
            }
            _ => String::new(),
        };
        let mut sources = named.chain(std::iter::once_with(detailed)).chain(std::iter::once_with(in_parts));
        sources.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Reasoning that goes back to `OpenRouter`.
    pub(super) fn details(self) -> &'a [Value] {
        self.0.get("reasoning_details").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The new piece of text.
    pub(super) fn text(self) -> String {
        let content = match self.0.get("content") {
            Some(Value::Array(parts)) => {
                parts.iter().filter(|part| !is_reasoning(part)).map(text_of).collect()
            }
            Some(content) => text_of(content),
            None => self.0.get("text").map(text_of).unwrap_or_default(),
        };
        if content.is_empty() { self.0.get("refusal").map(text_of).unwrap_or_default() } else { content }
    }

    /// New pieces of calls.
    pub(super) fn calls(self) -> Vec<CallDelta> {
        match self.0.get("tool_calls") {
            Some(Value::Array(list)) => list.iter().filter_map(CallDelta::read).collect(),
            Some(single @ Value::Object(_)) => CallDelta::read(single).into_iter().collect(),
            // The older form has one call only.
            _ => self.0.get("function_call").and_then(CallDelta::read).into_iter().collect(),
        }
    }
}

fn is_reasoning(part: &Value) -> bool {
    matches!(part.get("type").and_then(Value::as_str), Some("thinking" | "reasoning"))
}

/// The text of a value: a string, an object with a text, or a list of these.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect(),
        Value::Object(part) => {
            let mut fields = ["text", "summary", "thinking", "content"].iter();
            fields.find_map(|key| part.get(*key)).map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// A piece of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CallDelta {
    /// The number of the call; some providers omit it.
    pub(super) index: Option<u64>,
    /// The provider's id; empty if there is none.
    pub(super) id: String,
    /// The new piece of the tool's name.
    pub(super) name: String,
    /// The new piece of the arguments; an object counts as its text.
    pub(super) arguments: String,
    /// Data that goes back to the provider with the call.
    pub(super) extra: Option<Value>,
}

impl CallDelta {
    /// Reads a piece; `None` if it is no object.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let piece = value.as_object()?;
        let function = piece.get("function").filter(|f| f.is_object()).unwrap_or(value);
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let arguments = match function.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Some(Self {
            index: piece.get("index").and_then(json::count),
            id: text(piece.get("id")),
            name: text(function.get("name")),
            arguments,
            extra: piece.get("extra_content").filter(|extra| !json::is_blank(extra)).cloned(),
        })
    }
}

/// The usage as a provider reports it; missing numbers are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReportedUsage {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    reasoning: Option<u64>,
}

impl ReportedUsage {
    pub(super) fn read(usage: &Value) -> Option<Self> {
        let number = |keys: [&str; 2]| keys.iter().find_map(|key| json::count(usage.get(key)?));
        let detail = |places: [&str; 3]| places.iter().find_map(|at| json::count(usage.pointer(at)?));
        let spent = Self {
            cached: detail([
                "/prompt_tokens_details/cached_tokens",
                "/input_tokens_details/cached_tokens",
                "/prompt_cache_hit_tokens",
            ]),
            reasoning: detail([
                "/completion_tokens_details/reasoning_tokens",
                "/output_tokens_details/reasoning_tokens",
                "/reasoning_tokens",
            ]),
            prompt: number(["prompt_tokens", "input_tokens"]),
            completion: number(["completion_tokens", "output_tokens"]),
            total: number(["total_tokens", "total"]),
        };
        spent.if_any()
    }

    fn if_any(self) -> Option<Self> {
        let any = [self.prompt, self.completion, self.total].into_iter().flatten().any(|count| count > 0);
        any.then_some(self)
    }

    /// The usage after this report; missing numbers keep their value.
    pub(super) fn over(self, earlier: Usage) -> Usage {
        let prompt = self.prompt.unwrap_or(earlier.prompt_tokens);
        let sum = Usage::new(prompt, self.completion.unwrap_or(earlier.completion_tokens));
        let total = self.total.unwrap_or(0);
        Usage {
            total_tokens: sum.total_tokens.max(total),
            cached_tokens: self.cached.unwrap_or(earlier.cached_tokens),
            reasoning_tokens: self.reasoning.unwrap_or(earlier.reasoning_tokens),
            ..sum
        }
    }
}
