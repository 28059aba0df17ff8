//! Readiness checks behind `/readyz`.

/// One condition of readiness.
pub trait ReadinessProbe: Send + Sync {
    /// Name in `/readyz`: `store`, `disk`, `workers`, `sandbox_standard`, `python` …
    fn name(&self) -> &'static str;
    /// The part in the list `degraded` of `/readyz`, for people; by default its name.
    fn part(&self) -> String {
        self.name().to_owned()
    }
    /// Fails with the problem and its remedy when the server is not ready.
    fn check(&self) -> Result<(), String>;
    /// A problem that only degrades the server, with its remedy; called after a successful check.
    fn degradation(&self) -> Option<String> {
        None
    }
    /// Whether the part of a degraded server does not work at all: its check is then not `ok`.
    fn is_off(&self) -> bool {
        false
    }
}
