//! `nanoclaw mcp check`: connects to a server, lists its tools and calls each once.

use super::call::{McpCallOutcome, call};
use super::content;
use super::options::McpServerOptions;
use super::sample_arguments::sample_arguments;
use super::server::{ListedTool, McpPorts};
use super::servers::start_runtime;
use super::session::{Session, SessionError, open, usable_tools};
use super::tool_names;
use serde::Serialize;
use std::time::Duration;
use tokio::time::sleep;

/// Shown characters of a result.
const DETAIL_CHARS: usize = 120;

/// The outcome of calling a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum McpToolOutcome {
    /// It returned a result.
    Ok,
    /// It returned an error, which sample arguments may well cause.
    AnsweredError,
    /// There was no response.
    Failed,
    /// It was not called.
    Skipped,
}

/// The check of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct McpToolReport {
    /// Name that models see.
    pub name: String,
    /// The outcome.
    pub result: McpToolOutcome,
    /// The start of the result, or why there is none.
    pub detail: String,
}

/// The check of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct McpServerReport {
    /// Name and version that the server reports.
    pub server: String,
    /// Version of the protocol.
    pub protocol: String,
    /// In the server's order.
    pub tools: Vec<McpToolReport>,
}

impl McpServerReport {
    /// Whether every called tool responded.
    pub fn is_working(&self) -> bool {
        self.tools.iter().all(|tool| tool.result != McpToolOutcome::Failed)
    }
}

/// Checks a server. The error is for the operator.
pub fn check(name: &str, options: &McpServerOptions, ports: &McpPorts) -> Result<McpServerReport, String> {
    let runtime = start_runtime().map_err(|error| format!("cannot start a thread: {error}"))?;
    let report = runtime.block_on(async {
        let (session, tools) = open(name, options, ports).await?;
        let report = call_each(name, options, &session, tools).await;
        session.close().await;
        Ok(report)
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    report.map_err(
        |SessionError { reason, stderr }| {
            if stderr.is_empty() { reason } else { format!("{reason}; it said: {stderr}") }
        },
    )
}

async fn call_each(
    name: &str,
    options: &McpServerOptions,
    session: &Session,
    tools: Vec<rmcp::model::Tool>,
) -> McpServerReport {
    let info = session.peer.peer_info();
    let server = info.as_ref().and_then(|info| info.server_info.as_ref());
    let server = server.map(|server| options.quote(&format!("{} {}", server.name, server.version)));
    let protocol = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
    let (usable, unusable) = usable_tools(tools);
    let pairs: Vec<(&str, &str)> = usable.iter().map(|tool| (name, tool.raw_name.as_str())).collect();
    let mut reports = Vec::new();
    for (tool, name) in usable.iter().zip(tool_names::assign(&pairs)) {
        let is_enabled = McpServerOptions::contains(&options.enabled_tools, &tool.raw_name, &name);
        let (result, detail) = if is_enabled {
            try_call(tool, options, session).await
        } else {
            (McpToolOutcome::Skipped, "not in enabled_tools".to_owned())
        };
        reports.push(McpToolReport { name, result, detail });
    }
    reports.extend(unusable.into_iter().map(|(raw_name, reason)| McpToolReport {
        name: options.quote(&raw_name),
        result: McpToolOutcome::Skipped,
        detail: format!("left out: {reason}"),
    }));
    McpServerReport { server: server.unwrap_or_default(), protocol, tools: reports }
}

async fn try_call(
    tool: &ListedTool,
    options: &McpServerOptions,
    session: &Session,
) -> (McpToolOutcome, String) {
    let Some(arguments) = sample_arguments(&tool.schema) else {
        return (McpToolOutcome::Skipped, "no arguments can be made up that fit its schema".to_owned());
    };
    let timed_out = async {
        sleep(Duration::from_secs(options.timeout_s)).await;
        "it took too long".to_owned()
    };
    let (outcome, text) = match call(session.peer.clone(), tool.raw_name.clone(), arguments, timed_out).await
    {
        McpCallOutcome::Result(result) => match content::data(&result) {
            Ok(serde_json::Value::String(text)) => (McpToolOutcome::Ok, text),
            Ok(data) => (McpToolOutcome::Ok, data.to_string()),
            Err(error) => (McpToolOutcome::AnsweredError, error.to_string()),
        },
        McpCallOutcome::Refused { message, .. } => (McpToolOutcome::AnsweredError, message),
        McpCallOutcome::Lost(reason) => (McpToolOutcome::Failed, reason),
        McpCallOutcome::Cancelled => {
            (McpToolOutcome::Failed, format!("no answer within {} s", options.timeout_s))
        }
    };
    (outcome, options.quote(&text).chars().take(DETAIL_CHARS).collect())
}
