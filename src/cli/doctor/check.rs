//! One check of the doctor and how it is printed.

use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
pub(super) struct DoctorCheck {
    /// Stable: scripts look for it.
    name: String,
    ok: bool,
    /// The result, for people.
    found: String,
    advice: Option<String>,
    /// The result, for programs: an object.
    facts: Value,
    /// The result is no fault, but its reader should look at it.
    #[serde(skip)]
    is_warning: bool,
}

impl DoctorCheck {
    pub(super) fn good(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ok: true,
            found: found.into(),
            advice: None,
            facts: json!({}),
            is_warning: false,
        }
    }

    /// A result that is no fault of this installation.
    pub(super) fn warned(
        name: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { is_warning: true, ..Self::good(name, found) }.advised(Some(advice.into()))
    }

    pub(super) fn bad(name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { ok: false, ..Self::good(name, found) }.advised(Some(advice.into()))
    }

    pub(super) fn advised(self, advice: Option<String>) -> Self {
        Self { advice, ..self }
    }

    pub(super) fn with(self, facts: Value) -> Self {
        Self { facts, ..self }
    }
}

/// Whether no check failed.
pub(super) fn is_healthy(checks: &[DoctorCheck]) -> bool {
    checks.iter().all(|check| check.ok)
}

pub(super) fn print(checks: &[DoctorCheck], as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if as_json {
        let (is_healthy, version) = (is_healthy(checks), env!("CARGO_PKG_VERSION"));
        let report = json!({"ok": is_healthy, "version": version, "checks": checks});
        return Ok(terminal.line(&report.to_string())?);
    }
    for check in checks {
        let mark = match check {
            DoctorCheck { ok: false, .. } => "FAIL",
            DoctorCheck { is_warning: true, .. } => "warn",
            DoctorCheck { .. } => "ok  ",
        };
        terminal.line(&format!("{mark}  {:<16}  {}", check.name, check.found))?;
        if let Some(advice) = &check.advice {
            terminal.line(&format!("      {:<16}  → {advice}", ""))?;
        }
    }
    Ok(())
}
