//! `nanoclaw ask`, `nanoclaw tail` and `nanoclaw retry`: submit a job, join one, or run a failed one again, and stream it.

use super::client::Client;
use super::error::CliError;
use super::follow::{Follow, Go};
use super::jobs::{describe, path_segment};
use super::render::Render;
use super::terminal::Terminal;
use crate::ports::Clock;
use serde_json::{Value, json};
use std::io::Read;

/// Longest prompt that is read from stdin, bytes; the server's own bound is `limits.input_bytes`.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// What `ask` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct AskArgs {
    /// The prompt; '-' reads it from stdin
    pub(super) text: String,
    /// A configured model's id
    #[arg(long)]
    pub(super) model: Option<String>,
    /// Level for code that the model runs: lenient, standard, strict
    #[arg(long)]
    pub(super) strictness: Option<String>,
    /// Name of a conversation to go on with
    #[arg(long)]
    pub(super) conversation: Option<String>,
    /// Ask the model to think first
    #[arg(long)]
    pub(super) thinking: bool,
    /// Print one event a line as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What `tail` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct TailArgs {
    /// The job's id, job_…
    pub(super) job: String,
    /// Show what comes after this event
    #[arg(long, default_value_t = 0)]
    pub(super) after: u64,
    /// Print one event a line as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What `retry` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct RetryArgs {
    /// The failed job's id, job_…
    pub(super) job: String,
    /// Leave at once instead of streaming what comes
    #[arg(long)]
    pub(super) detach: bool,
    /// Print one event a line as JSON
    #[arg(long, conflicts_with = "detach")]
    pub(super) json: bool,
}

/// Submits a job and streams it; fails when the job does.
pub(super) fn ask(
    client: &Client,
    clock: &dyn Clock,
    args: &AskArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let job = client.post("/v1/jobs", Some(&body(args)?))?;
    let id = job
        .get("id")
        .and_then(Value::as_str)
        .ok_or_else(|| CliError::failed("the server named no job id"))?;
    terminal.say(id);
    stream(Follow::new(client, clock, terminal, id, 0), (terminal, id), args.json)
}

/// Joins a job's stream; fails when the job does.
pub(super) fn tail(
    client: &Client,
    clock: &dyn Clock,
    args: &TailArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let job = path_segment(&args.job)?;
    stream(Follow::new(client, clock, terminal, job, args.after), (terminal, job), args.json)
}

/// Runs a failed job again and streams what comes from there on; fails when the job does again.
pub(super) fn retry(
    client: &Client,
    clock: &dyn Clock,
    args: &RetryArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let id = path_segment(&args.job)?;
    let job = client.post(&format!("/v1/jobs/{id}/retry"), None)?;
    if args.detach {
        return Ok(terminal.line(&describe(&job))?);
    }
    // What came before is the failure that is known already.
    let after = job.get("last_event_id").and_then(Value::as_u64).unwrap_or(0);
    stream(Follow::new(client, clock, terminal, id, after), (terminal, id), args.json)
}

fn stream(follow: Follow<'_>, (terminal, job): (&Terminal, &str), json: bool) -> Result<(), CliError> {
    let mut render = Render::new(terminal, job, json);
    follow.run(&mut |event| render.show(event).map(|()| Go::On))?;
    if render.has_failed() { Err(CliError::failed("the job ended without an answer")) } else { Ok(()) }
}

fn body(args: &AskArgs) -> Result<Value, CliError> {
    let mut body = json!({"input": prompt(&args.text)?});
    let mut set = |key: &str, value: Option<Value>| {
        if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
            body.insert(key.to_owned(), value);
        }
    };
    set("model", args.model.clone().map(Value::from));
    set("strictness", args.strictness.clone().map(Value::from));
    set("conversation_id", args.conversation.clone().map(Value::from));
    set("thinking", args.thinking.then_some(Value::Bool(true)));
    Ok(body)
}

fn prompt(text: &str) -> Result<String, CliError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut prompt = String::new();
    std::io::stdin()
        .take(MAX_PROMPT_BYTES)
        .read_to_string(&mut prompt)
        .map_err(|e| CliError::failed(format!("cannot read the prompt from stdin: {e}")))?;
    Ok(prompt)
}
