//! `nanoclaw approve` and `nanoclaw deny`: decide about tool calls that a job waits for.

use super::list::show;
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};

/// The calls to decide about.
#[derive(Debug, clap::Args)]
struct WaitingCalls {
    /// The waiting job's id, job_…
    job: String,
    /// Only this call, by its id; repeatable. Needed once the job has asked before
    #[arg(long = "call", value_name = "ID")]
    calls: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    waiting: WaitingCalls,
    /// Also approve later calls of these tools in this job
    #[arg(long)]
    always: bool,
    /// Print the job as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    waiting: WaitingCalls,
    /// Reason, shown to the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the job as JSON
    #[arg(long)]
    json: bool,
}

/// Approves the calls and prints the job.
pub(crate) fn approve(client: &ApiClient, args: &ApproveArgs, terminal: &Terminal) -> Result<(), CliError> {
    let path = format!("/v1/jobs/{}/approve", path_segment(&args.waiting.job)?);
    let job = client.post(&path, Some(&approval(&args.waiting.calls, args.always)))?;
    print(&job, "approved", (args.json, terminal))
}

/// Denies the calls and prints the job.
pub(crate) fn deny(client: &ApiClient, args: &DenyArgs, terminal: &Terminal) -> Result<(), CliError> {
    let path = format!("/v1/jobs/{}/deny", path_segment(&args.waiting.job)?);
    let job = client.post(&path, Some(&denial(&args.waiting.calls, args.reason.as_deref())))?;
    print(&job, "denied", (args.json, terminal))
}

fn print(job: &Value, decision: &str, (json, terminal): (bool, &Terminal)) -> Result<(), CliError> {
    show(job, json, terminal)?;
    let decided = job.get("decided_calls").and_then(Value::as_array).filter(|_| !json);
    for id in decided.into_iter().flatten().filter_map(Value::as_str) {
        terminal.line(&format!("  {decision}: {id}"))?;
    }
    let calls = job.pointer("/approval/calls").and_then(Value::as_array).filter(|_| !json);
    for call in calls.into_iter().flatten() {
        let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, name, arguments) = (text("id_ref"), text("name"), text("arguments"));
        terminal.line(&format!("  still waiting: {id} {name} {arguments}"))?;
    }
    Ok(())
}

/// The calls of a request body. Without any, all calls of the job's first question are meant.
fn decided(calls: &[String]) -> Option<&[String]> {
    (!calls.is_empty()).then_some(calls)
}

fn approval(calls: &[String], always: bool) -> Value {
    json!({"calls": decided(calls), "always": always})
}

fn denial(calls: &[String], reason: Option<&str>) -> Value {
    json!({"calls": decided(calls), "reason": reason})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_without_call_ids_is_about_all_calls() {
        assert_eq!(approval(&[], true), json!({"calls": null, "always": true}));
        assert_eq!(denial(&["a".to_owned()], Some("no")), json!({"calls": ["a"], "reason": "no"}));
        assert_eq!(denial(&[], None), json!({"calls": null, "reason": null}));
    }
}
