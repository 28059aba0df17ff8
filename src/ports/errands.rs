//! Work that a job's model hands in for itself: background jobs and schedules. Owns the trait and what crosses it.

/// Takes errands.
pub trait Errands: Send + Sync {}
