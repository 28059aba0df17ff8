//! Jobs that are in memory until their end: jobs whose client waits for their answer on the connection of the
//! request, and that end when it leaves. A worker is free for them at once, so they are in no queue.
//!
//! The first write that such a job needs beside its log, at the latest its end, stores all of it in its
//! transaction (`write.rs`). From then on it is a job as any other.

pub(crate) mod begin;
pub(crate) mod log;
pub(crate) mod read;
pub(crate) mod table;
pub(crate) mod write;
