//! The configuration as written: every key, nothing checked beyond its type. Owns the names and defaults of the keys
//! that no room owns; refuses judgement (`validate` has it).

use super::options::FileOptions;
use super::options::LogOptions;
use super::options::MetricsOptions;
use crate::audit::AuditOptions;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::limits::Limits;
use crate::llm::options::{ModelOptions, Provider};
use crate::mcp::McpServerOptions;
use crate::store::options::{RetentionOptions, StoreOptions};
use crate::tools::{
    BashOptions, CommandToolOptions, MessageChannels, SubAgentOptions, ToolCacheOptions, WeatherOptions,
    WebSearchOptions,
};
use crate::web::WebOptions;
use crate::webhooks::options::WebhookOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All keys. A component's part is the component's own struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawConfig {
    /// `address:port` or `unix:/path`.
    pub listen: String,
    /// Where everything is kept; found in the environment when absent.
    pub data_dir: Option<PathBuf>,
    /// Where the projects' files lie; below the data directory when absent.
    pub workspace_root: Option<PathBuf>,
    /// Whether there are accounts.
    pub auth_mode: AuthMode,
    /// Who may make one.
    pub registration: Registration,
    /// Host names beyond the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call.
    pub allowed_origins: Vec<String>,
    /// What a job gets that names no model; `demo`, or the first of `models`, when absent.
    pub default_model: Option<String>,
    /// What makes the titles of conversations; their first words when absent.
    pub title_model: Option<String>,
    /// The models on offer.
    pub models: Vec<ModelOptions>,
    /// Jobs running at once.
    pub workers: usize,
    /// Model calls of one job.
    pub max_iterations: u32,
    /// Tool calls of one job running at once.
    pub tool_max_workers: usize,
    /// What is kept of results that may stand for new ones.
    pub tool_cache: ToolCacheOptions,
    /// Patterns of the tools whose calls wait for somebody's approval.
    pub approval: Vec<String>,
    /// The sandbox's own options.
    pub code_execution: nanoclaw_sandbox::SandboxOptions,
    /// What the operator says about commands.
    pub bash: BashOptions,
    /// What tools may do in projects.
    pub files: FileOptions,
    /// What the operator says about sub-agents.
    pub sub_agent: SubAgentOptions,
    /// Where models may send messages.
    pub channels: MessageChannels,
    /// What tools may fetch.
    pub web: WebOptions,
    /// Where the operator's own JavaScript tools lie; there are none when absent.
    pub tools_dir: Option<PathBuf>,
    /// Commands that are tools.
    pub tools: Vec<CommandToolOptions>,
    /// What is kept of the audit log.
    pub audit: AuditOptions,
    /// Who searches the web.
    pub web_search: WebSearchOptions,
    /// Who tells the weather.
    pub weather: WeatherOptions,
    /// Servers whose tools come in, by name.
    pub mcp_servers: BTreeMap<String, McpServerOptions>,
    /// How ends are reported.
    pub webhooks: WebhookOptions,
    /// The bounds of P8.
    pub limits: Limits,
    /// The store's own options.
    pub store: StoreOptions,
    /// What becomes of jobs that have ended.
    pub retention: RetentionOptions,
    /// Who may fetch what was counted.
    pub metrics: MetricsOptions,
    /// What is logged.
    pub log: LogOptions,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8787".to_owned(),
            data_dir: None,
            workspace_root: None,
            auth_mode: AuthMode::default(),
            registration: Registration::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            default_model: None,
            title_model: None,
            models: vec![demo()],
            workers: 16,
            max_iterations: 15,
            tool_max_workers: 4,
            tool_cache: ToolCacheOptions::default(),
            approval: Vec::new(),
            code_execution: nanoclaw_sandbox::SandboxOptions::default(),
            bash: BashOptions::default(),
            files: FileOptions::default(),
            sub_agent: SubAgentOptions::default(),
            channels: MessageChannels::default(),
            web: WebOptions::default(),
            tools_dir: None,
            tools: Vec::new(),
            audit: AuditOptions::default(),
            web_search: WebSearchOptions::default(),
            weather: WeatherOptions::default(),
            mcp_servers: BTreeMap::new(),
            webhooks: WebhookOptions::default(),
            limits: Limits::default(),
            store: StoreOptions::default(),
            retention: RetentionOptions::default(),
            metrics: MetricsOptions::default(),
            log: LogOptions::default(),
        }
    }
}

/// The id of the scripted model.
pub(crate) const DEMO: &str = "demo";

/// What a fresh install talks to.
fn demo() -> ModelOptions {
    ModelOptions {
        id: DEMO.to_owned(),
        name: Some("Demo (scripted, no network)".to_owned()),
        provider: Some(Provider::Demo),
        ..ModelOptions::default()
    }
}
