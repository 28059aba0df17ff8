//! Shrinks and removes ended jobs by age, and removes other things that have expired.

pub(crate) mod checkpoints;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod sweep;
