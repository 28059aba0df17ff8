//! Tools of MCP servers. A server is a program in the sandbox (stdio) or an address (streamable HTTP).
//!
//! One thread with an async runtime runs all sessions; threads that call a tool wait on a channel. What a
//! server says about the safety of its tools is not trusted.

mod call;
mod catalogue;
mod check;
mod content;
mod http_client;
mod kept_file;
mod launch;
mod options;
mod package_runner;
mod path_grants;
mod resources;
mod sample_arguments;
mod schema;
mod server;
mod servers;
mod session;
mod sse_transport;
mod stdio;
mod supervisor;
mod tool;
mod tool_names;

pub use check::{McpCheckCalls, McpCheckError, McpServerReport, McpToolOutcome, McpToolReport, check};
pub use launch::{McpAccess, McpHost, program_access};
pub use options::{BadMcpOption, McpSandbox, McpServerOptions, McpTransport};
pub use server::McpPorts;
pub use servers::McpServers;
pub use tool_names::beginning_of;
