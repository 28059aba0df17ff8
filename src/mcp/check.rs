//! A look at one server: connect, list, call each tool once. Owns what counts as working; refuses to judge what tools answer.

use super::call::{Answer, call};
use super::content;
use super::names;
use super::options::McpServerOptions;
use super::redact::quote;
use super::sample;
use super::server::Listed;
use super::servers::{McpPorts, runtime};
use super::session::{Failure, Session, open, sort_out};
use serde::Serialize;
use std::time::Duration;
use tokio::time::sleep;

/// Of an answer, what is shown, characters.
const SHOWN_CHARS: usize = 120;

/// What came of calling a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It answered.
    Ok,
    /// It answered that it failed, which arguments that were made up may well lead to.
    AnsweredError,
    /// There was no answer.
    Failed,
    /// It was not called.
    Skipped,
}

/// A tool that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedTool {
    /// As models see it.
    pub name: String,
    /// What came of it.
    pub result: Verdict,
    /// The answer's beginning, or why there is none.
    pub detail: String,
}

/// A server that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// As it names itself.
    pub server: String,
    /// The version of the protocol.
    pub protocol: String,
    /// In the server's order.
    pub tools: Vec<CheckedTool>,
}

impl Checked {
    /// Whether every call got an answer.
    pub fn is_working(&self) -> bool {
        self.tools.iter().all(|tool| tool.result != Verdict::Failed)
    }
}

/// Looks at a server; or why it cannot be looked at, in words for the operator.
pub fn check(name: &str, options: &McpServerOptions, ports: &McpPorts) -> Result<Checked, String> {
    let runtime = runtime().map_err(|error| format!("cannot start a thread: {error}"))?;
    let checked = runtime.block_on(async {
        let (session, tools) = open(name, options, ports).await.map_err(in_full)?;
        let checked = look(name, options, &session, tools).await;
        session.close().await;
        Ok(checked)
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    checked
}

fn in_full(failure: Failure) -> String {
    let Failure { why, stderr } = failure;
    if stderr.is_empty() { why } else { format!("{why}; it said: {stderr}") }
}

async fn look(
    name: &str,
    options: &McpServerOptions,
    session: &Session,
    tools: Vec<rmcp::model::Tool>,
) -> Checked {
    let info = session.peer.peer_info();
    let server = info.as_ref().and_then(|info| info.server_info.as_ref());
    let server = server.map(|us| quote(&format!("{} {}", us.name, us.version), options)).unwrap_or_default();
    let protocol = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
    let (listed, left_out) = sort_out(tools);
    let pairs: Vec<(&str, &str)> = listed.iter().map(|tool| (name, tool.raw.as_str())).collect();
    let mut checked = Vec::new();
    for (tool, wrapped) in listed.iter().zip(names::assign(&pairs)) {
        let (result, detail) = if McpServerOptions::names(&options.enabled_tools, &tool.raw, &wrapped) {
            try_call(tool, options, session).await
        } else {
            (Verdict::Skipped, "not in enabled_tools".to_owned())
        };
        checked.push(CheckedTool { name: wrapped, result, detail });
    }
    let skipped = left_out.into_iter().map(|(raw, why)| CheckedTool {
        name: quote(&raw, options),
        result: Verdict::Skipped,
        detail: format!("left out: {why}"),
    });
    checked.extend(skipped);
    Checked { server, protocol, tools: checked }
}

async fn try_call(tool: &Listed, options: &McpServerOptions, session: &Session) -> (Verdict, String) {
    let Some(arguments) = sample::arguments(&tool.schema) else {
        return (Verdict::Skipped, "no arguments can be made up that fit its schema".to_owned());
    };
    let patience = Duration::from_secs(options.timeout_s);
    let late = async {
        sleep(patience).await;
        "it took too long".to_owned()
    };
    let shown = |text: &str| quote(text, options).chars().take(SHOWN_CHARS).collect::<String>();
    match call(session.peer.clone(), tool.raw.clone(), arguments, late).await {
        Answer::Result(result) => match content::data(&result) {
            Ok(serde_json::Value::String(text)) => (Verdict::Ok, shown(&text)),
            Ok(data) => (Verdict::Ok, shown(&data.to_string())),
            Err(error) => (Verdict::AnsweredError, shown(&error.to_string())),
        },
        Answer::Refused { why, .. } => (Verdict::AnsweredError, shown(&why)),
        Answer::Lost(why) => (Verdict::Failed, shown(&why)),
        Answer::TakenBack => (Verdict::Failed, format!("no answer within {} s", patience.as_secs())),
    }
}
