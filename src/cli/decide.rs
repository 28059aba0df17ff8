//! `nanoclaw approve` and `nanoclaw deny`: a word on calls that a job waits for.

use super::client::Client;
use super::error::CliError;
use super::jobs::{path_segment, show};
use super::terminal::Terminal;
use serde_json::{Value, json};

/// What `approve` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct ApproveArgs {
    /// The waiting job's id, job_…
    job: String,
    /// Only this call, by its id; may be given several times
    #[arg(long = "call", value_name = "ID")]
    calls: Vec<String>,
    /// Print the job as JSON
    #[arg(long)]
    json: bool,
}

/// What `deny` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct DenyArgs {
    /// The waiting job's id, job_…
    job: String,
    /// Only this call, by its id; may be given several times
    #[arg(long = "call", value_name = "ID")]
    calls: Vec<String>,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the job as JSON
    #[arg(long)]
    json: bool,
}

/// Lets the calls be made, and prints how the job then stands.
pub(super) fn approve(client: &Client, args: &ApproveArgs, terminal: &Terminal) -> Result<(), CliError> {
    let job = decide(client, "approve", &args.job, &body(&args.calls, None))?;
    tell(&job, args.json, terminal)
}

/// Refuses the calls, and prints how the job then stands.
pub(super) fn deny(client: &Client, args: &DenyArgs, terminal: &Terminal) -> Result<(), CliError> {
    let job = decide(client, "deny", &args.job, &body(&args.calls, args.reason.as_deref()))?;
    tell(&job, args.json, terminal)
}

fn decide(client: &Client, act: &str, job: &str, body: &Value) -> Result<Value, CliError> {
    client.post(&format!("/v1/jobs/{}/{act}", path_segment(job)?), Some(body))
}

fn tell(job: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    show(job, json, terminal)?;
    if json {
        return Ok(());
    }
    for call in job.pointer("/approval/calls").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
        terminal.line(&format!(
            "  still waits: {} {} {}",
            text("id_ref"),
            text("name"),
            text("arguments")
        ))?;
    }
    Ok(())
}

/// No call named: all of them.
fn body(calls: &[String], reason: Option<&str>) -> Value {
    let calls = (!calls.is_empty()).then_some(calls);
    match reason {
        Some(reason) => json!({"calls": calls, "reason": reason}),
        None => json!({"calls": calls}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_calls_all_are_meant() {
        assert_eq!(body(&[], None), json!({"calls": null}));
        assert_eq!(body(&["a".to_owned()], Some("no")), json!({"calls": ["a"], "reason": "no"}));
    }
}
