//! A configured server as its tools see it: its state and the tools that it listed last.

use super::options::McpServerOptions;
use crate::ports::{Clock, Processes};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// What MCP needs from other modules.
#[derive(Clone)]
pub struct McpPorts {
    /// Starts the programs of servers.
    pub processes: Arc<dyn Processes>,
    /// Measures restarts.
    pub clock: Arc<dyn Clock>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedTool {
    /// Name on the server.
    pub(super) raw_name: String,
    /// The server's description, shortened.
    pub(super) description: String,
    /// Input schema in the form that providers accept.
    pub(super) schema: Value,
}

pub(super) enum ServerState {
    Starting,
    Running(Peer<RoleClient>),
    Down {
        reason: String,
        /// Next start, as in `Clock::monotonic_ms`; `None` if there is none.
        restart_at_ms: Option<u64>,
    },
    /// This process is stopping.
    Stopped,
}

pub(super) struct Server {
    /// Name in the configuration.
    pub(super) name: String,
    pub(super) options: McpServerOptions,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<ServerState>,
    tools: Mutex<Vec<ListedTool>>,
}

impl Server {
    pub(super) fn new(name: String, options: McpServerOptions, clock: Arc<dyn Clock>) -> Self {
        Self { name, options, clock, state: Mutex::new(ServerState::Starting), tools: Mutex::default() }
    }

    /// The running session, or a message for the model.
    pub(super) fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.name;
        let down = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            ServerState::Running(peer) => return Ok(peer.clone()),
            ServerState::Starting => {
                return Err(format!("the MCP server '{name}' is being started; try again later"));
            }
            ServerState::Down { reason, restart_at_ms: None } => format!("{reason}; it is not started again"),
            ServerState::Down { reason, restart_at_ms: Some(at_ms) } => {
                let wait_s = at_ms.saturating_sub(self.clock.monotonic_ms()).div_ceil(1_000);
                format!("{reason}; it is started again in {wait_s} s")
            }
            ServerState::Stopped => "this server is being stopped".to_owned(),
        };
        Err(format!("the MCP server '{name}' is not running: {down}"))
    }

    pub(super) fn set_state(&self, state: ServerState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The tools that it listed last. They stay while it is down, so that a call gets the reason.
    pub(super) fn tools(&self) -> Vec<ListedTool> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_tools(&self, tools: Vec<ListedTool>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }
}
