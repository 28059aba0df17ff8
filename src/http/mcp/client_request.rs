//! A request of an MCP client, as the methods see it.

use super::progress::ProgressNotifier;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::shares::ShareOwner;
use std::sync::Arc;

/// Who makes a request, and where its progress goes.
pub(super) struct McpClientRequest {
    pub(super) context: Arc<ServerContext>,
    pub(super) caller: Caller,
    /// Whose share of threads it uses.
    pub(super) owner: Option<ShareOwner>,
    /// `None` if the client does not want to see the progress.
    pub(super) progress: Option<ProgressNotifier>,
}
