//! `nanoclaw jobs` and `nanoclaw cancel`.

use super::render::one_line;
use super::watch::cancel as cancel_job;
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::Value;

/// Characters of the answer or the error in a line.
const PREVIEW_CHARS: usize = 60;

const STATES: [&str; 6] = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    pub(crate) status: Option<String>,
    /// Maximum number of jobs, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The job's id, job_…
    pub(crate) job: String,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn list(client: &ApiClient, args: &JobsArgs, terminal: &Terminal) -> Result<(), CliError> {
    let mut path = format!("/v1/jobs?limit={}", args.limit);
    if let Some(status) = &args.status {
        path.push_str("&status=");
        path.push_str(status);
    }
    let page = client.get(&path)?;
    if args.json {
        return Ok(terminal.line(&page.to_string())?);
    }
    for job in page.get("data").and_then(Value::as_array).into_iter().flatten() {
        terminal.line(&describe(job))?;
    }
    Ok(())
}

/// Cancels a job and prints it.
pub(crate) fn cancel(client: &ApiClient, args: &CancelArgs, terminal: &Terminal) -> Result<(), CliError> {
    show(&cancel_job(client, &args.job)?, args.json, terminal)
}

/// Prints a job as a line or as JSON.
pub(crate) fn show(job: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.line(&if json { job.to_string() } else { describe(job) })?)
}

/// One line: id, state, model, and the beginning of the answer or error.
pub(crate) fn describe(job: &Value) -> String {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    let summary =
        job.pointer("/error/message").and_then(Value::as_str).unwrap_or_else(|| text("output_text"));
    let preview: String = one_line(summary).chars().take(PREVIEW_CHARS).collect();
    let line = format!("{}  {:<9}  {:<16}  {preview}", text("id"), text("status"), text("model"));
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_line_shows_id_state_model_and_a_preview() {
        let job = json!({"id": "job_1", "status": "succeeded", "model": "demo", "output_text": "two\nlines", "error": null});
        assert_eq!(describe(&job), "job_1  succeeded  demo              two lines");
    }
}
