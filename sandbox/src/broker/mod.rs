//! The broker: a small, secret-free process that starts every guest, and the server's link to it.
//!
//! Owns: that no guest descends from the server. The broker has one thread, an empty environment, and no descriptor but
//! its end of the link; it forks JavaScript guests and the supervisors of commands from itself, and Python guests from
//! warm zygotes, whose children are its own, too (`CLONE_PARENT`): it alone reaps, so it alone knows how a run ended.

mod cells;
mod link;
mod order;
mod packet;
mod serve;
mod spare;
mod zygote;

pub(crate) use link::{Link, new_command, wait_until_readable};
pub(crate) use order::{Extra, Order, Reply, ShellTask, Task};
pub(crate) use packet::receive;
pub(crate) use serve::serve;
