//! All keys of the configuration with types and defaults. The module that reads a section owns its keys.

use super::options::{FileOptions, LogOptions, McpEndpointOptions, MemoryOptions, MetricsOptions};
use crate::audit::AuditOptions;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::limits::Limits;
use crate::engine::PreambleOptions;
use crate::llm::options::{ModelOptions, Provider};
use crate::mcp::McpServerOptions;
use crate::store::options::{RetentionOptions, StoreOptions};
use crate::telemetry::options::OtlpOptions;
use crate::tools::{
    BashOptions, MessageChannels, SkillOptions, SubAgentOptions, ToolCacheOptions, ToolsSectionOptions,
    WeatherOptions, WebSearchOptions,
};
use crate::web::WebOptions;
use crate::webhooks::options::WebhookOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The merged layers, before validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigKeys {
    /// `address:port` or `unix:/path`.
    pub(super) listen: String,
    /// Where the store is; found in the environment by default.
    pub(super) data_dir: Option<PathBuf>,
    /// Files of projects; inside the data directory by default.
    pub(super) workspace_root: Option<PathBuf>,
    /// Whether there are accounts.
    pub auth_mode: AuthMode,
    /// Who may create an account; holders of an invite by default.
    pub registration: Option<Registration>,
    /// Host names beyond the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call the API.
    pub allowed_origins: Vec<String>,
    /// Whether the web console is served.
    pub console: bool,
    /// Model of a job that names none; `demo` or the first of `models` by default.
    pub(super) default_model: Option<String>,
    /// Model that writes the titles of conversations; their first words by default.
    pub title_model: Option<String>,
    /// The configured models.
    pub models: Vec<ModelOptions>,
    /// Jobs that run at once.
    pub workers: usize,
    /// The text before a job's own instructions.
    pub preamble: PreambleOptions,
    /// Model calls of one job.
    pub max_iterations: u32,
    /// Tool calls of one job that run at once.
    pub tool_max_workers: usize,
    /// Cache of tool results.
    pub tool_cache: ToolCacheOptions,
    /// Patterns of tools whose calls wait for approval.
    pub approval: Vec<String>,
    /// The sandbox.
    pub code_execution: nanoclaw_sandbox::SandboxOptions,
    /// Rules for shell commands.
    pub bash: BashOptions,
    /// Size of the audit log.
    pub audit: AuditOptions,
    /// Sub-agents.
    pub sub_agent: SubAgentOptions,
    /// Where models may send messages.
    pub channels: MessageChannels,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServerOptions>,
    /// The MCP server of this program.
    pub mcp_server: McpEndpointOptions,
    /// Webhooks.
    pub webhooks: WebhookOptions,
    /// The operator's JavaScript tools; none by default. Relative to the configuration file.
    pub tools_dir: Option<PathBuf>,
    /// The default sets of tools, and commands that are tools.
    pub tools: ToolsSectionOptions,
    /// Skills.
    pub skills: SkillOptions,
    /// Memories.
    pub memory: MemoryOptions,
    /// Files of projects.
    pub files: FileOptions,
    /// What tools may fetch.
    pub web: WebOptions,
    /// The web search provider.
    pub web_search: WebSearchOptions,
    /// The weather provider.
    pub weather: WeatherOptions,
    /// All limits (P8).
    pub limits: Limits,
    /// The store.
    pub store: StoreOptions,
    /// How long ended jobs are kept.
    pub retention: RetentionOptions,
    /// Access to `/metrics`.
    pub metrics: MetricsOptions,
    /// The export of spans.
    pub otlp: OtlpOptions,
    /// The log.
    pub log: LogOptions,
}

/// What the entries of a key with tools may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolEntries {
    /// Names of tools, and patterns with wildcards.
    Patterns,
    /// Names of tools and of groups.
    NamesAndGroups,
    /// Names of tools of the MCP server that has the key; they are known once it has listed its tools.
    OfServer,
}

/// The lists of a key with tools, each by the name of its model or server, if it has one.
type ToolLists<'k> = Vec<(&'k str, &'k [String])>;

/// A key whose entries are tools.
pub(super) struct ToolKey {
    /// As in `config show`; `*` stands for the name of a model or server.
    pub(super) key: &'static str,
    pub(super) entries: ToolEntries,
    pub(super) lists: fn(&ConfigKeys) -> ToolLists<'_>,
}

/// All keys whose entries are tools. A test finds each list that speaks of tools in this table.
pub(super) const TOOL_KEYS: [ToolKey; 6] = [
    ToolKey {
        key: "approval",
        entries: ToolEntries::Patterns,
        lists: |keys| vec![("", keys.approval.as_slice())],
    },
    ToolKey {
        key: "tools.default",
        entries: ToolEntries::NamesAndGroups,
        lists: |keys| keys.tools.default.iter().map(|names| ("", names.as_slice())).collect(),
    },
    ToolKey {
        key: "tools.per_model.*",
        entries: ToolEntries::NamesAndGroups,
        lists: |keys| {
            let models = keys.tools.per_model.iter();
            models.map(|(model, names)| (model.as_str(), names.as_slice())).collect()
        },
    },
    ToolKey {
        key: "mcp_servers.*.enabled_tools",
        entries: ToolEntries::OfServer,
        lists: |keys| of_servers(keys, |server| &server.enabled_tools),
    },
    ToolKey {
        key: "mcp_servers.*.disabled_tools",
        entries: ToolEntries::OfServer,
        lists: |keys| of_servers(keys, |server| &server.disabled_tools),
    },
    ToolKey {
        key: "mcp_servers.*.idempotent_tools",
        entries: ToolEntries::OfServer,
        lists: |keys| of_servers(keys, |server| &server.idempotent_tools),
    },
];

fn of_servers(keys: &ConfigKeys, list: fn(&McpServerOptions) -> &Vec<String>) -> ToolLists<'_> {
    let servers = keys.mcp_servers.iter();
    servers.map(|(server, options)| (server.as_str(), list(options).as_slice())).collect()
}

impl Default for ConfigKeys {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8787".to_owned(),
            data_dir: None,
            workspace_root: None,
            auth_mode: AuthMode::default(),
            registration: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            console: true,
            default_model: None,
            title_model: None,
            models: vec![demo()],
            workers: 16,
            preamble: PreambleOptions::default(),
            max_iterations: 15,
            tool_max_workers: 4,
            tool_cache: ToolCacheOptions::default(),
            approval: Vec::new(),
            code_execution: nanoclaw_sandbox::SandboxOptions::default(),
            bash: BashOptions::default(),
            audit: AuditOptions::default(),
            sub_agent: SubAgentOptions::default(),
            channels: MessageChannels::default(),
            mcp_servers: BTreeMap::new(),
            mcp_server: McpEndpointOptions::default(),
            webhooks: WebhookOptions::default(),
            tools_dir: None,
            tools: ToolsSectionOptions::default(),
            skills: SkillOptions::default(),
            memory: MemoryOptions::default(),
            files: FileOptions::default(),
            web: WebOptions::default(),
            web_search: WebSearchOptions::default(),
            weather: WeatherOptions::default(),
            limits: Limits::default(),
            store: StoreOptions::default(),
            retention: RetentionOptions::default(),
            metrics: MetricsOptions::default(),
            otlp: OtlpOptions::default(),
            log: LogOptions::default(),
        }
    }
}

/// Id of the scripted model.
pub(crate) const DEMO: &str = "demo";

/// The model of a new installation.
fn demo() -> ModelOptions {
    ModelOptions {
        id: DEMO.to_owned(),
        name: Some("Demo (scripted, no network)".to_owned()),
        provider: Some(Provider::Demo),
        ..ModelOptions::default()
    }
}
