//! Validates the configuration: all rules that a type cannot express. Reports all problems at once.

use super::directories::default_data_dir;
use super::error::{ConfigError, ConfigProblem};
use super::expand::Variables;
use super::listen::Listen;
use super::options::FileOptions;
use super::options::LogOptions;
use super::options::MetricsOptions;
use super::raw::{DEMO, RawConfig};
use crate::audit::AuditOptions;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::address::AddressPolicy;
use crate::domain::limits::Limits;
use crate::llm::options::{ModelOptions, Provider};
use crate::mcp::McpServerOptions;
use crate::store::options::{RetentionOptions, StoreOptions};
use crate::tools::{
    ApprovalRules, BashOptions, CommandToolOptions, MessageChannels, SubAgentOptions, ToolCacheOptions,
    WeatherOptions, WebSearchOptions,
};
use crate::web::WebOptions;
use crate::webhooks::Signer;
use crate::webhooks::options::WebhookOptions;
use nanoclaw_sandbox::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A configuration that holds. Only [`Config::load`] makes one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Where the server listens.
    pub listen: Listen,
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where the projects' files lie.
    pub workspace_root: PathBuf,
    /// Whether there are accounts.
    pub auth_mode: AuthMode,
    /// Who may make one.
    pub registration: Registration,
    /// Host names beyond the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call.
    pub allowed_origins: Vec<String>,
    /// One of `models`.
    pub default_model: String,
    /// One of `models`; none when titles are first words.
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
    /// The sandbox's part.
    pub code_execution: nanoclaw_sandbox::SandboxOptions,
    /// What the operator says about commands.
    pub bash: BashOptions,
    /// What is kept of the audit log.
    pub audit: AuditOptions,
    /// What the operator says about sub-agents.
    pub sub_agent: SubAgentOptions,
    /// Where models may send messages.
    pub channels: MessageChannels,
    /// Servers whose tools come in, by name.
    pub mcp_servers: BTreeMap<String, McpServerOptions>,
    /// How ends are reported.
    pub webhooks: WebhookOptions,
    /// Where the operator's own JavaScript tools lie.
    pub tools_dir: Option<PathBuf>,
    /// Commands that are tools.
    pub tools: Vec<CommandToolOptions>,
    /// What tools may do in projects.
    pub files: FileOptions,
    /// What tools may fetch.
    pub web: WebOptions,
    /// Who searches the web.
    pub web_search: WebSearchOptions,
    /// Who tells the weather.
    pub weather: WeatherOptions,
    /// The bounds of P8.
    pub limits: Limits,
    /// The store's part.
    pub store: StoreOptions,
    /// What becomes of jobs that have ended.
    pub retention: RetentionOptions,
    /// Who may fetch what was counted.
    pub metrics: MetricsOptions,
    /// The log's part.
    pub log: LogOptions,
    /// The file that was read, if any.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Config {
    /// Every key as it holds, secrets masked: `config show`.
    pub fn to_yaml(&self) -> String {
        serde_norway::to_string(self).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
    }

    pub(crate) fn check(
        mut raw: RawConfig,
        file: Option<PathBuf>,
        env: &Variables,
    ) -> Result<Self, ConfigError> {
        let mut problems = ConfigProblems(Vec::new());
        let listen = problems.listen(&raw.listen, raw.auth_mode);
        let data_dir = problems.data_dir(raw.data_dir.as_deref(), env);
        problems.hosts(&raw.allowed_hosts);
        problems.origins(&raw.allowed_origins);
        problems.models(&raw.models);
        problems.key_files(&mut raw.models, env);
        let default_model = problems.default_model(raw.default_model.as_deref(), &raw.models);
        problems.title_model(raw.title_model.as_deref(), &raw.models);
        problems.approval(&raw.approval);
        problems.commands(&raw.bash);
        problems.channels(&raw.channels);
        problems.sandbox(&raw.code_execution);
        problems.command_tools(&raw.tools);
        problems.webhooks(&raw.webhooks);
        problems.web(&raw);
        problems.mcp_servers(&raw.mcp_servers, raw.auth_mode);
        problems.numbers(&raw);
        match (listen, data_dir, default_model) {
            (Some(listen), Some(data_dir), Some(default_model)) if problems.0.is_empty() => Ok(Self {
                listen,
                workspace_root: raw.workspace_root.unwrap_or_else(|| data_dir.join("workspaces")),
                data_dir,
                auth_mode: raw.auth_mode,
                registration: raw.registration,
                allowed_hosts: raw.allowed_hosts,
                allowed_origins: raw.allowed_origins,
                default_model,
                title_model: raw.title_model,
                models: raw.models,
                workers: raw.workers,
                max_iterations: raw.max_iterations,
                tool_max_workers: raw.tool_max_workers,
                tool_cache: raw.tool_cache,
                approval: raw.approval,
                code_execution: raw.code_execution,
                bash: raw.bash,
                audit: raw.audit,
                sub_agent: raw.sub_agent,
                channels: raw.channels,
                mcp_servers: raw.mcp_servers,
                webhooks: raw.webhooks,
                tools_dir: raw.tools_dir.map(|dir| relative_to(file.as_deref(), dir)),
                tools: raw.tools,
                files: raw.files,
                web: raw.web,
                web_search: raw.web_search,
                weather: raw.weather,
                limits: raw.limits,
                store: raw.store,
                retention: raw.retention,
                metrics: raw.metrics,
                log: raw.log,
                file,
            }),
            _ => Err(ConfigError::Invalid(problems.0)),
        }
    }
}

/// Resolves a relative path against the directory of the file.
fn relative_to(file: Option<&Path>, path: PathBuf) -> PathBuf {
    match file.and_then(Path::parent) {
        Some(parent) if path.is_relative() => parent.join(path),
        _ => path,
    }
}

const UNSHARED: &str = "must be true with auth_mode: multi: all accounts use one process with one state, and one could read \
                        what another has left there; say shared: true if that is meant";

/// The problems found so far.
pub(crate) struct ConfigProblems(pub(crate) Vec<ConfigProblem>);

impl ConfigProblems {
    pub(crate) fn add(&mut self, key: impl Into<String>, value: impl Display, allowed: impl Into<String>) {
        self.0.push(ConfigProblem { key: key.into(), value: value.to_string(), allowed: allowed.into() });
    }

    fn listen(&mut self, text: &str, mode: AuthMode) -> Option<Listen> {
        Listen::parse(text, mode).map_err(|allowed| self.add("listen", text, allowed)).ok()
    }

    fn data_dir(&mut self, given: Option<&Path>, env: &Variables) -> Option<PathBuf> {
        let home = env.get("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(given) = given {
            if given.as_os_str().is_empty() {
                self.add("data_dir", "", "must be a directory; leave the key out for the default");
                return None;
            }
            let below_home = given.strip_prefix("~").ok().and_then(|rest| Some(home?.join(rest)));
            return Some(below_home.unwrap_or_else(|| given.to_owned()));
        }
        let found = default_data_dir(env);
        if found.is_none() {
            self.add("data_dir", "", "there is no $HOME to put it in; name a directory");
        }
        found
    }

    fn hosts(&mut self, hosts: &[String]) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
        for (at, host) in hosts.iter().enumerate() {
            if host.is_empty() || !host.bytes().all(plain) {
                self.add(format!("allowed_hosts[{at}]"), host, "must be a host name, with or without a port");
            }
        }
    }

    fn origins(&mut self, origins: &[String]) {
        for (at, origin) in origins.iter().enumerate() {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let good =
                rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '*', '?', '#', '@', ' ']));
            if !good {
                let allowed = "must be scheme://host[:port] without a path, as a browser sends it";
                self.add(format!("allowed_origins[{at}]"), origin, allowed);
            }
        }
    }

    fn models(&mut self, models: &[ModelOptions]) {
        if models.is_empty() {
            self.add("models", "[]", "needs at least one model; leave the key out for the demo model");
        }
        for (at, model) in models.iter().enumerate() {
            let key = format!("models[{at}]");
            let id = model.id.as_str();
            if id.is_empty() || id.len() > 128 || id.chars().any(|c| c.is_whitespace() || c.is_control()) {
                self.add(format!("{key}.id"), id, "must be 1 to 128 characters without spaces");
            }
            if models.iter().take(at).any(|earlier| earlier.id == id) {
                self.add(format!("{key}.id"), id, "is the id of an earlier model; ids are unique");
            }
            self.upstream(&key, model);
            for (name, number) in
                [("context_window", model.context_window), ("max_output_tokens", model.max_output_tokens)]
            {
                if number == Some(0) {
                    self.add(format!("{key}.{name}"), 0, "must be at least 1");
                }
            }
        }
    }

    fn upstream(&mut self, key: &str, model: &ModelOptions) {
        let demo = model.provider == Some(Provider::Demo) || (model.provider.is_none() && model.id == DEMO);
        match model.api_url.as_deref() {
            None if !demo => {
                self.add(format!("{key}.api_url"), "", "is needed: the provider's base or endpoint URL");
            }
            Some(url) if !(url.starts_with("https://") || url.starts_with("http://")) => {
                let shown = url.split_once('?').map_or(url, |(address, _)| address);
                self.add(format!("{key}.api_url"), shown, "must start with https:// or http://");
            }
            _ => {}
        }
    }

    fn approval(&mut self, patterns: &[String]) {
        if let Err((at, bad)) = ApprovalRules::new(patterns) {
            let text = patterns.get(at).map_or("", String::as_str);
            self.add(format!("approval[{at}]"), text, bad.to_string());
        }
    }

    fn commands(&mut self, bash: &BashOptions) {
        for fault in bash.faults() {
            self.add(format!("bash.{}", fault.key), fault.value, fault.allowed);
        }
    }

    fn command_tools(&mut self, tools: &[CommandToolOptions]) {
        for (at, tool) in tools.iter().enumerate() {
            for fault in tool.faults() {
                self.add(format!("tools[{at}].{}", fault.key), &tool.name, fault.allowed);
            }
            if tools.iter().take(at).any(|earlier| earlier.name == tool.name) {
                self.add(
                    format!("tools[{at}].name"),
                    &tool.name,
                    "is the name of an earlier tool; names are unique",
                );
            }
        }
    }

    fn channels(&mut self, channels: &MessageChannels) {
        for fault in channels.faults() {
            self.add(format!("channels.{}", fault.key), fault.value, fault.allowed);
        }
    }

    fn sandbox(&mut self, options: &nanoclaw_sandbox::SandboxOptions) {
        let allowed = options.levels_allowed();
        let names = |levels: &[Level]| levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ");
        let most = options.max_strictness_allowed.filter(|level| !Level::FOR_CODE.contains(level));
        if let Some(most) = most {
            let every = format!("must be one of {}", names(&Level::FOR_CODE));
            self.add("code_execution.max_strictness_allowed", most, every);
        }
        let default = options.default_strictness;
        if !allowed.contains(&default) {
            let because = match options.max_strictness_allowed {
                Some(most) => format!(" (code_execution.max_strictness_allowed = {most})"),
                None => String::new(),
            };
            let one_of = format!("must be one of {}{because}", names(&allowed));
            self.add("code_execution.default_strictness", default, one_of);
        }
        for (level, at, name) in options.extra_allowed_modules.bad_names() {
            let key = format!("code_execution.extra_allowed_modules.{level}[{at}]");
            self.add(key, name, "must be the name of a Python module, as in numpy or xml.dom");
        }
    }

    fn addresses(&mut self, key: &str, list: &[String]) {
        if let Err((at, bad)) = AddressPolicy::new(list) {
            let text = list.get(at).map_or("", String::as_str);
            self.add(format!("{key}.allow_private_addresses[{at}]"), text, bad.to_string());
        }
    }

    fn web(&mut self, raw: &RawConfig) {
        self.addresses("web", &raw.web.allow_private_addresses);
        let faults = raw.web_search.faults().into_iter().chain(raw.weather.faults());
        faults.for_each(|fault| self.add(fault.key, fault.value, fault.allowed));
    }

    fn webhooks(&mut self, options: &WebhookOptions) {
        self.addresses("webhooks", &options.allow_private_addresses);
        if let Err((at, bad)) = Signer::new(&options.secrets) {
            self.add(format!("webhooks.secrets[{at}]"), "***", bad.to_string());
        }
    }

    fn mcp_servers(&mut self, servers: &BTreeMap<String, McpServerOptions>, mode: AuthMode) {
        for (name, server) in servers {
            let is_shared = server.shared == Some(true);
            if mode == AuthMode::Multi && !is_shared {
                self.add(format!("mcp_servers.{name}.shared"), is_shared, UNSHARED);
            }
            for fault in server.faults(name) {
                let dot = if fault.key.is_empty() { "" } else { "." };
                self.add(format!("mcp_servers.{name}{dot}{}", fault.key), fault.value, fault.allowed);
            }
        }
    }

    fn default_model(&mut self, given: Option<&str>, models: &[ModelOptions]) -> Option<String> {
        let has = |id: &str| models.iter().any(|model| model.id == id);
        match given {
            Some(id) if has(id) => Some(id.to_owned()),
            Some(id) => {
                self.no_model("default_model", id, models);
                None
            }
            None if has(DEMO) => Some(DEMO.to_owned()),
            None => models.first().map(|model| model.id.clone()),
        }
    }

    fn title_model(&mut self, given: Option<&str>, models: &[ModelOptions]) {
        if let Some(id) = given.filter(|id| !models.iter().any(|model| model.id == *id)) {
            self.no_model("title_model", id, models);
        }
    }

    fn no_model(&mut self, key: &str, id: &str, models: &[ModelOptions]) {
        let ids = models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
        self.add(key, id, format!("must be the id of one of models: {ids}"));
    }
}
