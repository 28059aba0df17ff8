//! Zygotes: warm `CPython` processes, one per level, that fork a child for each run.
//!
//! No guest code runs in a zygote, and it never reads a program. Only its children, which are the broker's,
//! do.

mod pool;
mod process;
mod ruleset_cache;
mod spec;
mod start;

pub(crate) use pool::ZygotePool;
pub(crate) use spec::ZygoteSpec;
