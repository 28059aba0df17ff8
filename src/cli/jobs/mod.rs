//! Commands about jobs: `ask`, `chat`, `tail`, `retry`, `jobs`, `cancel`, `approve` and `deny`.

pub(super) mod approval;
pub(super) mod ask;
pub(super) mod chat;
pub(super) mod follow;
pub(super) mod list;
pub(super) mod render;
mod watch;
