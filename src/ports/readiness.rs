//! Readiness checks behind `/readyz` and `/v1/status`.

use std::fmt;

/// Why a part does not work, or not fully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFault {
    /// What fails.
    pub reason: String,
    /// What to do about it, where something is known.
    pub hint: Option<String>,
}

impl PartFault {
    /// A fault with its remedy.
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: Some(hint.into()) }
    }
}

impl From<String> for PartFault {
    fn from(reason: String) -> Self {
        Self { reason, hint: None }
    }
}

impl fmt::Display for PartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

/// One condition of readiness.
pub trait ReadinessProbe: Send + Sync {
    /// Name in `/readyz`: `store`, `disk`, `workers`, `sandbox_standard`, `python` …
    fn name(&self) -> &'static str;
    /// The part in the list `degraded` of `/readyz`, for people; by default its name.
    fn part(&self) -> String {
        self.name().to_owned()
    }
    /// Fails when the server is not ready.
    fn check(&self) -> Result<(), PartFault>;
    /// A problem that only degrades the server; called after a successful check.
    fn degradation(&self) -> Option<PartFault> {
        None
    }
    /// Whether the part of a degraded server does not work at all: its check is then not `ok`.
    fn is_off(&self) -> bool {
        false
    }
}
