//! The merged tools of all servers.

use super::options::McpServerOptions;
use super::server::{ListedTool, Server};
use super::tool::McpTool;
use super::tool_names;
use crate::domain::tool::ToolSpec;
use crate::ports::{Tool, WorkspaceFiles};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::runtime::Handle;

/// Maximum number of tools of one server, so that it cannot displace the tools of others.
const SERVER_TOOLS: usize = 128;

pub(super) struct Catalogue {
    pub(super) servers: Vec<Arc<Server>>,
    version: AtomicU64,
    tools: Mutex<Vec<Arc<dyn Tool>>>,
    runtime: Handle,
    files: Option<Arc<dyn WorkspaceFiles>>,
    /// Called after each change; must not block.
    pub(super) announce: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Catalogue {
    pub(super) fn new(
        servers: Vec<Arc<Server>>,
        runtime: Handle,
        files: Option<Arc<dyn WorkspaceFiles>>,
    ) -> Self {
        Self {
            servers,
            version: AtomicU64::new(1),
            tools: Mutex::default(),
            runtime,
            files,
            announce: OnceLock::new(),
        }
    }

    /// Rises with every change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Merges the lists of all servers again, after this one has listed its tools.
    pub(super) fn rebuild(&self, changed: &Server) {
        let listed: Vec<(&Arc<Server>, ListedTool)> = self
            .servers
            .iter()
            .flat_map(|server| server.tools().into_iter().map(move |tool| (server, tool)))
            .collect();
        let pairs: Vec<(&str, &str)> =
            listed.iter().map(|(server, tool)| (server.name.as_str(), tool.raw_name.as_str())).collect();
        let mut named = listed.iter().zip(tool_names::assign(&pairs)).peekable();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in &self.servers {
            let (first, mut left_out) = (tools.len(), 0_usize);
            while let Some(((_, tool), name)) = named.next_if(|((owner, _), _)| Arc::ptr_eq(owner, server)) {
                if !server.options.is_enabled(&tool.raw_name, &name) {
                    continue;
                }
                if tools.len() - first == SERVER_TOOLS {
                    left_out += 1;
                    continue;
                }
                tools.push(Arc::new(self.tool(server, tool, name)));
            }
            server.offered_tools.store(tools.len() - first, Ordering::Relaxed);
            if left_out > 0 {
                tracing::warn!(
                    server = server.name,
                    max = SERVER_TOOLS,
                    left_out,
                    "MCP server has too many tools"
                );
            }
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
        changed.is_listed.store(true, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
        if let Some(announce) = self.announce.get() {
            announce();
        }
    }

    fn tool(&self, server: &Arc<Server>, tool: &ListedTool, name: String) -> McpTool {
        let raw_name = tool.raw_name.clone();
        let description = match tool.description.as_str() {
            "" => format!("The tool '{raw_name}' of the MCP server '{}'.", server.name),
            text => text.to_owned(),
        };
        McpTool {
            is_idempotent: McpServerOptions::contains(&server.options.idempotent_tools, &raw_name, &name),
            approval_names: tool_names::unshortened(&server.name, &raw_name),
            spec: ToolSpec {
                name: name.into(),
                description: description.into(),
                parameters: tool.schema.clone(),
            },
            server: Arc::clone(server),
            raw_name,
            runtime: self.runtime.clone(),
            reads_resources: tool.reads_resources,
            files: self.files.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::supervisor::refresh;
    use super::*;
    use crate::ports::{CancelToken, Clock, NoopMeter};
    use serde_json::json;
    use std::time::Duration;
    use tokio::runtime::Runtime;

    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now_ms(&self) -> u64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    fn catalogue(names: &[&str]) -> (Catalogue, Runtime) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let server = |name: &&str| {
            Arc::new(Server::new(
                (*name).to_owned(),
                McpServerOptions::default(),
                Arc::new(StoppedClock),
                Arc::new(NoopMeter),
            ))
        };
        (Catalogue::new(names.iter().map(server).collect(), runtime.handle().clone(), None), runtime)
    }

    #[test]
    fn p8_a_server_with_too_many_tools_does_not_hide_tools_of_others() {
        let (catalogue, _runtime) = catalogue(&["flood", "other"]);
        let tool = |n| ListedTool {
            raw_name: format!("t{n}"),
            description: String::new(),
            schema: json!({"type": "object"}),
            is_read_only: false,
            reads_resources: false,
        };
        for (server, count) in catalogue.servers.iter().zip([SERVER_TOOLS + 5, 2]) {
            server.set_tools((0..count).map(tool).collect());
        }
        for server in &catalogue.servers {
            catalogue.rebuild(server);
        }
        let names: Vec<String> = catalogue.tools().iter().map(|tool| tool.spec().name.into_owned()).collect();
        assert_eq!(names.len(), SERVER_TOOLS + 2);
        assert_eq!(names[SERVER_TOOLS..], ["mcp_other_t0", "mcp_other_t1"]);
    }

    #[test]
    fn listing_the_same_tools_again_is_no_change() {
        let (catalogue, _runtime) = catalogue(&["one"]);
        let list = |name: &str| -> Vec<rmcp::model::Tool> {
            let tool = json!({"name": name, "inputSchema": {"type": "object"}});
            vec![serde_json::from_value(tool).expect("a tool")]
        };
        let versions = ["a", "a", "b", "b"].map(|name| {
            refresh(&catalogue.servers[0], &catalogue, list(name), false);
            catalogue.version()
        });
        assert_eq!(versions, [2, 2, 3, 3]);
    }
}
