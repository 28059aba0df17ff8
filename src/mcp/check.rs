//! `nanoclaw mcp check`: connects to a server and lists its tools. It calls only tools that the operator
//! names or that say they are read-only, because a call with sample arguments may overwrite a file.

use super::call::{McpCallOutcome, call};
use super::content;
use super::options::McpServerOptions;
use super::sample_arguments::sample_arguments;
use super::server::{ListedTool, McpPorts};
use super::servers::start_runtime;
use super::session::{Session, SessionError, open, usable_tools};
use super::tool_names;
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::sleep;

/// Shown characters of a result.
const DETAIL_CHARS: usize = 120;

/// The tools to call.
#[derive(Debug, Clone, PartialEq)]
pub enum McpCheckCalls {
    /// Those that say `readOnlyHint`, with sample arguments.
    ReadOnly,
    /// Those with these names, the server's or ours.
    Named {
        /// The names.
        tools: Vec<String>,
        /// Arguments of every call; sample arguments when absent.
        arguments: Option<Map<String, Value>>,
    },
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum McpCheckError {
    /// There is no session.
    #[error("{0}")]
    NoSession(String),
    /// The server has no tool with a name of [`McpCheckCalls::Named`].
    #[error("it has no tool '{name}'; it has {known}")]
    NoTool {
        /// The name.
        name: String,
        /// The server's names.
        known: String,
    },
}

/// The outcome of checking a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum McpToolOutcome {
    /// It returned a result.
    Ok,
    /// It returned an error, which sample arguments may well cause.
    AnsweredError,
    /// There was no response.
    Failed,
    /// Models can call it. The check did not.
    Listed,
    /// Models cannot call it.
    Skipped,
}

/// The check of one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct McpToolReport {
    /// Name that models see.
    pub name: String,
    /// The outcome.
    pub result: McpToolOutcome,
    /// The start of the result, or why there is none.
    pub detail: String,
    /// Arguments of the call, if there was one.
    pub arguments: Option<Map<String, Value>>,
}

/// The check of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
pub fn check(
    name: &str,
    options: &McpServerOptions,
    ports: &McpPorts,
    calls: &McpCheckCalls,
) -> Result<McpServerReport, McpCheckError> {
    let runtime = start_runtime()
        .map_err(|error| McpCheckError::NoSession(format!("cannot start a thread: {error}")))?;
    let report = runtime.block_on(async {
        let (session, tools) = open(name, options, ports).await.map_err(no_session)?;
        let checked = SessionCheck { name, options, session: &session, calls };
        let report = checked.report(tools).await;
        session.close().await;
        report
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    report
}

fn no_session(SessionError { reason, stderr }: SessionError) -> McpCheckError {
    McpCheckError::NoSession(if stderr.is_empty() { reason } else { format!("{reason}; it said: {stderr}") })
}

struct SessionCheck<'a> {
    name: &'a str,
    options: &'a McpServerOptions,
    session: &'a Session,
    calls: &'a McpCheckCalls,
}

impl SessionCheck<'_> {
    async fn report(&self, tools: Vec<rmcp::model::Tool>) -> Result<McpServerReport, McpCheckError> {
        let info = self.session.peer.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        let server = server.map(|server| self.options.quote(&format!("{} {}", server.name, server.version)));
        let protocol = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        let (usable, unusable) = usable_tools(tools);
        let pairs: Vec<(&str, &str)> =
            usable.iter().map(|tool| (self.name, tool.raw_name.as_str())).collect();
        let named: Vec<(&ListedTool, String)> = usable.iter().zip(tool_names::assign(&pairs)).collect();
        self.find_called(&named)?;
        let mut reports = Vec::new();
        for (tool, name) in named {
            reports.push(self.check_tool(tool, name).await);
        }
        reports.extend(unusable.into_iter().map(|(raw_name, reason)| McpToolReport {
            name: self.options.quote(&raw_name),
            result: McpToolOutcome::Skipped,
            detail: format!("left out: {reason}"),
            arguments: None,
        }));
        Ok(McpServerReport { server: server.unwrap_or_default(), protocol, tools: reports })
    }

    /// Whether all tools that the operator names exist. Otherwise no tool is called.
    fn find_called(&self, tools: &[(&ListedTool, String)]) -> Result<(), McpCheckError> {
        let McpCheckCalls::Named { tools: called, .. } = self.calls else { return Ok(()) };
        let has = |wanted: &str| tools.iter().any(|(tool, name)| tool.raw_name == wanted || name == wanted);
        match called.iter().find(|wanted| !has(wanted)) {
            None => Ok(()),
            Some(wanted) => {
                let known: Vec<&str> = tools.iter().map(|(tool, _)| tool.raw_name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(McpCheckError::NoTool { name: wanted.clone(), known: self.options.quote(&known) })
            }
        }
    }

    async fn check_tool(&self, tool: &ListedTool, name: String) -> McpToolReport {
        let report = |result, detail: &str, arguments| McpToolReport {
            name: name.clone(),
            result,
            detail: detail.to_owned(),
            arguments,
        };
        let arguments = match self.calls {
            McpCheckCalls::Named { tools, arguments } => {
                if !tools.iter().any(|wanted| *wanted == tool.raw_name || *wanted == name) {
                    return report(McpToolOutcome::Listed, "", None);
                }
                arguments.clone()
            }
            McpCheckCalls::ReadOnly if !self.options.is_enabled(&tool.raw_name, &name) => {
                return report(McpToolOutcome::Skipped, "not in enabled_tools", None);
            }
            McpCheckCalls::ReadOnly if !tool.is_read_only => {
                let detail = "not called: it does not say readOnlyHint (--call calls it)";
                return report(McpToolOutcome::Listed, detail, None);
            }
            McpCheckCalls::ReadOnly => None,
        };
        let Some(arguments) = arguments.or_else(|| sample_arguments(&tool.schema)) else {
            let detail = "not called: no arguments can be made up that fit its schema";
            return report(McpToolOutcome::Listed, detail, None);
        };
        let (result, detail) = self.try_call(tool, arguments.clone()).await;
        report(result, &detail, Some(arguments))
    }

    async fn try_call(&self, tool: &ListedTool, arguments: Map<String, Value>) -> (McpToolOutcome, String) {
        let timed_out = async {
            sleep(Duration::from_secs(self.options.timeout_s)).await;
            "it took too long".to_owned()
        };
        let peer = self.session.peer.clone();
        let (outcome, text) = match call(peer, tool.raw_name.clone(), arguments, timed_out).await {
            McpCallOutcome::Result(result) => {
                match content::data(&result, &|_, _| Err("a check keeps no files".to_owned())) {
                    Ok(Value::String(text)) => (McpToolOutcome::Ok, text),
                    Ok(data) => (McpToolOutcome::Ok, data.to_string()),
                    Err(error) => (McpToolOutcome::AnsweredError, error.to_string()),
                }
            }
            McpCallOutcome::Refused { message, .. } => (McpToolOutcome::AnsweredError, message),
            McpCallOutcome::Lost(reason) => (McpToolOutcome::Failed, reason),
            McpCallOutcome::Cancelled => {
                (McpToolOutcome::Failed, format!("no answer within {} s", self.options.timeout_s))
            }
        };
        (outcome, self.options.quote(&text).chars().take(DETAIL_CHARS).collect())
    }
}
