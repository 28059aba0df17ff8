//! Which job runs next, and the leases of those that run.

pub(crate) mod conversation_queue;
pub(crate) mod ready;
pub(crate) mod user_ready;
