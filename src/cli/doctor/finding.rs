//! One finding of the doctor. Owns its shape, as JSON and as lines; refuses to find anything.

use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};

/// What was looked at, and what was found.
pub(super) struct Finding {
    /// A name that stays: scripts look for it.
    name: String,
    ok: bool,
    /// In words.
    found: String,
    /// What to do, where there is something.
    advice: Option<String>,
    /// In numbers and names, for programs; an object.
    facts: Value,
}

impl Finding {
    pub(super) fn good(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), ok: true, found: found.into(), advice: None, facts: json!({}) }
    }

    pub(super) fn bad(name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { ok: false, ..Self::good(name, found) }.advised(Some(advice.into()))
    }

    /// With something that could be done.
    pub(super) fn advised(self, advice: Option<String>) -> Self {
        Self { advice, ..self }
    }

    /// With what programs read.
    pub(super) fn with(self, facts: Value) -> Self {
        Self { facts, ..self }
    }
}

/// Whether nothing is broken.
pub(super) fn is_healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.ok)
}

/// Prints them, in their order.
pub(super) fn print(findings: &[Finding], as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if as_json {
        let checks: Vec<Value> = findings
            .iter()
            .map(|f| json!({"name": f.name, "ok": f.ok, "found": f.found, "advice": f.advice, "facts": f.facts}))
            .collect();
        let version = env!("CARGO_PKG_VERSION");
        let told = json!({"ok": is_healthy(findings), "version": version, "checks": checks});
        return Ok(terminal.line(&told.to_string())?);
    }
    for finding in findings {
        let mark = if finding.ok { "ok  " } else { "FAIL" };
        terminal.line(&format!("{mark}  {:<16}  {}", finding.name, finding.found))?;
        if let Some(advice) = &finding.advice {
            terminal.line(&format!("      {:<16}  → {advice}", ""))?;
        }
    }
    Ok(())
}
