//! Tools of MCP servers: programs in the sandbox that talk over their pipes, and addresses that talk streamable HTTP. Owns
//! sessions, their restarts, names and schemas of tools, and what becomes of an answer; refuses to confine programs itself
//! (whoever stands behind `Processes` does), and to trust what servers say of their tools.
//!
//! One thread with an async runtime carries all sessions; whoever calls a tool waits on a channel.

mod call;
mod check;
mod client;
mod content;
mod keeper;
mod names;
mod options;
mod redact;
mod sample;
mod schema;
mod server;
mod servers;
mod session;
mod stdio;
mod tool;
mod wire;

pub use check::{Checked, CheckedTool, Verdict, check};
pub use options::{McpFault, McpServerOptions};
pub use servers::{McpPorts, McpServers};
