//! Health. Owns what a part of the server says of itself before it is called ready.

/// One thing that must work before the server is ready.
pub trait Probe: Send + Sync {
    /// `store`, `workers`, `sandbox`.
    fn name(&self) -> &'static str;
    /// What is wrong, and what to do about it.
    fn check(&self) -> Result<(), String>;
}
