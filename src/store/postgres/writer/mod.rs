//! Writes: a queue for those of jobs, whose commits are shared, and one for all others, which have a
//! transaction each.

pub(crate) mod act;
pub(crate) mod announcement;
pub(crate) mod commit_marks;
pub(crate) mod effects;
pub(crate) mod group;
pub(crate) mod thread;
pub(crate) mod write;
