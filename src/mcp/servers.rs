//! All configured servers: the thread that carries their sessions, and the tools that they have between them. Owns start,
//! end and the merged list; one server's trouble is its own.

use super::keeper::keep;
use super::names;
use super::options::McpServerOptions;
use super::server::Server;
use super::tool::McpTool;
use crate::domain::tool::ToolSpec;
use crate::ports::{Clock, Processes, Tool, ToolSource};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Threads for starts, ends and names of hosts, which block.
const BLOCKING_THREADS: usize = 16;
/// Tools of one server that come in; one that has more hides none of the others'.
const SERVER_TOOLS: usize = 128;
/// How long such a thread is kept when there is nothing to do.
const IDLE: Duration = Duration::from_secs(1);
/// How long blocking work may go on when everything else has ended.
const LAST: Duration = Duration::from_secs(1);

/// What servers need of the world.
pub struct McpPorts {
    /// Starts their programs.
    pub processes: Arc<dyn Processes>,
    /// Tells how late it is.
    pub clock: Arc<dyn Clock>,
}

/// The tools of all servers.
pub(super) struct Catalogue {
    servers: Vec<Arc<Server>>,
    version: AtomicU64,
    tools: Mutex<Vec<Arc<dyn Tool>>>,
    runtime: Handle,
}

/// The configured servers, running in the background.
pub struct McpServers {
    catalogue: Arc<Catalogue>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The runtime of a thread of servers.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .thread_name("mcp")
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(IDLE)
        .build()
}

impl McpServers {
    /// Starts them all, and waits for none. None if there is none.
    pub fn start(options: &BTreeMap<String, McpServerOptions>, ports: McpPorts) -> io::Result<Option<Self>> {
        if options.is_empty() {
            return Ok(None);
        }
        let server = |(name, options): (&String, &McpServerOptions)| {
            Arc::new(Server::new(name.clone(), options.clone(), Arc::clone(&ports.clock)))
        };
        let runtime = runtime()?;
        let catalogue = Arc::new(Catalogue {
            servers: options.iter().map(server).collect(),
            version: AtomicU64::new(1),
            tools: Mutex::default(),
            runtime: runtime.handle().clone(),
        });
        let (stop, stopped) = watch::channel(false);
        let (kept, ports) = (Arc::clone(&catalogue), Arc::new(ports));
        let run = move || {
            runtime.block_on(keep_all(&kept, &ports, &stopped));
            runtime.shutdown_timeout(LAST);
        };
        let thread = std::thread::Builder::new().name("mcp".to_owned()).spawn(run)?;
        Ok(Some(Self { catalogue, stop, thread: Mutex::new(Some(thread)) }))
    }

    /// Ends all sessions and their programs; returns when they have ended, which takes some seconds at most.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the MCP servers broke down");
        }
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn keep_all(catalogue: &Arc<Catalogue>, ports: &Arc<McpPorts>, stop: &watch::Receiver<bool>) {
    let mut kept = JoinSet::new();
    for server in &catalogue.servers {
        kept.spawn(keep(Arc::clone(server), Arc::clone(catalogue), Arc::clone(ports), stop.clone()));
    }
    while let Some(ended) = kept.join_next().await {
        if ended.is_err() {
            tracing::error!("the keeper of an MCP server broke down");
        }
    }
}

impl Catalogue {
    /// Puts the lists of all servers together anew.
    pub(super) fn rebuild(&self) {
        let listed: Vec<_> = self.servers.iter().map(|server| (server, server.listed())).collect();
        let pairs: Vec<(&str, &str)> = listed
            .iter()
            .flat_map(|(server, tools)| tools.iter().map(|tool| (server.name.as_str(), tool.raw.as_str())))
            .collect();
        let mut names = names::assign(&pairs).into_iter();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (server, list) in &listed {
            let (before, mut left_out) = (tools.len(), 0_usize);
            for (tool, name) in list.iter().zip(names.by_ref()) {
                let options = &server.options;
                if !McpServerOptions::names(&options.enabled_tools, &tool.raw, &name) {
                    continue;
                }
                if tools.len() - before == SERVER_TOOLS {
                    left_out += 1;
                    continue;
                }
                let described = match tool.description.as_str() {
                    "" => format!("The tool '{}' of the MCP server '{}'.", tool.raw, server.name),
                    text => text.to_owned(),
                };
                let is_idempotent = McpServerOptions::names(&options.idempotent_tools, &tool.raw, &name);
                let spec = ToolSpec {
                    name: Cow::Owned(name),
                    description: Cow::Owned(described),
                    parameters: tool.schema.clone(),
                };
                let meant = names::meant(&server.name, &tool.raw);
                let (server, raw) = (Arc::clone(server), tool.raw.clone());
                tools.push(Arc::new(McpTool {
                    server,
                    raw,
                    meant,
                    spec,
                    is_idempotent,
                    runtime: self.runtime.clone(),
                }));
            }
            if left_out > 0 {
                tracing::warn!(server = server.name, most = SERVER_TOOLS, left_out, "it has too many tools");
            }
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl ToolSource for McpServers {
    fn version(&self) -> u64 {
        self.catalogue.version.load(Ordering::Acquire)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.catalogue.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::keeper::refresh;
    use super::super::server::Listed;
    use super::*;
    use crate::ports::CancelToken;
    use serde_json::json;

    struct Still;

    impl Clock for Still {
        fn now_ms(&self) -> u64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    fn of(names: &[&str], runtime: &Runtime) -> Catalogue {
        let server = |name: &&str| {
            Arc::new(Server::new((*name).to_owned(), McpServerOptions::default(), Arc::new(Still)))
        };
        Catalogue {
            servers: names.iter().map(server).collect(),
            version: AtomicU64::new(1),
            tools: Mutex::default(),
            runtime: runtime.handle().clone(),
        }
    }

    #[test]
    fn p8_a_server_with_too_many_tools_hides_none_of_the_others() {
        let runtime = runtime().expect("a runtime");
        let catalogue = of(&["flood", "other"], &runtime);
        let listed = |count: usize| -> Vec<Listed> {
            let one = |n| Listed {
                raw: format!("t{n}"),
                description: String::new(),
                schema: json!({"type": "object"}),
            };
            (0..count).map(one).collect()
        };
        for (server, count) in catalogue.servers.iter().zip([SERVER_TOOLS + 5, 2]) {
            server.told(listed(count));
        }
        catalogue.rebuild();
        let tools = catalogue.tools.lock().expect("unpoisoned").clone();
        let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.into_owned()).collect();
        assert_eq!(names.len(), SERVER_TOOLS + 2);
        assert_eq!(names[SERVER_TOOLS..], ["mcp_other_t0", "mcp_other_t1"]);
    }

    #[test]
    fn a_list_that_is_told_again_is_no_change() {
        let runtime = runtime().expect("a runtime");
        let catalogue = of(&["one"], &runtime);
        let told = |name: &str| -> Vec<rmcp::model::Tool> {
            let tool = json!({"name": name, "inputSchema": {"type": "object"}});
            vec![serde_json::from_value(tool).expect("a tool")]
        };
        let versions = ["a", "a", "b", "b"].map(|name| {
            refresh(&catalogue.servers[0], &catalogue, told(name));
            catalogue.version.load(Ordering::Acquire)
        });
        assert_eq!(versions, [2, 2, 3, 3]);
    }
}
