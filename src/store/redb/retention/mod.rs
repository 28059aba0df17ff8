//! Shrinks and removes ended jobs by age.

pub(crate) mod checkpoints;
pub(crate) mod sweep;
