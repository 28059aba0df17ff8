//! The HTTP server.
//!
//! A request passes `server` (accepts connections, speaks HTTP), `middleware` (host, origin, authentication,
//! limits), `router` (finds the route of `routes`), one handler in `v1` or `api`, and `response`. HTTP and
//! workers meet in the store alone.

mod api;
mod auth;
mod blocking;
mod console;
mod context;
mod dependencies;
mod error;
mod health;
mod mcp;
mod metrics;
mod middleware;
mod openapi;
mod port_errors;
mod quota;
mod readiness;
mod request;
mod response;
mod result_file_tasks;
mod router;
mod routes;
mod server;
mod shared_pages;
mod shared_threads;
mod shares;
mod sse;
mod v1;
mod web_socket;

pub(crate) use api::tokens::{TokenRequest, TokenResponse};
pub(crate) use api::users::{NewUserRequest, UserChangeRequest, UserResponse};
pub use auth::setup_invite;
pub(crate) use auth::{api_key, password};
pub use dependencies::{AppDependencies, AuthSettings};
pub(crate) use request::typed::from_map;
pub use server::listener::{BoundAddress, HttpListener};
pub use server::serve;
pub use server::shutdown::{Shutdown, ShutdownSender, ShutdownStage};
pub(crate) use shared_threads::{BLOCKING_THREADS, SharedThreads};
pub(crate) use v1::nodes::NodesResponse;
pub use v1::tools::ToolResponse;
pub use v1::tools::operator_call::OperatorToolCall;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
