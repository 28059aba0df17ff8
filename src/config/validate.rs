//! Validates the configuration: all rules that a type cannot express. Reports all problems at once.

use super::directories::default_data_dir;
use super::error::{ConfigError, ConfigProblem};
use super::expand::Variables;
use super::keys::{ConfigKeys, DEMO, TOOL_KEYS};
use super::layers::{FileNotes, MergedKeys};
use super::listen::Listen;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::address::AddressPolicy;
use crate::domain::fair_share::FairShare;
use crate::llm::options::ModelOptions;
use crate::mcp::McpServerOptions;
use crate::telemetry::options::OtlpOptions;
use crate::tools::{ApprovalRules, BashOptions, MessageChannels, ToolsSectionOptions};
use crate::webhooks::Signer;
use crate::webhooks::options::WebhookOptions;
use nanoclaw_sandbox::Level;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A validated configuration. `Deref` gives its keys; those with a computed default are fields of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// All keys, with the computed values in place: what `config show` prints.
    pub(super) keys: ConfigKeys,
    /// Where the server listens.
    pub listen: Listen,
    /// Where the store is.
    pub data_dir: PathBuf,
    /// Files of projects.
    pub workspace_root: PathBuf,
    /// Model of a job that names none: one of `models`.
    pub default_model: String,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// What became of keys of the original `NanoClaw` in the file, a line for each.
    pub original_keys: Vec<String>,
    /// What has no effect here, or opens the server to strangers, for the operator.
    pub warnings: Vec<String>,
}

impl Deref for Config {
    type Target = ConfigKeys;

    fn deref(&self) -> &ConfigKeys {
        &self.keys
    }
}

impl Config {
    /// Sets [`crate::store::options::StoreOptions::new_store`], which no key sets.
    #[must_use]
    pub fn with_new_store(mut self, new_store: bool) -> Self {
        self.keys.store.new_store = new_store;
        self
    }

    /// Listens elsewhere, for a server that only its own process uses.
    #[must_use]
    pub fn with_listen(mut self, listen: Listen) -> Self {
        self.keys.listen = listen.to_string();
        self.listen = listen;
        self
    }

    /// The same configuration with a store and files of its own in this directory.
    #[must_use]
    pub fn kept_in(mut self, dir: &Path) -> Self {
        (self.keys.store.url, self.keys.store.shared_dir) = (None, None);
        dir.clone_into(&mut self.data_dir);
        self.workspace_root = dir.join("workspaces");
        self
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.keys.serialize(serializer)
    }
}

impl Config {
    /// Every key with its value as YAML, secrets masked.
    pub fn to_yaml(&self) -> String {
        serde_norway::to_string(self).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
    }

    /// The directory of files that belong to the store's users: the one that nodes share, else the data
    /// directory.
    pub fn files_dir(&self) -> &Path {
        self.store.shared_dir.as_deref().unwrap_or(&self.data_dir)
    }

    /// How users share the workers; `None` with one user.
    pub fn worker_share(&self) -> Option<FairShare> {
        self.share(self.workers)
    }

    /// How users share the slots of the sandbox; `None` with one user.
    pub fn slot_share(&self) -> Option<FairShare> {
        self.share(self.code_execution.max_parallel)
    }

    fn share(&self, places: usize) -> Option<FairShare> {
        (self.auth_mode == AuthMode::Multi).then_some(FairShare::of(places))
    }

    /// Whether a key names tools.
    pub fn names_tools(&self) -> bool {
        TOOL_KEYS.iter().any(|key| (key.lists)(&self.keys).iter().any(|(_, names)| !names.is_empty()))
    }

    /// One message about the keys of the original `NanoClaw`; `None` without any.
    pub fn original_keys_note(&self) -> Option<String> {
        let lines = self.original_keys.join("; ");
        (!lines.is_empty()).then(|| format!("keys of the original NanoClaw: {lines}"))
    }

    pub(crate) fn check(
        merged: MergedKeys,
        file: Option<PathBuf>,
        env: &Variables,
    ) -> Result<Self, ConfigError> {
        let MergedKeys { mut keys, notes } = merged;
        let mut problems = ConfigProblems(Vec::new());
        let listen = problems.listen(&keys.listen, keys.auth_mode);
        let data_dir = problems.data_dir(keys.data_dir.as_deref(), env);
        problems.hosts(&keys.allowed_hosts);
        problems.origins(&keys.allowed_origins);
        problems.models(&keys.models);
        problems.key_files(&mut keys.models, env);
        let default_model = problems.default_model(keys.default_model.as_deref(), &keys.models);
        problems.title_model(keys.title_model.as_deref(), &keys.models);
        problems.preamble(&keys);
        problems.approval(&keys.approval);
        problems.commands(&keys.bash);
        problems.channels(&keys.channels);
        problems.sandbox(&keys.code_execution);
        problems.shell_network(&keys, listen.as_ref());
        problems.command_tools(&keys.tools);
        problems.models_with_tools(&keys);
        problems.tool_names(&keys);
        problems.webhooks(&keys.webhooks);
        problems.otlp(&keys.otlp);
        problems.web(&keys);
        problems.mcp_servers(&keys.mcp_servers, keys.auth_mode);
        problems.numbers(&keys);
        problems.shared_dir(&keys);
        keys.skills.dir = keys.skills.dir.take().map(|dir| absolute(relative_to(file.as_deref(), dir)));
        problems.private_paths(&keys, data_dir.as_deref(), file.as_deref());
        match (listen, data_dir, default_model) {
            (Some(listen), Some(data_dir), Some(default_model)) if problems.0.is_empty() => {
                let files_dir = keys.store.shared_dir.as_ref().unwrap_or(&data_dir);
                let workspace_root =
                    keys.workspace_root.take().unwrap_or_else(|| files_dir.join("workspaces"));
                keys.listen = listen.to_string();
                keys.data_dir = Some(data_dir.clone());
                keys.workspace_root = Some(workspace_root.clone());
                keys.default_model = Some(default_model.clone());
                keys.tools_dir = keys.tools_dir.take().map(|dir| relative_to(file.as_deref(), dir));
                let FileNotes { original_keys, mut warnings } = notes;
                if keys.auth_mode == AuthMode::Multi && keys.registration == Some(Registration::Open) {
                    warnings.push(OPEN_REGISTRATION.to_owned());
                }
                Ok(Self {
                    keys,
                    listen,
                    data_dir,
                    workspace_root,
                    default_model,
                    file,
                    original_keys,
                    warnings,
                })
            }
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

/// Programs of jobs, which start in other directories, get the path as well.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

const UNSHARED: &str = "must be true with auth_mode: multi: all accounts use one process with one state, and one could read \
                        what another has left there; say shared: true if that is meant";

const OPEN_REGISTRATION: &str = "registration: open lets everybody who reaches this server make an account and run \
                                 jobs on it; invite asks them for an administrator's invite";

/// The problems found so far.
pub(crate) struct ConfigProblems(pub(crate) Vec<ConfigProblem>);

impl ConfigProblems {
    pub(crate) fn add(&mut self, key: impl Into<String>, value: impl Display, allowed: impl Into<String>) {
        self.0.push(ConfigProblem { key: key.into(), value: value.to_string(), allowed: allowed.into() });
    }

    fn listen(&mut self, text: &str, mode: AuthMode) -> Option<Listen> {
        Listen::parse(text, mode).map_err(|allowed| self.add("listen", text, allowed)).ok()
    }

    fn data_dir(&mut self, configured: Option<&Path>, env: &Variables) -> Option<PathBuf> {
        let home = env.get("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(configured) = configured {
            if configured.as_os_str().is_empty() {
                self.add("data_dir", "", "must be a directory; leave the key out for the default");
                return None;
            }
            let below_home = configured.strip_prefix("~").ok().and_then(|rest| Some(home?.join(rest)));
            return Some(below_home.unwrap_or_else(|| configured.to_owned()));
        }
        let default = default_data_dir(env);
        if default.is_none() {
            self.add("data_dir", "", "there is no $HOME to put it in; name a directory");
        }
        default
    }

    fn hosts(&mut self, hosts: &[String]) {
        let is_allowed =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
        for (index, host) in hosts.iter().enumerate() {
            if host.is_empty() || !host.bytes().all(is_allowed) {
                self.add(
                    format!("allowed_hosts[{index}]"),
                    host,
                    "must be a host name, with or without a port",
                );
            }
        }
    }

    fn origins(&mut self, origins: &[String]) {
        for (index, origin) in origins.iter().enumerate() {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let is_origin =
                rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '*', '?', '#', '@', ' ']));
            if !is_origin {
                let allowed = "must be scheme://host[:port] without a path, as a browser sends it";
                self.add(format!("allowed_origins[{index}]"), origin, allowed);
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
        let demo = model.is_demo();
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

    fn preamble(&mut self, keys: &ConfigKeys) {
        for (key, value, allowed) in keys.preamble.faults() {
            self.add(format!("preamble.{key}"), value, allowed);
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

    fn command_tools(&mut self, section: &ToolsSectionOptions) {
        let (tools, list) = (&section.commands, if section.is_list { "tools" } else { "tools.commands" });
        for (at, tool) in tools.iter().enumerate() {
            for fault in tool.faults() {
                self.add(format!("{list}[{at}].{}", fault.key), &tool.name, fault.allowed);
            }
            if tools.iter().take(at).any(|earlier| earlier.name == tool.name) {
                self.add(
                    format!("{list}[{at}].name"),
                    &tool.name,
                    "is the name of an earlier tool; names are unique",
                );
            }
        }
    }

    fn models_with_tools(&mut self, keys: &ConfigKeys) {
        for model in keys.tools.per_model.keys() {
            if !keys.models.iter().any(|known| known.id == *model) {
                self.no_model(&format!("tools.per_model.{model}"), model, &keys.models);
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
        let max_level = options.max_strictness_allowed.filter(|level| !Level::FOR_CODE.contains(level));
        if let Some(max_level) = max_level {
            let every = format!("must be one of {}", names(&Level::FOR_CODE));
            self.add("code_execution.max_strictness_allowed", max_level, every);
        }
        let default = options.default_strictness;
        if !allowed.contains(&default) {
            let reason = match options.max_strictness_allowed {
                Some(max_level) => format!(" (code_execution.max_strictness_allowed = {max_level})"),
                None => String::new(),
            };
            let one_of = format!("must be one of {}{reason}", names(&allowed));
            self.add("code_execution.default_strictness", default, one_of);
        }
        for (level, at, name) in options.extra_allowed_modules.bad_names() {
            let key = format!("code_execution.extra_allowed_modules.{level}[{at}]");
            self.add(key, name, "must be the name of a Python module, as in numpy or xml.dom");
        }
    }

    /// Without accounts every client may approve calls, and a command with the network is a client, because
    /// it reaches the server's loopback address.
    fn shell_network(&mut self, keys: &ConfigKeys, listen: Option<&Listen>) {
        if keys.code_execution.shell_network
            && keys.auth_mode == AuthMode::Single
            && matches!(listen, Some(Listen::Tcp(_)))
        {
            let allowed = "with auth_mode: single a command could call this server and approve its own tool calls; \
                           set auth_mode: multi, or listen on unix:/path";
            self.add("code_execution.shell_network", true, allowed);
        }
    }

    fn addresses(&mut self, key: &str, list: &[String]) {
        if let Err((at, bad)) = AddressPolicy::new(list) {
            let text = list.get(at).map_or("", String::as_str);
            self.add(format!("{key}.allow_private_addresses[{at}]"), text, bad.to_string());
        }
    }

    fn web(&mut self, keys: &ConfigKeys) {
        self.addresses("web", &keys.web.allow_private_addresses);
        let faults = keys.web_search.faults().into_iter().chain(keys.weather.faults());
        faults.for_each(|fault| self.add(fault.key, fault.value, fault.allowed));
    }

    fn webhooks(&mut self, options: &WebhookOptions) {
        self.addresses("webhooks", &options.allow_private_addresses);
        if let Err((at, bad)) = Signer::new(&options.secrets) {
            self.add(format!("webhooks.secrets[{at}]"), "***", bad.to_string());
        }
    }

    fn otlp(&mut self, options: &OtlpOptions) {
        for (key, value, allowed) in options.faults() {
            self.add(format!("otlp.{key}"), value, allowed);
        }
    }

    fn mcp_servers(&mut self, servers: &BTreeMap<String, McpServerOptions>, mode: AuthMode) {
        for (name, server) in servers.iter().filter(|(_, server)| !server.disabled) {
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

    fn default_model(&mut self, configured: Option<&str>, models: &[ModelOptions]) -> Option<String> {
        let has = |id: &str| models.iter().any(|model| model.id == id);
        match configured {
            Some(id) if has(id) => Some(id.to_owned()),
            Some(id) => {
                self.no_model("default_model", id, models);
                None
            }
            None if has(DEMO) => Some(DEMO.to_owned()),
            None => models.first().map(|model| model.id.clone()),
        }
    }

    fn title_model(&mut self, configured: Option<&str>, models: &[ModelOptions]) {
        if let Some(id) = configured.filter(|id| !models.iter().any(|model| model.id == *id)) {
            self.no_model("title_model", id, models);
        }
    }

    fn no_model(&mut self, key: &str, id: &str, models: &[ModelOptions]) {
        let ids = models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
        self.add(key, id, format!("must be the id of one of models: {ids}"));
    }
}
