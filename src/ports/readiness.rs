//! Health. Owns what a part of the server says of itself before it is called ready.

/// One thing that must work before the server is ready.
pub trait ReadinessProbe: Send + Sync {
    /// `store`, `disk`, `workers`, `sandbox_standard`, `python`.
    fn name(&self) -> &'static str;
    /// What is wrong, and what to do about it: the server is not ready.
    fn check(&self) -> Result<(), String>;
    /// What does not work, and what to do about it, while the server is of use all the same; asked when all is well.
    fn degradation(&self) -> Option<String> {
        None
    }
}
