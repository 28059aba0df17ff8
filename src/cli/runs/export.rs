//! `nanoclaw export`: writes ended jobs with their logs into a file of JSON lines.

use crate::cli::client::address::path_segment;
use crate::cli::client::{ApiClient, RequestError};
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::domain::run_file::END_KIND;
use crate::store::AtomicFile;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use url::form_urlencoded::byte_serialize;

/// Jobs of one page of a list.
const PAGE_JOBS: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Ids of ended jobs, job_…
    #[arg(value_name = "JOB", required_unless_present_any = ["conversation", "batch", "all"])]
    jobs: Vec<String>,
    /// All ended jobs of this conversation
    #[arg(long, value_name = "ID", conflicts_with_all = ["jobs", "batch", "all"])]
    conversation: Option<String>,
    /// All ended jobs of this batch
    #[arg(long, value_name = "ID", conflicts_with_all = ["jobs", "all"])]
    batch: Option<String>,
    /// All ended jobs of your account
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
    /// File for the runs, written when complete [default: stdout]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print the number of runs and of skipped jobs as JSON; needs --output
    #[arg(long, requires = "output")]
    json: bool,
}

/// Exports the jobs, the oldest first. Jobs of a list that have not ended are skipped.
pub(crate) fn export(client: &ApiClient, args: &ExportArgs, terminal: &Terminal) -> Result<(), CliError> {
    let filter = match (&args.conversation, &args.batch) {
        (Some(id), _) => Some(format!("&conversation_id={}", encoded(id))),
        (None, Some(id)) => Some(format!("&batch_id={}", encoded(id))),
        (None, None) if args.all => Some(String::new()),
        (None, None) => None,
    };
    let (jobs, skipped) = match filter {
        Some(filter) => list(client, &filter)?,
        None => (unique(&args.jobs), 0),
    };
    if jobs.is_empty() && !args.all {
        return Err(CliError::failed(format!("no ended job is there to export; {skipped} have not ended"))
            .hint("see: nanoclaw jobs, nanoclaw list conversations, nanoclaw list batches"));
    }
    jobs.iter().try_for_each(|job| path_segment(job).map(drop))?;
    match &args.output {
        Some(path) => write_file(client, &jobs, path, args.force)?,
        None => write_runs(client, &jobs, &mut std::io::stdout().lock())?,
    }
    if args.json {
        terminal.line(&json!({"runs": jobs.len(), "skipped": skipped}).to_string())?;
    } else if args.output.is_some() || skipped > 0 {
        let rest = if skipped > 0 {
            format!(", {skipped} jobs skipped: they have not ended")
        } else {
            String::new()
        };
        terminal.info(&format!("{} runs exported{rest}", jobs.len()));
    }
    Ok(())
}

/// Each job once, in order.
fn unique(jobs: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    jobs.iter().filter(|job| seen.insert(*job)).cloned().collect()
}

fn encoded(id: &str) -> String {
    byte_serialize(id.as_bytes()).collect()
}

/// The ended jobs of a list, the oldest first, and the number of those that have not ended.
fn list(client: &ApiClient, filter: &str) -> Result<(Vec<String>, usize), CliError> {
    let (mut jobs, mut skipped, mut cursor) = (Vec::new(), 0_usize, String::new());
    loop {
        let page = client.get(&format!("/v1/jobs?limit={PAGE_JOBS}{filter}{cursor}"))?;
        for job in page.get("data").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
            if matches!(text("status"), "succeeded" | "failed" | "cancelled") {
                jobs.push(text("id").to_owned());
            } else {
                skipped = skipped.saturating_add(1);
            }
        }
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => break,
        }
    }
    jobs.reverse();
    Ok((jobs, skipped))
}

fn write_file(client: &ApiClient, jobs: &[String], path: &Path, may_replace: bool) -> Result<(), CliError> {
    if path.exists() && !may_replace {
        return Err(CliError::failed(format!("'{}' is there already", path.display()))
            .hint("choose another name, or replace it with --force"));
    }
    let unwritable = |error: std::io::Error| {
        CliError::failed(format!("cannot write '{}': {error}", path.display()))
            .hint("name a file in a directory that you may write to")
    };
    let draft = AtomicFile::begin(path).map_err(unwritable)?;
    write_runs(client, jobs, &mut draft.file())?;
    draft.finish().map_err(unwritable)
}

fn write_runs(client: &ApiClient, jobs: &[String], out: &mut dyn Write) -> Result<(), CliError> {
    for job in jobs {
        write_run(client, job, out)?;
    }
    Ok(out.flush()?)
}

/// Copies a run. Fails if it does not come to its end.
fn write_run(client: &ApiClient, job: &str, out: &mut dyn Write) -> Result<(), CliError> {
    let broken = |why: &str| {
        CliError::failed(format!("the export of {job} broke off: {why}"))
            .hint("try again; the server's log says why")
    };
    let lines = client.lines(&format!("/v1/jobs/{job}/export")).map_err(|error| refused(client, error))?;
    let (mut lines, mut line, mut is_whole) = (BufReader::new(lines), Vec::new(), false);
    let end = format!("{{\"kind\":\"{END_KIND}\"");
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(|error| broken(&error.to_string()))? == 0 {
            break;
        }
        is_whole = line.starts_with(end.as_bytes()) && line.ends_with(b"\n");
        out.write_all(&line)?;
    }
    if is_whole { Ok(()) } else { Err(broken("its last line is missing")) }
}

/// The error of a request that was not answered.
pub(crate) fn refused(client: &ApiClient, error: RequestError) -> CliError {
    match error {
        RequestError::Unavailable(reason) => client.unreachable(&reason),
        RequestError::Refused(status, message) => {
            crate::cli::client::refusal(status, format!("the server refused ({status}): {message}"))
        }
    }
}
