//! Shows a job's events: the answer on stdout, and reasoning, tool calls, results and the end on stderr.

mod tool_text;

use crate::cli::error::CliError;
use crate::cli::jobs::follow::{ClientEvent, Update};
use crate::cli::terminal::{ERROR, THINKING, TOOL, Terminal};
use anstyle::Style;
use serde_json::Value;
pub(crate) use tool_text::{cut, one_line};

pub(crate) struct JobRenderer<'a> {
    terminal: &'a Terminal,
    /// Id of the job.
    job: &'a str,
    json: bool,
    /// The step whose text ends the current line.
    open: Option<RenderedStep>,
    /// Answer text by step, in pipes: a step may still be discarded, so it is written when it is complete.
    buffered: Vec<(String, String)>,
    end: Option<JobEnd>,
}

/// A step that is partly shown.
struct RenderedStep {
    step: String,
    is_thinking: bool,
    /// Whether its last character ended a line.
    at_line_start: bool,
}

enum JobEnd {
    Done(String),
    Failed,
}

impl<'a> JobRenderer<'a> {
    /// `json` prints one event a line instead.
    pub(crate) fn new(terminal: &'a Terminal, job: &'a str, json: bool) -> Self {
        Self { terminal, job, json, open: None, buffered: Vec::new(), end: None }
    }

    /// Whether the last event was an end without an answer.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.end, Some(JobEnd::Failed))
    }

    /// Token use and reason of a successful end.
    pub(crate) fn summary(&self) -> Option<&str> {
        match &self.end {
            Some(JobEnd::Done(summary)) => Some(summary),
            _ => None,
        }
    }

    /// Shows an event, or a notice on a line of its own.
    pub(crate) fn update(&mut self, update: &Update<'_>) -> Result<(), CliError> {
        match update {
            Update::Event(event) => self.show(event),
            Update::Notice(text) => self.note(text),
        }
    }

    pub(crate) fn show(&mut self, event: &ClientEvent) -> Result<(), CliError> {
        self.end = match event.name.as_str() {
            "error" => Some(JobEnd::Failed), // not final: a retried job continues
            "done" => Some(JobEnd::Done(summary(&event.data))),
            _ => None,
        };
        if self.json {
            let line = serde_json::json!({"id": event.seq, "event": event.name, "data": event.data});
            return Ok(self.terminal.line(&line.to_string())?);
        }
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or_default();
        match (event.name.as_str(), text("type")) {
            ("process_step", "thinking") => self.thinking(text("id"), text("delta")),
            ("process_step", "text") => self.answer(text("id"), text("delta")),
            ("process_step", "tool_call") => {
                self.finish()?;
                self.lines(&tool_text::call(text("name"), text("arguments"), self.terminal.columns()), TOOL);
                Ok(())
            }
            ("process_step", "tool_result") => self.result(&event.data),
            ("agent_step", kind) => self.agent(kind, &event.data),
            ("step_discarded", _) => self.discard(text("id")),
            ("summary", _) => self.note(
                "(the oldest messages no longer fit into the model's context; a summary replaces them)",
            ),
            ("status", _) if text("status") == "retrying" => self.note(text("reason")),
            ("status", _) if text("status") == "waiting_approval" => {
                self.note(&approval_advice(text("reason"), self.job))
            }
            ("error", _) => {
                self.finish()?;
                self.terminal.error(&format!("error: {} ({})", text("content"), text("code")));
                Ok(())
            }
            ("done", _) => self.finish(),
            _ => Ok(()),
        }
    }

    /// Writes the buffered text and ends an open line.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        self.end_line()?;
        for (_, text) in std::mem::take(&mut self.buffered) {
            self.terminal.data(&text)?;
            if !text.ends_with('\n') {
                self.terminal.data("\n")?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), CliError> {
        match self.open.take() {
            Some(RenderedStep { at_line_start: true, .. }) | None => {}
            Some(RenderedStep { is_thinking: true, .. }) => self.terminal.message(Style::new(), "\n"),
            Some(_) => self.terminal.data("\n")?,
        }
        Ok(())
    }

    fn thinking(&mut self, step: &str, delta: &str) -> Result<(), CliError> {
        self.begin(step, delta, true)?;
        self.terminal.message(THINKING, delta);
        Ok(())
    }

    fn answer(&mut self, step: &str, delta: &str) -> Result<(), CliError> {
        if self.terminal.shows_data() {
            self.begin(step, delta, false)?;
            return Ok(self.terminal.data(delta)?);
        }
        self.end_line()?;
        match self.buffered.last_mut() {
            Some((buffered, text)) if buffered == step => text.push_str(delta),
            _ => self.buffered.push((step.to_owned(), delta.to_owned())),
        }
        Ok(())
    }

    fn begin(&mut self, step: &str, delta: &str, is_thinking: bool) -> Result<(), CliError> {
        if self.open.as_ref().is_none_or(|open| open.step != step) {
            self.end_line()?;
        }
        let at_line_start = delta.ends_with('\n');
        self.open = Some(RenderedStep { step: step.to_owned(), is_thinking, at_line_start });
        Ok(())
    }

    fn result(&mut self, data: &Value) -> Result<(), CliError> {
        self.finish()?;
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        let (is_success, lines) = tool_text::result(text("name"), text("content"), self.terminal.columns());
        self.lines(&lines, if is_success { TOOL } else { ERROR });
        Ok(())
    }

    /// A line for each step of a sub-agent.
    fn agent(&mut self, kind: &str, data: &Value) -> Result<(), CliError> {
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        let action = match kind {
            "tool_call" => format!("→ {} {}", text("name"), text("arguments")),
            "tool_result" => format!("← {} {}", text("name"), text("content")),
            _ => text("content").to_owned(),
        };
        let line = format!("  [{}] {}", text("agent"), one_line(&action));
        self.note(&cut(&line, self.terminal.columns()))
    }

    fn discard(&mut self, step: &str) -> Result<(), CliError> {
        let before = self.buffered.len();
        self.buffered.retain(|(buffered_step, _)| buffered_step != step);
        if self.buffered.len() == before {
            self.note("(the step above was cut off and is repeated)")?;
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<(), CliError> {
        self.end_line()?;
        self.terminal.info(text);
        Ok(())
    }

    /// The first line in the style, the others dimmed.
    fn lines(&self, lines: &[String], style: Style) {
        for (at, line) in lines.iter().enumerate() {
            let style = if at == 0 { style } else { THINKING };
            self.terminal.message(style, &format!("{line}\n"));
        }
    }
}

/// Token use, and an unusual end, from the `done` event.
fn summary(done: &Value) -> String {
    let tokens = |key: &str| done.pointer(&format!("/usage/{key}")).and_then(Value::as_u64);
    let token_use = match (tokens("total_tokens"), tokens("prompt_tokens"), tokens("completion_tokens")) {
        (Some(total), Some(prompt), Some(completion)) => {
            format!("{total} tokens ({prompt} in, {completion} out)")
        }
        _ => "done".to_owned(),
    };
    match done.get("finish_reason").and_then(Value::as_str) {
        None | Some("stop") => token_use,
        Some("length") => format!("{token_use}, cut off at max_tokens"),
        Some(reason) => format!("{token_use}, ended by {}", reason.replace('_', " ")),
    }
}

/// The waiting calls and the commands that decide about them, instead of the HTTP routes.
fn approval_advice(reason: &str, job: &str) -> String {
    let calls = reason.split(": POST ").next().unwrap_or_default();
    format!("{calls}; decide with: nanoclaw approve {job}, or: nanoclaw deny {job} --reason TEXT")
}

#[cfg(test)]
mod tests;
