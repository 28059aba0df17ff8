//! Shows a job's events in a terminal: thinking dimmed, text as it comes, tools in a line each. Owns what a line looks
//! like; refuses to fetch anything.

use super::error::CliError;
use super::follow::ClientEvent;
use super::terminal::{THINKING, TOOL, Terminal};
use serde_json::Value;

/// Characters of a tool's arguments or result that a line shows.
const PREVIEW_CHARS: usize = 200;

/// The state of the screen between two events.
pub(super) struct Render<'a> {
    terminal: &'a Terminal,
    /// Whose events these are.
    job: &'a str,
    json: bool,
    /// The step whose text ends the current line.
    open: Option<String>,
    failed: bool,
}

impl<'a> Render<'a> {
    /// A renderer; `json` prints one event a line instead.
    pub(super) fn new(terminal: &'a Terminal, job: &'a str, json: bool) -> Self {
        Self { terminal, job, json, open: None, failed: false }
    }

    /// Whether the last event was an end without an answer.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &ClientEvent) -> Result<(), CliError> {
        self.failed = event.name == "error"; // a retried job goes on behind its failure
        if self.json {
            let line = serde_json::json!({"id": event.seq, "event": event.name, "data": event.data});
            return Ok(self.terminal.line(&line.to_string())?);
        }
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or_default();
        match (event.name.as_str(), text("type")) {
            ("process_step", "thinking") => self.piece(text("id"), text("delta"), true),
            ("process_step", "text") => self.piece(text("id"), text("delta"), false),
            ("process_step", "tool_call") => {
                self.tool(&format!("→ {} {}", text("name"), preview(text("arguments"))))
            }
            ("process_step", "tool_result") => {
                self.tool(&format!("← {} {}", text("name"), preview(text("content"))))
            }
            ("step_discarded", _) => {
                self.end_line()?;
                self.terminal.say("(the step above was cut off and is made again)");
                Ok(())
            }
            ("summary", _) => {
                self.end_line()?;
                self.terminal.say(
                    "(the oldest messages no longer fit into the model's context; a summary stands for them)",
                );
                Ok(())
            }
            ("status", _) if text("status") == "retrying" => {
                self.end_line()?;
                self.terminal.say(text("reason"));
                Ok(())
            }
            ("status", _) if text("status") == "waiting_approval" => {
                self.end_line()?;
                self.terminal.say(&waits(text("reason"), self.job));
                Ok(())
            }
            ("error", _) => {
                self.end_line()?;
                self.terminal.complain(&format!("error: {} ({})", text("content"), text("code")));
                Ok(())
            }
            ("done", _) => self.end_line(),
            _ => Ok(()),
        }
    }

    /// Ends a line that a step has left open.
    pub(super) fn end_line(&mut self) -> Result<(), CliError> {
        if self.open.take().is_some() {
            self.terminal.data("\n")?;
        }
        Ok(())
    }

    fn piece(&mut self, step: &str, delta: &str, thinking: bool) -> Result<(), CliError> {
        if self.open.as_deref() != Some(step) {
            self.end_line()?;
            self.open = Some(step.to_owned());
        }
        Ok(if thinking { self.terminal.styled(THINKING, delta) } else { self.terminal.data(delta) }?)
    }

    fn tool(&mut self, line: &str) -> Result<(), CliError> {
        self.end_line()?;
        Ok(self.terminal.styled(TOOL, &format!("{line}\n"))?)
    }
}

/// What waits, and the commands that decide about it: for people the routes in the reason are no help.
fn waits(reason: &str, job: &str) -> String {
    let calls = reason.split(": POST ").next().unwrap_or_default();
    format!("{calls}; decide with: nanoclaw approve {job}, or: nanoclaw deny {job} --reason TEXT")
}

fn preview(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= PREVIEW_CHARS {
        return line;
    }
    line.chars().take(PREVIEW_CHARS).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_told_with_the_commands_that_decide() {
        let told =
            waits("bash (a) waits for approval: POST /v1/jobs/job_1/approve or /v1/jobs/job_1/deny", "job_1");
        let hint = "decide with: nanoclaw approve job_1, or: nanoclaw deny job_1 --reason TEXT";
        assert_eq!(told, format!("bash (a) waits for approval; {hint}"));
    }
}
