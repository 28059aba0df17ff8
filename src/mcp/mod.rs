//! Tools of MCP servers. A server is a program in the sandbox (stdio) or an address (streamable HTTP).
//!
//! One thread with an async runtime runs all sessions; threads that call a tool wait on a channel. What a
//! server says about the safety of its tools is not trusted.

mod call;
mod catalogue;
mod check;
mod content;
mod http_client;
mod options;
mod sample_arguments;
mod schema;
mod server;
mod servers;
mod session;
mod stdio;
mod supervisor;
mod tool;
mod tool_names;

pub use check::{McpServerReport, McpToolOutcome, McpToolReport, check};
pub use options::{BadMcpOption, McpServerOptions};
pub use server::McpPorts;
pub use servers::McpServers;
