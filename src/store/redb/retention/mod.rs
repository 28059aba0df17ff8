//! Shrinks and removes ended jobs by age.

pub(crate) mod clock_trust;
pub(crate) mod fold;
pub(crate) mod sweep;
pub(crate) mod sweeper;
