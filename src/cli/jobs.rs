//! `nanoclaw jobs` and `nanoclaw cancel`: a list of jobs, and the end of one.

use super::client::Client;
use super::error::CliError;
use super::terminal::Terminal;
use super::watch::cancel as end;
use serde_json::Value;

/// Characters of the answer or the error that a line shows.
const PREVIEW_CHARS: usize = 60;

/// What a job can be.
const STATES: [&str; 6] = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

/// What `jobs` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct JobsArgs {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    pub(super) status: Option<String>,
    /// How many, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// What `cancel` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct CancelArgs {
    /// The job's id, job_…
    pub(super) job: String,
    /// Print the job as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints a line for each job.
pub(super) fn list(client: &Client, args: &JobsArgs, terminal: &Terminal) -> Result<(), CliError> {
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

/// Asks the server to end a job and prints what became of it.
pub(super) fn cancel(client: &Client, args: &CancelArgs, terminal: &Terminal) -> Result<(), CliError> {
    show(&end(client, &args.job)?, args.json, terminal)
}

/// Prints a job: a line, or all of it.
pub(super) fn show(job: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.line(&if json { job.to_string() } else { describe(job) })?)
}

/// The id, if it can stand in a path as it is.
pub(super) fn path_segment(id: &str) -> Result<&str, CliError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !id.is_empty() && id.chars().all(plain) {
        Ok(id)
    } else {
        Err(CliError::usage(format!("'{id}' is not a job id"))
            .hint("ids look like job_01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    }
}

/// A line on a job: id, state, model, and how its answer or its error begins.
pub(super) fn describe(job: &Value) -> String {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    let said = job.pointer("/error/message").and_then(Value::as_str).unwrap_or_else(|| text("output_text"));
    let preview: String =
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect();
    let line = format!("{}  {:<9}  {:<16}  {preview}", text("id"), text("status"), text("model"));
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_names_id_state_model_and_a_preview() {
        let job = json!({"id": "job_1", "status": "succeeded", "model": "demo", "output_text": "two\nlines", "error": null});
        assert_eq!(describe(&job), "job_1  succeeded  demo              two lines");
    }

    #[test]
    fn ids_that_would_leave_the_path_are_refused() {
        assert!(
            path_segment("job_1/../x").is_err() && path_segment("").is_err() && path_segment("job_1").is_ok()
        );
    }
}
