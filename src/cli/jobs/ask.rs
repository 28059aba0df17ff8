//! `nanoclaw ask`, `nanoclaw tail` and `nanoclaw retry`: start, join or retry a job, and stream it.

use super::list::show;
use super::watch::{WatchOptions, watch};
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};
use std::io::Read;

/// Longest prompt that is read from stdin, bytes. The server has its own limit, `limits.input_bytes`.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct AskArgs {
    /// The prompt; '-' reads it from stdin
    #[arg(value_name = "TEXT|-", allow_hyphen_values = false)]
    text: String,
    /// Model, by its configured id
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Project whose files the tools work with
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Sandbox level for code that the model runs
    #[arg(long, value_name = "LEVEL", value_parser = ["lenient", "standard", "strict"])]
    strictness: Option<String>,
    /// Conversation to continue or to start
    #[arg(long, value_name = "NAME")]
    conversation: Option<String>,
    /// Ask the model to think first
    #[arg(long)]
    thinking: bool,
    /// Print the job's id and exit
    #[arg(long)]
    detach: bool,
    /// Cancel the job on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// Print one event a line as JSON; with --detach the job
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    /// The job's id, job_…
    job: String,
    /// Show only events after this one
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// Print one event a line as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The failed job's id, job_…
    job: String,
    /// Exit at once instead of streaming
    #[arg(long)]
    detach: bool,
    /// Cancel the job on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// Print one event a line as JSON; with --detach the job
    #[arg(long)]
    json: bool,
}

/// Submits a job and streams it. Fails if the job fails.
pub(crate) fn ask(client: &ApiClient, args: &AskArgs, terminal: &Terminal) -> Result<(), CliError> {
    let body = body(args)?;
    watch(client, terminal, WatchOptions { json: args.json, cancel: args.cancel_on_interrupt }, |watch| {
        let job = watch.submit(&body)?;
        let id = id(&job)?;
        if args.detach {
            return Ok(terminal.line(&if args.json { job.to_string() } else { id.to_owned() })?);
        }
        terminal.info(id);
        watch.stream(id, 0, true)
    })
}

/// Joins a job's stream. Fails if the job fails.
pub(crate) fn tail(client: &ApiClient, args: &TailArgs, terminal: &Terminal) -> Result<(), CliError> {
    let job = path_segment(&args.job)?;
    let options = WatchOptions { json: args.json, cancel: false };
    watch(client, terminal, options, |watch| watch.stream(job, args.after, args.after > 0))
}

/// Runs a failed job again and streams its new events. Fails if the job fails again.
pub(crate) fn retry(client: &ApiClient, args: &RetryArgs, terminal: &Terminal) -> Result<(), CliError> {
    let id = path_segment(&args.job)?;
    watch(client, terminal, WatchOptions { json: args.json, cancel: args.cancel_on_interrupt }, |watch| {
        let job = client.post(&format!("/v1/jobs/{id}/retry"), None)?;
        if args.detach {
            return show(&job, args.json, terminal);
        }
        // Events up to here belong to the failure that the user knows.
        let after = job.get("last_event_id").and_then(Value::as_u64).unwrap_or(0);
        watch.stream(id, after, true)
    })
}

fn id(job: &Value) -> Result<&str, CliError> {
    let id = job.get("id").and_then(Value::as_str).ok_or_else(|| {
        CliError::failed("the server named no job id").hint("is it a NanoClaw server? name it with --server")
    });
    id.and_then(path_segment)
}

fn body(args: &AskArgs) -> Result<Value, CliError> {
    let mut body = json!({
        "input": prompt(&args.text)?,
        "model": args.model,
        "project_id": args.project,
        "strictness": args.strictness,
        "conversation_id": args.conversation,
        "thinking": args.thinking.then_some(true),
    });
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(body)
}

fn prompt(text: &str) -> Result<String, CliError> {
    if text != "-" {
        let is_empty =
            || CliError::usage("the prompt is empty").hint("as in: nanoclaw ask \"what is 6 times 7?\"");
        return if text.trim().is_empty() { Err(is_empty()) } else { Ok(text.to_owned()) };
    }
    let mut prompt = String::new();
    std::io::stdin().take(MAX_PROMPT_BYTES).read_to_string(&mut prompt).map_err(|e| {
        CliError::failed(format!("cannot read the prompt from stdin: {e}"))
            .hint("a prompt is UTF-8 text; a file goes into a project, and the prompt names it")
    })?;
    if prompt.trim().is_empty() {
        return Err(CliError::usage("the prompt on stdin is empty").hint("as in: git diff | nanoclaw ask -"));
    }
    Ok(prompt)
}
