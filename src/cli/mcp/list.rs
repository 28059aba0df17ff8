//! `nanoclaw mcp list`: the configured servers. It starts none.

use crate::app::mcp_host;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::config::Config;
use crate::mcp::{McpServerOptions, program_access};
use serde_json::{Value, json};

/// Shown characters of a command line.
const LINE_CHARS: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Print the servers as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn list(config: &Config, args: &ListArgs, terminal: &Terminal) -> Result<(), CliError> {
    let names = config.mcp_servers.keys().map(|name| name.chars().count());
    let wide = names.max().unwrap_or_default();
    let servers: Vec<Value> =
        config.mcp_servers.iter().map(|(name, options)| describe(name, options, config)).collect();
    if servers.is_empty() && !args.json {
        terminal.info("no MCP servers; add one: nanoclaw mcp add NAME -- COMMAND…");
    }
    config.warnings.iter().for_each(|warning| terminal.info(&format!("warning: {warning}")));
    let text = |server: &Value, key: &str| {
        server.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    terminal.list(servers, args.json, |server| {
        let state = if server.get("disabled") == Some(&Value::Bool(true)) { "disabled" } else { "enabled" };
        let access = text(server, "access");
        let access = if access.is_empty() { access } else { format!("\n{:<wide$}  may use: {access}", "") };
        format!("{:<wide$}  {state:<8}  {}{access}", text(server, "name"), text(server, "target"))
    })?;
    Ok(())
}

/// A server without the values of its secrets.
fn describe(name: &str, options: &McpServerOptions, config: &Config) -> Value {
    let target = match (&options.command, &options.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&options.args).map(String::as_str);
            words.collect::<Vec<_>>().join(" ")
        }
        // The query may contain a key.
        (None, Some(url)) => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        (None, None) => String::new(),
    };
    let target: String = target.chars().take(LINE_CHARS).collect();
    let found = program_access(name, options, &mcp_host(config));
    json!({"name": name, "disabled": options.disabled, "target": target, "access": found.access,
        "closed_paths": found.refused})
}
