//! All configured servers and the thread that runs their sessions. A failure of one server does not affect
//! the others.

use super::catalogue::Catalogue;
use super::launch::{McpAccess, program_access};
use super::options::McpServerOptions;
use super::server::{McpPorts, Server, unknown_tools};
use super::supervisor::supervise;
use super::tool_names::beginning_of;
use crate::domain::nearest::hint;
use crate::ports::{McpServerInfo, Tool, ToolNamespace, ToolSource};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Threads for blocking work: starts, ends, name lookups.
const BLOCKING_THREADS: usize = 16;
/// Time after which an idle one of these threads ends.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Time for blocking work to end after all sessions have ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The configured servers, running in the background.
pub struct McpServers {
    catalogue: Arc<Catalogue>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) fn start_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .thread_name("mcp")
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(KEEP_ALIVE)
        .build()
}

impl McpServers {
    /// Starts all servers without waiting for them. `None` if none is configured and enabled.
    pub fn start(options: &BTreeMap<String, McpServerOptions>, ports: McpPorts) -> io::Result<Option<Self>> {
        let server = |(name, options): (&String, &McpServerOptions)| {
            let (clock, meter) = (Arc::clone(&ports.clock), Arc::clone(&ports.meter));
            Arc::new(Server::new(name.clone(), options.clone(), clock, meter))
        };
        let enabled = options.iter().filter(|(_, options)| !options.disabled);
        let servers: Vec<Arc<Server>> = enabled.map(server).collect();
        if servers.is_empty() {
            return Ok(None);
        }
        for server in &servers {
            log_access(server, &ports);
        }
        let runtime = start_runtime()?;
        let catalogue = Arc::new(Catalogue::new(servers, runtime.handle().clone(), ports.files.clone()));
        let (stop, stopped) = watch::channel(false);
        let supervised = Arc::clone(&catalogue);
        let run = move || {
            runtime.block_on(supervise_all(&supervised, &ports, &stopped));
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        };
        let thread = std::thread::Builder::new().name("mcp".to_owned()).spawn(run)?;
        Ok(Some(Self { catalogue, stop, thread: Mutex::new(Some(thread)) }))
    }

    /// The state of every server.
    pub fn infos(&self) -> Vec<McpServerInfo> {
        self.catalogue.servers.iter().map(|server| server.info()).collect()
    }

    /// Calls this after each change of the tools. It must not block, and the first one stays.
    pub fn on_change(&self, announce: impl Fn() + Send + Sync + 'static) {
        self.catalogue.announce.get_or_init(|| Box::new(announce));
    }

    /// Ends all sessions and their programs, and waits for that; it takes a few seconds at most.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the MCP servers panicked");
        }
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ToolSource for McpServers {
    fn version(&self) -> u64 {
        self.catalogue.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.catalogue.tools()
    }

    fn namespaces(&self) -> Vec<ToolNamespace> {
        let namespace = |server: &Arc<Server>| ToolNamespace {
            beginning: beginning_of(&server.name),
            is_listed: server.is_listed.load(Ordering::Acquire),
        };
        self.catalogue.servers.iter().map(namespace).collect()
    }

    fn unknown_names(&self) -> Vec<String> {
        let is_listed = |server: &&Arc<Server>| server.is_listed.load(Ordering::Acquire);
        self.catalogue.servers.iter().filter(is_listed).flat_map(|server| notes_of(server)).collect()
    }
}

/// A sentence for each tool that the operator names and that the server does not have.
fn notes_of(server: &Server) -> Vec<String> {
    let (name, tools) = (&server.name, server.tools());
    let note = |(key, tool): (&str, String)| {
        let meant = hint(&tool, tools.iter().map(|tool| tool.raw_name.as_str()));
        format!("mcp_servers.{name}.{key}: the server has no tool '{tool}'{meant}")
    };
    unknown_tools(name, &server.options, &tools).into_iter().map(note).collect()
}

/// Logs what the program of a server may use, and what it may not although its command line names it.
fn log_access(server: &Server, ports: &McpPorts) {
    let McpAccess { access, refused, .. } = program_access(&server.name, &server.options, &ports.host);
    if let Some(access) = access {
        tracing::info!(server = server.name, access, "MCP server may use more than its own files");
    }
    for reason in refused {
        tracing::warn!(server = server.name, reason, "the sandbox keeps something closed to an MCP server");
    }
}

async fn supervise_all(catalogue: &Arc<Catalogue>, ports: &McpPorts, stop: &watch::Receiver<bool>) {
    let mut supervisors = JoinSet::new();
    for server in &catalogue.servers {
        let (server, catalogue) = (Arc::clone(server), Arc::clone(catalogue));
        supervisors.spawn(supervise(server, catalogue, ports.clone(), stop.clone()));
    }
    while let Some(ended) = supervisors.join_next().await {
        if ended.is_err() {
            tracing::error!("the supervisor of an MCP server panicked");
        }
    }
}
