//! Checks of an answer.

use crate::domain::nearest::hint;
use crate::tools::{schema_fault, schema_mismatch};
use nanoclaw_sandbox::{Language, Level, Program, RunStatus, Sandbox};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Characters of a check or of a program's output in a report.
const SHOWN_CHARS: usize = 120;

/// Bytes of a compiled expression.
const REGEX_BYTES: usize = 1024 * 1024;

/// A check as a line writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckLine {
    /// The answer has this text.
    Contains(String),
    /// The answer does not have this text.
    NotContains(String),
    /// The expression matches a part of the answer.
    Regex(String),
    /// The answer is this text, apart from white space around it.
    Equals(String),
    /// The answer is JSON that matches this schema.
    JsonSchema(Value),
    /// This shell program reads the answer from its standard input and ends with 0.
    Program(String),
}

/// The names of the checks.
const CHECKS: [&str; 6] = ["contains", "not_contains", "regex", "equals", "json_schema", "program"];

impl CheckLine {
    /// Reads `{"contains": "…"}` and the like, or says what is wrong.
    pub(super) fn read(value: Value) -> Result<Self, String> {
        let name = value.as_object().filter(|map| map.len() == 1).and_then(|map| map.keys().next());
        let name = name.ok_or("it must be an object with one key, as in {\"contains\":\"…\"}")?.clone();
        if !CHECKS.contains(&name.as_str()) {
            let known = CHECKS.join(", ");
            return Err(format!("there is no check '{name}', only {known}{}", hint(&name, CHECKS)));
        }
        serde_json::from_value(value).map_err(|_| format!("'{name}' must be a text"))
    }
}

/// A check that can be made.
#[derive(Debug)]
pub(super) struct Check {
    line: CheckLine,
    regex: Option<Regex>,
}

impl Check {
    /// Fails with what is wrong with the check.
    pub(super) fn new(line: CheckLine) -> Result<Self, String> {
        let mut regex = None;
        match &line {
            CheckLine::Regex(text) => {
                let built = regex::RegexBuilder::new(text).size_limit(REGEX_BYTES).build();
                regex = Some(built.map_err(|error| error.to_string())?);
            }
            CheckLine::JsonSchema(schema) => {
                if let Some(fault) = schema_fault(schema) {
                    return Err(format!("the schema cannot be used: {fault}"));
                }
            }
            CheckLine::Program(code) if code.trim().is_empty() => {
                return Err("the program is empty".to_owned());
            }
            _ => {}
        }
        Ok(Self { line, regex })
    }

    /// Whether it needs the sandbox.
    pub(super) fn is_program(&self) -> bool {
        matches!(self.line, CheckLine::Program(_))
    }

    /// What it wants, short.
    pub(super) fn title(&self) -> String {
        let (kind, text) = match &self.line {
            CheckLine::Contains(text) => ("contains", text.clone()),
            CheckLine::NotContains(text) => ("not_contains", text.clone()),
            CheckLine::Regex(text) => ("regex", text.clone()),
            CheckLine::Equals(text) => ("equals", text.clone()),
            CheckLine::JsonSchema(schema) => ("json_schema", schema.to_string()),
            CheckLine::Program(code) => ("program", code.clone()),
        };
        format!("{kind} {}", short(&text))
    }

    /// Why the answer does not pass; `None` if it does. `sandbox` runs programs.
    pub(super) fn fault(&self, answer: &str, sandbox: Option<&Sandbox>) -> Option<String> {
        let unless = |passes: bool, fault: &str| (!passes).then(|| fault.to_owned());
        match (&self.line, &self.regex) {
            (CheckLine::Contains(text), _) => unless(answer.contains(text), "the answer lacks the text"),
            (CheckLine::NotContains(text), _) => unless(!answer.contains(text), "the answer has the text"),
            (CheckLine::Regex(_), Some(regex)) => {
                unless(regex.is_match(answer), "the expression matches nothing")
            }
            (CheckLine::Equals(text), _) => {
                unless(answer.trim() == text.trim(), "the answer is another text")
            }
            (CheckLine::JsonSchema(schema), _) => match serde_json::from_str::<Value>(answer.trim()) {
                Ok(value) => schema_mismatch(schema, &value),
                Err(error) => Some(format!("the answer is not JSON: {error}")),
            },
            (CheckLine::Program(code), _) => match sandbox {
                Some(sandbox) => run(code, answer, sandbox),
                None => Some("there is no sandbox for the program".to_owned()),
            },
            (CheckLine::Regex(_), None) => Some("the expression is missing".to_owned()),
        }
    }
}

/// Runs the program in the sandbox of this machine.
fn run(code: &str, answer: &str, sandbox: &Sandbox) -> Option<String> {
    let mut program = Program::new(Language::Bash, Level::Shell, code);
    program.stdin = Some(answer.as_bytes().to_vec());
    let record = sandbox.run(&program, &|| false);
    if record.status == RunStatus::Ok {
        return None;
    }
    let said = if record.stderr.trim().is_empty() { &record.stdout } else { &record.stderr };
    let reason = record.error.as_deref().filter(|_| said.trim().is_empty()).unwrap_or(said);
    let code = record.exit_code.map_or_else(|| record.status.to_string(), |code| format!("exit code {code}"));
    Some(format!("{code}: {}", short(reason.trim())))
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(SHOWN_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn passes(check: Value, answer: &str) -> bool {
        let line: CheckLine = serde_json::from_value(check).expect("a check");
        Check::new(line).expect("valid").fault(answer, None).is_none()
    }

    #[test]
    fn each_check_passes_and_fails() {
        let schema = json!({"type": "object", "required": ["a"]});
        for (check, good, bad) in [
            (json!({"contains": "42"}), "it is 42", "it is 41"),
            (json!({"not_contains": "sorry"}), "42", "sorry, no"),
            (json!({"regex": "^4[0-9]$"}), "42", "142"),
            (json!({"equals": "42"}), " 42\n", "42."),
            (json!({"json_schema": schema}), "{\"a\":1}", "{\"b\":1}"),
            (json!({"json_schema": schema}), "\n{\"a\":1}\n", "not JSON"),
        ] {
            assert!(passes(check.clone(), good), "{check}");
            assert!(!passes(check.clone(), bad), "{check}");
        }
    }

    #[test]
    fn a_title_is_one_short_line() {
        let check = Check::new(CheckLine::Program("a\n".repeat(200))).expect("valid");
        let title = check.title();
        assert!(title.starts_with("program a a") && title.ends_with('…') && !title.contains('\n'), "{title}");
    }
}
