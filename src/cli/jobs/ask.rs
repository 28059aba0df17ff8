//! `nanoclaw ask`, `nanoclaw tail` and `nanoclaw retry`: start, join or retry a job, and stream it.

use super::list::show;
use super::watch::{WatchOptions, watch};
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Longest prompt that is read from stdin, bytes. The server has its own limit, `limits.input_bytes`.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// What `ask` and `chat` say about a job beside its prompt.
#[derive(Debug, clap::Args)]
pub(super) struct JobOptions {
    /// Model, by its configured id
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Project whose files the tools work with
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Sandbox level for code that the model runs
    #[arg(long, value_name = "LEVEL", value_parser = ["lenient", "standard", "strict"])]
    strictness: Option<String>,
    /// Tools and groups that the model may use: files, web, code, agents, custom, mcp, all or none
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Conversation to continue or to start
    #[arg(long, value_name = "NAME")]
    pub(super) conversation: Option<String>,
    /// Ask the model to think first
    #[arg(long)]
    thinking: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// The prompt; '-', or none in a pipe, reads it from stdin
    #[arg(value_name = "TEXT|-", allow_hyphen_values = false)]
    text: Option<String>,
    /// Text file to attach; repeatable
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: JobOptions,
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
    let body = args.options.body(&prompt(args)?, &args.files)?;
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

pub(super) fn id(job: &Value) -> Result<&str, CliError> {
    let id = job.get("id").and_then(Value::as_str).ok_or_else(|| {
        CliError::failed("the server named no job id").hint("is it a NanoClaw server? name it with --server")
    });
    id.and_then(path_segment)
}

impl JobOptions {
    /// The request for a job with this prompt and these attached files.
    pub(super) fn body(&self, prompt: &str, files: &[PathBuf]) -> Result<Value, CliError> {
        let attachments = files.iter().map(|file| attachment(file)).collect::<Result<Vec<_>, _>>()?;
        let mut body = json!({
            "input": prompt,
            "model": self.model,
            "system_prompt": self.system,
            "project_id": self.project,
            "strictness": self.strictness,
            "tools": tools(&self.tools)?,
            "conversation_id": self.conversation,
            "thinking": self.thinking.then_some(true),
        });
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
            if !attachments.is_empty() {
                let message = json!({"role": "user", "content": prompt, "attachments": attachments});
                fields.insert("input".to_owned(), json!([message]));
            }
        }
        Ok(body)
    }
}

/// A file as the attachment of a message.
fn attachment(path: &Path) -> Result<Value, CliError> {
    let content = std::fs::read_to_string(path).map_err(|error| {
        CliError::failed(format!("cannot read '{}': {error}", path.display()))
            .hint("an attached file is UTF-8 text; other files go into a project (--project)")
    })?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Ok(json!({"name": name, "content": content}))
}

/// The list of tools; `false` for `none`, and nothing where none are named.
fn tools(names: &[String]) -> Result<Option<Value>, CliError> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    match names[..] {
        [] => Ok(None),
        ["none"] => Ok(Some(Value::Bool(false))),
        _ if names.contains(&"none") => {
            Err(CliError::usage("--tools none stands alone")
                .hint("as in: nanoclaw ask --tools files,bash \"…\""))
        }
        _ => Ok(Some(json!(names))),
    }
}

/// The prompt of the arguments or of stdin. Attached files can stand without one.
fn prompt(args: &AskArgs) -> Result<String, CliError> {
    let example = "as in: nanoclaw ask \"what is 6 times 7?\"";
    match args.text.as_deref() {
        None if !std::io::stdin().is_terminal() => {}
        Some("-") => {}
        None if !args.files.is_empty() => return Ok(String::new()),
        None => return Err(CliError::usage("the prompt is missing").hint(example)),
        Some(text) if text.trim().is_empty() => {
            return Err(CliError::usage("the prompt is empty").hint(example));
        }
        Some(text) => return Ok(text.to_owned()),
    }
    let mut prompt = String::new();
    std::io::stdin().take(MAX_PROMPT_BYTES).read_to_string(&mut prompt).map_err(|e| {
        CliError::failed(format!("cannot read the prompt from stdin: {e}"))
            .hint("a prompt is UTF-8 text; a file goes into a project, and the prompt names it")
    })?;
    if prompt.trim().is_empty() && args.files.is_empty() {
        return Err(CliError::usage("the prompt on stdin is empty")
            .hint("as in: git diff | nanoclaw ask, or: nanoclaw ask \"what is 6 times 7?\""));
    }
    Ok(prompt)
}
