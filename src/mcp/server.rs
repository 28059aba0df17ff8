//! A configured server as its tools see it: its state and the tools that it listed last.
//!
//! A call that reaches its time-out reports to the supervisor, which ends a server that hangs.

use super::launch::McpHost;
use super::options::McpServerOptions;
use super::tool_names;
use crate::ports::{Clock, McpServerInfo, McpServerState, Measurement, Meter, Processes, WorkspaceFiles};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// Interval at which a call that waits for a start looks for its cancellation.
const START_POLL: Duration = Duration::from_millis(50);

/// What MCP needs from other modules.
#[derive(Clone)]
pub struct McpPorts {
    /// Starts the programs of servers.
    pub processes: Arc<dyn Processes>,
    /// Measures restarts.
    pub clock: Arc<dyn Clock>,
    /// What programs get from this process.
    pub host: McpHost,
    /// Counts starts and ends.
    pub meter: Arc<dyn Meter>,
    /// Keeps images and files that tools return; `None` outside of a server.
    pub files: Option<Arc<dyn WorkspaceFiles>>,
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
    /// What the server says (`readOnlyHint`). Only `mcp check` uses it.
    pub(super) is_read_only: bool,
    /// Whether it is our reader of the server's resources.
    pub(super) reads_resources: bool,
}

/// The tools that the operator names and that the server does not have, each with its key.
pub(super) fn unknown_tools(
    name: &str,
    options: &McpServerOptions,
    tools: &[ListedTool],
) -> Vec<(&'static str, String)> {
    let pairs: Vec<(&str, &str)> = tools.iter().map(|tool| (name, tool.raw_name.as_str())).collect();
    let names = tool_names::assign(&pairs);
    let is_known = |entry: &String| {
        entry == "*" || names.contains(entry) || tools.iter().any(|tool| tool.raw_name == *entry)
    };
    let lists = [
        ("enabled_tools", &options.enabled_tools),
        ("disabled_tools", &options.disabled_tools),
        ("idempotent_tools", &options.idempotent_tools),
    ];
    let unknown = lists.into_iter().flat_map(|(key, list)| {
        list.iter().filter(|entry| !is_known(entry)).map(move |entry| (key, entry.clone()))
    });
    unknown.collect()
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
    /// Notified when a call is close to its time-out.
    pub(super) slow_call: Notify,
    /// Counts calls that reached their time-out.
    pub(super) timed_out_calls: watch::Sender<u64>,
    /// Whether a ping waits for its answer.
    pub(super) is_pinged: AtomicBool,
    /// Whether a call reached its time-out while a ping waited: the supervisor decides now.
    is_suspected: AtomicBool,
    meter: Arc<dyn Meter>,
    state: Mutex<ServerState>,
    /// Notified with every change of the state.
    state_changed: Condvar,
    tools: Mutex<Vec<ListedTool>>,
    /// Whether the catalogue has its tools; it keeps them when the server is down.
    pub(super) is_listed: AtomicBool,
    /// Number of those that models are offered.
    pub(super) offered_tools: AtomicUsize,
}

impl Server {
    pub(super) fn new(
        name: String,
        options: McpServerOptions,
        clock: Arc<dyn Clock>,
        meter: Arc<dyn Meter>,
    ) -> Self {
        Self {
            name,
            options,
            clock,
            slow_call: Notify::new(),
            timed_out_calls: watch::Sender::new(0),
            is_pinged: AtomicBool::new(false),
            is_suspected: AtomicBool::new(false),
            meter,
            state: Mutex::new(ServerState::Starting),
            state_changed: Condvar::new(),
            tools: Mutex::default(),
            is_listed: AtomicBool::new(false),
            offered_tools: AtomicUsize::new(0),
        }
    }

    /// Reports a call that reached its time-out.
    pub(super) fn report_timeout(&self) {
        if self.is_pinged.load(Ordering::Acquire) {
            self.is_suspected.store(true, Ordering::Release);
        }
        self.timed_out_calls.send_modify(|count| *count += 1);
    }

    /// The server answers again.
    pub(super) fn clear_suspicion(&self) {
        self.is_pinged.store(false, Ordering::Release);
        self.is_suspected.store(false, Ordering::Release);
    }

    /// Waits while the server is being started or may hang, at most `timeout`.
    #[expect(clippy::disallowed_methods, reason = "waits for a process of the operating system")]
    pub(super) fn wait_for_start(&self, timeout: Duration, is_cancelled: impl Fn() -> bool) {
        let started = Instant::now();
        let mut state = self.lock_state();
        let is_suspected = || self.is_suspected.load(Ordering::Acquire);
        while (matches!(*state, ServerState::Starting) || is_suspected())
            && started.elapsed() < timeout
            && !is_cancelled()
        {
            let waited = self.state_changed.wait_timeout(state, START_POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether a call could work now or soon.
    pub(super) fn is_usable(&self) -> bool {
        matches!(*self.lock_state(), ServerState::Running(_) | ServerState::Starting)
    }

    /// Its state, with the reason if it is down.
    pub(super) fn info(&self) -> McpServerInfo {
        let state = match &*self.lock_state() {
            ServerState::Starting => McpServerState::Starting,
            ServerState::Running(_) => McpServerState::Running,
            ServerState::Down { .. } => McpServerState::Down,
            ServerState::Stopped => McpServerState::Stopped,
        };
        let reason = if state == McpServerState::Down { self.peer().err() } else { None };
        let tools = self.offered_tools.load(Ordering::Relaxed);
        McpServerInfo { name: self.name.clone(), state, reason, tools }
    }

    fn lock_state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running session, or a message for the model.
    pub(super) fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.name;
        let down = match &*self.lock_state() {
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
        let is_up = matches!(state, ServerState::Running(_));
        self.meter.record(Measurement::McpServer { server: &self.name, is_up });
        *self.lock_state() = state;
        self.state_changed.notify_all();
    }

    pub(super) fn count_restart(&self) {
        self.meter.record(Measurement::McpRestarted { server: &self.name });
    }

    /// The tools that it listed last. They stay while it is down, so that a call gets the reason.
    pub(super) fn tools(&self) -> Vec<ListedTool> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_tools(&self, tools: Vec<ListedTool>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }
}
