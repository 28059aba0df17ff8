//! `nanoclaw ask`, `nanoclaw tail` and `nanoclaw retry`: submit a job, join one, or run a failed one again, and stream it.

use super::client::Client;
use super::error::CliError;
use super::jobs::{path_segment, show};
use super::terminal::Terminal;
use super::watch::{Manner, Watch, watch};
use serde_json::{Value, json};
use std::io::Read;
use std::process::ExitCode;

/// Longest prompt that is read from stdin, bytes; the server's own bound is `limits.input_bytes`.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// What `ask` was asked.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct AskArgs {
    /// The prompt; '-' reads it from stdin
    #[arg(value_name = "TEXT|-", allow_hyphen_values = false)]
    text: String,
    /// Model that answers, by its configured id
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Project whose files the tools work with
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Level for code that the model runs
    #[arg(long, value_name = "LEVEL", value_parser = ["lenient", "standard", "strict"])]
    strictness: Option<String>,
    /// Conversation to go on with, or to begin
    #[arg(long, value_name = "NAME")]
    conversation: Option<String>,
    /// Ask the model to think first
    #[arg(long)]
    thinking: bool,
    /// Print the job's id and leave
    #[arg(long)]
    detach: bool,
    /// Cancel the job on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// Print one event a line as JSON; with --detach the job
    #[arg(long)]
    json: bool,
}

/// What `tail` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct TailArgs {
    /// The job's id, job_…
    job: String,
    /// Show what comes after this event
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// Print one event a line as JSON
    #[arg(long)]
    json: bool,
}

/// What `retry` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct RetryArgs {
    /// The failed job's id, job_…
    job: String,
    /// Leave at once instead of streaming what comes
    #[arg(long)]
    detach: bool,
    /// Cancel the job on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// Print one event a line as JSON; with --detach the job
    #[arg(long)]
    json: bool,
}

/// Submits a job and streams it; fails when the job does.
pub(super) fn ask(client: &Client, args: &AskArgs, terminal: &Terminal) -> Result<ExitCode, CliError> {
    let body = body(args)?;
    let (detach, json) = (args.detach, args.json);
    let voice = terminal.twin();
    watch(client, terminal, Manner { json, cancel: args.cancel_on_interrupt }, move |watch| {
        let job = watch.submit(&body)?;
        let id = id(&job)?;
        if detach {
            return Ok(voice.line(&if json { job.to_string() } else { id.to_owned() })?);
        }
        voice.say(id);
        watch.stream(id, 0, true)
    })
}

/// Joins a job's stream; fails when the job does.
pub(super) fn tail(client: &Client, args: &TailArgs, terminal: &Terminal) -> Result<ExitCode, CliError> {
    let (job, after) = (path_segment(&args.job)?.to_owned(), args.after);
    let work = move |watch: &Watch| watch.stream(&job, after, false);
    watch(client, terminal, Manner { json: args.json, cancel: false }, work)
}

/// Runs a failed job again and streams what comes from there on; fails when the job does again.
pub(super) fn retry(client: &Client, args: &RetryArgs, terminal: &Terminal) -> Result<ExitCode, CliError> {
    let (id, detach, json) = (path_segment(&args.job)?.to_owned(), args.detach, args.json);
    let voice = terminal.twin();
    watch(client, terminal, Manner { json, cancel: args.cancel_on_interrupt }, move |watch| {
        let job = watch.client().post(&format!("/v1/jobs/{id}/retry"), None)?;
        if detach {
            return show(&job, json, &voice);
        }
        // What came before is the failure that is known already.
        let after = job.get("last_event_id").and_then(Value::as_u64).unwrap_or(0);
        watch.stream(&id, after, true)
    })
}

fn id(job: &Value) -> Result<&str, CliError> {
    let id = job.get("id").and_then(Value::as_str).ok_or_else(|| {
        CliError::failed("the server named no job id").hint("is it a NanoClaw server? name it with --server")
    });
    id.and_then(path_segment)
}

fn body(args: &AskArgs) -> Result<Value, CliError> {
    let mut body = json!({"input": prompt(&args.text)?});
    let mut set = |key: &str, value: Option<Value>| {
        if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
            body.insert(key.to_owned(), value);
        }
    };
    set("model", args.model.clone().map(Value::from));
    set("project_id", args.project.clone().map(Value::from));
    set("strictness", args.strictness.clone().map(Value::from));
    set("conversation_id", args.conversation.clone().map(Value::from));
    set("thinking", args.thinking.then_some(Value::Bool(true)));
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
