//! What stores keep of jobs, conversations, batches and usage, and the rules of these rows that need no
//! storage.

pub(crate) mod approval;
pub(crate) mod batch;
pub(crate) mod conversation;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod usage;
pub(crate) mod weight;
