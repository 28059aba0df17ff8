//! What servers may ask of us: nothing but a sign of life. Owns our answers; models, people and directories are refused.

use rmcp::handler::client::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{NotificationContext, RoleClient};
use std::sync::Arc;
use tokio::sync::Notify;

/// Our side of a session. What it does not say is refused by the SDK: sampling is an unknown method, elicitation is
/// declined, there are no roots.
#[derive(Debug)]
pub(super) struct Client {
    /// Rung when the server's tools have changed.
    pub(super) changed: Arc<Notify>,
}

impl ClientHandler for Client {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(ClientCapabilities::default(), us);
        // The newest that begins with a handshake, as all servers of today can.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }
}
