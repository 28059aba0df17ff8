//! Shrinks and removes ended jobs by age.

pub(crate) mod sweep;
