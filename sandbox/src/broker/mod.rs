//! The broker: a small process without secrets that starts every guest, and the server's client to it.
//!
//! No guest descends from the server. The broker has one thread, an empty environment, and only its end of
//! the socket. It forks JavaScript guests and the supervisors of commands itself. Python guests come from
//! warm zygotes, but are children of the broker, too (`CLONE_PARENT`): it alone reaps, so it alone knows how
//! a run ended.

mod client;
mod command_cgroups;
mod packet;
mod protocol;
mod reaper;
mod server;
mod spare_child;

pub(crate) use client::BrokerClient;
pub(crate) use packet::{is_disconnected, is_peer_closed, receive, send, socket_pair};
pub use protocol::BROKER_MARKER;
pub(crate) use protocol::{
    CommandLine, ExtraFd, RunReply, RunRequest, RunTask, ShellTask, ZygoteReply, ZygoteRunRequest,
    send_failure,
};
pub use server::child_hook;
pub(crate) use spare_child::SpareChild;
