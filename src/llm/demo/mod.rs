//! The scripted model of a fresh install and of tests. It uses no network, and each answer is labelled as
//! scripted. The script is described in [`script`].
//!
//! Token counts are estimates: four characters are a token.

mod script;

use crate::domain::event::FinishReason;
use crate::domain::message::Message;
use crate::domain::tool::{ToolCall, ToolDefinition};
use crate::domain::usage::Usage;
use crate::ports::{CancelToken, Chunk, ChunkSink, Completion, ModelError, ModelRequest};
use script::{DemoAction, ScriptedCall};
use serde_json::Value;
use std::time::Duration;

/// The model id that needs no `provider: demo`.
pub(super) const ID: &str = "demo";
/// The start of every answer.
const LABEL: &str = "[scripted demo model] ";
/// The answer to anything else, before the echoed message.
const ABOUT: &str = "I am a script inside this server: no network, no intelligence. Everything around me is real. \
    I compute `what is 12*7?`, run a fenced python, javascript or bash block, make the calls of lines like \
    `tool: calculator {\"expression\": \"17*23\"}`, and stream words for `stream: 100 words, 50 ms`. Only I know \
    these forms; a real model calls tools by itself. You said:\n";
/// The reasoning of an answer.
const THOUGHTS: [&str; 3] = [
    "(scripted) ",
    "I look at the last user message, ",
    "and do the one thing that my script says about it.",
];
/// Longest echoed message, characters.
const ECHO_CHARS: usize = 4_000;
/// Longest text of a chunk, characters.
const CHUNK_CHARS: usize = 64;

/// Answers the request as the script says.
pub(super) fn ask(
    request: &ModelRequest,
    cancel: &CancelToken,
    sink: ChunkSink<'_>,
) -> Result<Completion, ModelError> {
    let mut reply = DemoReply { cancel, sink, chars: 0 };
    if request.thinking {
        THOUGHTS.iter().try_for_each(|thought| reply.emit(Chunk::Thinking(thought)))?;
    }
    let turn = DemoTurn::of(&request.messages);
    let mut tool_calls = Vec::new();
    if turn.results.is_empty() {
        match script::read(turn.user_text) {
            DemoAction::Calls(wanted) => match missing(&wanted, &request.tools) {
                Some(answer) => reply.say(&answer)?,
                None => tool_calls = calls(wanted, &request.messages),
            },
            DemoAction::Compute(call) if is_offered(&call, &request.tools) => {
                tool_calls = calls(vec![call], &request.messages);
            }
            DemoAction::Stream { words, every } => reply.stream(words, every)?,
            DemoAction::Excuse(why) => reply.say(&why)?,
            DemoAction::Compute(_) | DemoAction::Echo => {
                reply.say(&format!("{ABOUT}{}", truncated(turn.user_text)))?;
            }
        }
    } else {
        reply.say(&turn.results.iter().map(|result| report(result)).collect::<Vec<_>>().join("\n\n"))?;
    }
    let call_bytes: usize =
        tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len())).sum();
    let usage = Usage::new(
        tokens(request.messages.iter().map(chars).sum()),
        tokens(reply.chars.saturating_add(call_bytes)),
    );
    let finish_reason = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    reply.emit(Chunk::Spent(usage))?;
    Ok(Completion::new(tool_calls, finish_reason))
}

/// The last user message and the results of the calls made since.
struct DemoTurn<'a> {
    user_text: &'a str,
    results: Vec<&'a Message>,
}

impl<'a> DemoTurn<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let last = messages.iter().rposition(|message| matches!(message, Message::User { .. }));
        let (before, after) = messages.split_at(last.map_or(0, |at| at.saturating_add(1)));
        let user_text = match before.last() {
            Some(Message::User { content, .. }) => content.as_str(),
            _ => "",
        };
        Self {
            user_text,
            results: after.iter().filter(|message| matches!(message, Message::Tool { .. })).collect(),
        }
    }
}

/// An answer on its way to the sink.
struct DemoReply<'a> {
    cancel: &'a CancelToken,
    sink: ChunkSink<'a>,
    chars: usize,
}

impl DemoReply<'_> {
    fn emit(&mut self, chunk: Chunk<'_>) -> Result<(), ModelError> {
        if let Chunk::Thinking(text) | Chunk::Text(text) = chunk {
            self.chars = self.chars.saturating_add(text.chars().count());
        }
        if self.cancel.is_cancelled() || (self.sink)(chunk).is_break() {
            return Err(ModelError::Stopped);
        }
        Ok(())
    }

    fn say(&mut self, text: &str) -> Result<(), ModelError> {
        self.emit(Chunk::Text(LABEL))?;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(CHUNK_CHARS).map_or(rest.len(), |(at, _)| at);
            let (piece, later) = rest.split_at(end);
            self.emit(Chunk::Text(piece))?;
            rest = later;
        }
        Ok(())
    }

    /// `word-1 word-2 … word-N`, each word a chunk with the space before it.
    fn stream(&mut self, words: u32, every: Duration) -> Result<(), ModelError> {
        self.emit(Chunk::Text(LABEL))?;
        for number in 1..=words {
            if number > 1 {
                self.emit(Chunk::CaughtUp)?;
                self.cancel.sleep(every.min(self.cancel.remaining()));
            }
            let space = if number > 1 { " " } else { "" };
            self.emit(Chunk::Text(&format!("{space}word-{number}")))?;
        }
        Ok(())
    }
}

fn is_offered(call: &ScriptedCall, offered: &[ToolDefinition]) -> bool {
    offered.iter().any(|tool| tool.name == call.tool)
}

fn missing(wanted: &[ScriptedCall], offered: &[ToolDefinition]) -> Option<String> {
    let absent = wanted.iter().find(|call| !is_offered(call, offered))?;
    let names: Vec<_> = offered.iter().map(|tool| tool.name.as_ref()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Some(format!(
        "I would call the tool '{}', but this job does not offer it. On offer: {names}.",
        absent.tool
    ))
}

fn calls(wanted: Vec<ScriptedCall>, messages: &[Message]) -> Vec<ToolCall> {
    let calls_of = |message: &Message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls.len(),
        _ => 0,
    };
    let before: usize = messages.iter().map(calls_of).sum();
    let numbered = wanted.into_iter().enumerate();
    numbered
        .map(|(at, call)| {
            let id_ref = format!("demo_call_{}", before.saturating_add(at).saturating_add(1));
            ToolCall { id_ref, name: call.tool, arguments: call.arguments }
        })
        .collect()
}

/// A result as text: a program's output, another tool's data, or the error.
fn report(result: &Message) -> String {
    let Message::Tool { name, content, .. } = result else { return String::new() };
    let Ok(result) = serde_json::from_str::<Value>(content) else {
        return format!("{name} answered:\n{content}");
    };
    // A function of the client answers in a form of its own.
    if result.get("success").is_none() {
        return format!("{name} answered:\n{content}");
    }
    let output = result.pointer("/data/output").and_then(Value::as_str).unwrap_or_default();
    if result.get("success") != Some(&Value::Bool(true)) {
        let error = result.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        let separator = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
        return format!("{name} failed:\n{output}{separator}{error}");
    }
    let value = result.pointer("/data/result").and_then(Value::as_str);
    match (result.get("data"), value) {
        (Some(data), Some(value)) if data.get("output").is_some() => {
            format!("{name} printed:\n{output}=> {value}")
        }
        (Some(data), None) if data.get("output").is_some() => {
            format!("{name} printed:\n{}", if output.is_empty() { "(no output)" } else { output })
        }
        (data, _) => format!("{name} answered: {}", data.unwrap_or(&Value::Null)),
    }
}

fn truncated(text: &str) -> String {
    match text.char_indices().nth(ECHO_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn chars(message: &Message) -> usize {
    match message {
        Message::System { content } | Message::User { content, .. } | Message::Tool { content, .. } => {
            content.chars().count()
        }
        Message::Assistant { content, thinking, tool_calls, .. } => {
            let calls: usize =
                tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len())).sum();
            content.chars().count().saturating_add(thinking.chars().count()).saturating_add(calls)
        }
    }
}

fn tokens(chars: usize) -> u64 {
    u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
