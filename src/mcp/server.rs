//! One configured server as its tools see it: whether it runs, and whom to ask. Owns the words for a server that does not.

use super::options::McpServerOptions;
use crate::ports::Clock;
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// A tool that a server has told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    /// As the server names it.
    pub(super) raw: String,
    /// As the server describes it, cut.
    pub(super) description: String,
    /// Fit for models.
    pub(super) schema: Value,
}

/// Where a server is in its life.
pub(super) enum Phase {
    /// It is being started, for the first time or again.
    Starting,
    /// It can be asked.
    Running(Peer<RoleClient>),
    /// It has ended.
    Down {
        /// Why.
        why: String,
        /// When it is started again, on the scale of `Clock::monotonic_ms`; never when absent.
        again_at_ms: Option<u64>,
    },
    /// The server that we are is being stopped.
    Stopped,
}

/// A configured server.
pub(super) struct Server {
    /// In the configuration.
    pub(super) name: String,
    /// What the operator says about it.
    pub(super) options: McpServerOptions,
    clock: Arc<dyn Clock>,
    phase: Mutex<Phase>,
    listed: Mutex<Vec<Listed>>,
}

impl Server {
    /// One that has not been started.
    pub(super) fn new(name: String, options: McpServerOptions, clock: Arc<dyn Clock>) -> Self {
        Self { name, options, clock, phase: Mutex::new(Phase::Starting), listed: Mutex::default() }
    }

    /// Whom to ask, or why nobody can be asked: words for the model.
    pub(super) fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.name;
        match &*self.phase.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Running(peer) => Ok(peer.clone()),
            Phase::Starting => Err(format!("the MCP server '{name}' is being started; try again later")),
            Phase::Down { why, again_at_ms: None } => {
                Err(format!("the MCP server '{name}' is not running: {why}; it is not started again"))
            }
            Phase::Down { why, again_at_ms: Some(at_ms) } => {
                let left_s = at_ms.saturating_sub(self.clock.monotonic_ms()).div_ceil(1_000);
                Err(format!(
                    "the MCP server '{name}' is not running: {why}; it is started again in {left_s} s"
                ))
            }
            Phase::Stopped => {
                Err(format!("the MCP server '{name}' is not running: this server is being stopped"))
            }
        }
    }

    /// It is somewhere else in its life now.
    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// What it has told last; it stays while the server is down, so that calls are told why.
    pub(super) fn listed(&self) -> Vec<Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It has told its tools.
    pub(super) fn told(&self, listed: Vec<Listed>) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = listed;
    }

    /// In so many milliseconds, on the clock's scale.
    pub(super) fn in_ms(&self, delay_ms: u64) -> u64 {
        self.clock.monotonic_ms().saturating_add(delay_ms)
    }

    /// Milliseconds since then.
    pub(super) fn since_ms(&self, then_ms: u64) -> u64 {
        self.clock.monotonic_ms().saturating_sub(then_ms)
    }
}
