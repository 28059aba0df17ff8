//! Opens the audit log with the list of secrets that it must mask.

use super::error::AppError;
use super::system::variable;
use crate::audit::AuditLog;
use crate::config::Config;
use crate::domain::secret::Secret;
use crate::llm::options::ModelOptions;
use crate::mcp::McpServerOptions;
use crate::ports::{Audit, NodeStore};
use crate::tools::CommandToolOptions;
use std::sync::Arc;

/// The audit log of the data directory, or of the cluster.
pub(super) fn open(config: &Config, store: &Arc<dyn NodeStore>) -> Result<Arc<dyn Audit>, AppError> {
    let secrets = secrets(config, variable);
    Ok(Arc::new(match Arc::clone(store).cluster_ports() {
        Some(cluster) => AuditLog::shared(cluster.audit, &secrets),
        None => AuditLog::open(&config.data_dir, &config.audit, &secrets).map_err(AppError::Audit)?,
    }))
}

/// Every secret of the configuration. Secrets that the server generates have a known prefix.
fn secrets(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Vec<Secret> {
    let models = config.models.iter().flat_map(ModelOptions::secrets);
    let servers = config.mcp_servers.values().flat_map(McpServerOptions::secrets);
    let commands = config.tools.commands.iter().flat_map(CommandToolOptions::secrets);
    let configured = models
        .chain(&config.webhooks.secrets)
        .chain(config.channels.secrets())
        .chain(config.web_search.secrets())
        .chain(servers)
        .chain(commands)
        .cloned();
    let from_environment = config.bash.allowed_env.iter().filter_map(|name| variable(name)).map(Secret::from);
    configured.chain(from_environment).flat_map(|secret| secret.parts().collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use std::collections::BTreeSet;

    const EVERY_SECRET: &str = "
models: [{id: m, api_url: 'https://x/v1', api_key: secret-model, extra_headers: {A: Bearer secret-model-header}}]
channels:
  a: {type: webhook, url: 'https://x/secret-hook', headers: {Authorization: Bearer secret-hook-header}}
  b: {type: telegram, bot_token: '1:secret-bot', chat_id: 1}
  c: {type: slack, webhook_url: 'https://x/secret-slack'}
  d: {type: discord, webhook_url: 'https://x/secret-discord'}
  e: {type: ntfy, url: 'https://x/secret-topic', token: secret-ntfy}
  f: {type: email, host: x, username: u, password: secret-mail, from: a@x.org, to: [b@x.org]}
web_search: {provider: brave, api_key: secret-search}
mcp_servers:
  one: {command: c, env: {KEY: secret-program}}
  two: {url: 'https://x/mcp', headers: {Authorization: Bearer secret-address}}
tools: [{name: t, description: d, command: c, env: {KEY: secret-tool}}]
bash: {allowed_env: [LENT, UNSET]}
";

    #[test]
    fn p9_every_secret_of_the_configuration_is_masked() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("c.yml");
        std::fs::write(&path, EVERY_SECRET).expect("written");
        let home = [("HOME".to_owned(), "/home/u".to_owned())];
        let sources = Sources {
            file: Some(path),
            searched: Vec::new(),
            env: home.into_iter().collect(),
            flags: Vec::new(),
        };
        let config = Config::load(&sources).expect("a configuration");
        let masked = secrets(&config, |name| (name == "LENT").then(|| "secret-lent".to_owned()));
        let masked: BTreeSet<&str> = masked.iter().map(Secret::reveal).collect();
        let expected = EVERY_SECRET.split(|c: char| c.is_whitespace() || "'\",{}[]".contains(c));
        let expected = expected.filter(|word| word.contains("secret-")).chain(["secret-lent"]);
        let missing: Vec<&str> = expected.filter(|word| !masked.contains(word)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
