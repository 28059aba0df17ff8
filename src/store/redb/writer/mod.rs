//! The writer thread: groups, transactions, commits, recovery, and the notifications after a commit.

pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod linger;
pub(crate) mod recovery;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod transaction;
pub(crate) mod write;
