//! `nanoclaw eval`: runs a table of prompts over models as a batch of the server, checks the answers here,
//! and reports them as a table, JSON and HTML.

mod cases;
mod check;
mod html;
mod report;

use super::client::address::path_segment;
use super::client::retry::{RequestRetry, RetryError};
use super::client::{ApiClient, RequestError, refusal};
use super::error::CliError;
use super::interrupt::{exit_on_interrupt, unless_interrupted};
use super::terminal::{Terminal, open_input};
use crate::app::system::{SystemClock, SystemEntropy};
use crate::domain::usage::Usage;
use crate::ports::{CancelToken, Entropy};
use crate::store::AtomicFile;
use cases::{EvalCase, read_cases};
use nanoclaw_sandbox::{Sandbox, SandboxOptions};
use report::{CaseResult, CheckResult, EvalReport};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Largest file, bytes.
const FILE_BYTES: u64 = 200 * 1024 * 1024;

/// Seconds for which the server may delay a status response.
const WAIT_S: u64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    /// Cases, one JSON object a line with input and checks; '-' reads stdin
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
    /// A model to try; repeatable [default: that of the line or of the server]
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Jobs in the queue at once [default: the server's setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Write the results as JSON into this file
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

/// A case with the model that it names, as a line of the batch.
struct Trial<'c> {
    case: &'c EvalCase,
    model: Option<&'c str>,
}

/// The fields of a finished job that are needed here.
#[derive(Debug, Deserialize)]
struct EvaluatedJob {
    id: String,
    status: String,
    model: String,
    output_text: Option<String>,
    usage: Usage,
    error: Option<Value>,
}

/// Runs the evaluation. Fails if a check fails.
pub(crate) fn eval(
    client: &ApiClient,
    sandbox: impl FnOnce() -> Result<SandboxOptions, CliError>,
    args: &EvalArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let mut named = BTreeSet::new();
    if let Some(model) = args.models.iter().find(|model| !named.insert(*model)) {
        return Err(CliError::usage(format!("'--model {model}' is there twice")).hint("name each model once"));
    }
    let cases = read_cases(&read(&args.file)?, !args.models.is_empty()).map_err(|faults| {
        CliError::failed(format!("{}: {}", args.file.display(), faults.join("\n")))
            .hint("a line is {\"input\":\"…\",\"checks\":[{\"contains\":\"…\"}]}; nothing was submitted")
    })?;
    // All is opened first: a program that cannot run, or a report that nobody can write, costs no tokens.
    let needs_sandbox = cases.iter().any(|case| case.checks.iter().any(check::Check::is_program));
    let sandbox = if needs_sandbox { Some(open_sandbox(sandbox()?)?) } else { None };
    check_report_paths(args)?;
    let [json, html] =
        [&args.json, &args.html].map(|path| path.as_deref().map(ReportFile::begin).transpose());
    let (json, html) = (json?, html?);
    let models: Vec<Option<&str>> = match args.models.as_slice() {
        [] => vec![None],
        models => models.iter().map(|model| Some(model.as_str())).collect(),
    };
    let trials: Vec<Trial<'_>> =
        cases.iter().flat_map(|case| models.iter().map(move |model| Trial { case, model: *model })).collect();
    let stop = CancelToken::new(Arc::new(SystemClock::new()));
    let batch: Arc<Mutex<Option<String>>> = Arc::default();
    let report_interrupt = {
        let (client, terminal, batch) = (client.clone(), terminal.clone(), Arc::clone(&batch));
        move || cancel(&client, &batch, &terminal)
    };
    exit_on_interrupt(&stop, report_interrupt)?;
    let run = EvalRun { client, terminal, stop: &stop, concurrency: args.concurrency };
    let lines = unless_interrupted(run.results(&trials, &batch), &stop)?;
    let batch = batch.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
    let judge = |(trial, line): (&Trial<'_>, &Value)| run.judge(trial, line, sandbox.as_ref());
    let report = EvalReport { batch, results: trials.iter().zip(&lines).map(judge).collect() };
    terminal.data(&report.table(terminal.columns()))?;
    if let Some(file) = json {
        file.finish(&format!("{}\n", report.to_json()))?;
    }
    if let Some(file) = html {
        file.finish(&html::page(&report))?;
    }
    match report.failed() {
        0 => Ok(()),
        failed => Err(CliError::failed(format!("{failed} of {} cases failed", report.results.len()))
            .hint("the lines under a case say why; nanoclaw show JOB has the answer")),
    }
}

/// Refuses reports that would replace each other or the cases.
fn check_report_paths(args: &EvalArgs) -> Result<(), CliError> {
    let mut used = vec![resolved(&args.file)];
    for path in [&args.json, &args.html].into_iter().flatten() {
        let (shown, path) = (path.display(), resolved(path));
        if used.contains(&path) || path == Path::new("-") {
            return Err(CliError::failed(format!(
                "'{shown}' cannot be a report: it is used already, or no file"
            ))
            .hint("--json and --html each need a file of their own"));
        }
        used.push(path);
    }
    Ok(())
}

/// The path without links, if there is such a file.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn read(path: &Path) -> Result<String, CliError> {
    let unreadable = |why: &dyn std::fmt::Display| {
        CliError::failed(format!("cannot read '{}': {why}", path.display()))
            .hint("cases are JSON lines of UTF-8 text, or '-' for stdin")
    };
    let source = open_input(path).map_err(|error| unreadable(&error))?;
    let mut text = String::new();
    source
        .take(FILE_BYTES.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(|error| unreadable(&error))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(unreadable(&format!("it is larger than {FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// The file of a report, which replaces an older one at the end.
struct ReportFile<'a> {
    draft: AtomicFile,
    path: &'a Path,
}

impl<'a> ReportFile<'a> {
    fn begin(path: &'a Path) -> Result<Self, CliError> {
        let draft = if path.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { AtomicFile::begin(path) };
        Ok(Self { draft: draft.map_err(|error| unwritable(path, &error))?, path })
    }

    fn finish(self, text: &str) -> Result<(), CliError> {
        let Self { draft, path } = self;
        let written = draft.file().write_all(text.as_bytes()).and_then(|()| draft.finish());
        written.map_err(|error| unwritable(path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write '{}': {error}", path.display()))
        .hint("name a file in a directory that you may write to")
}

fn open_sandbox(options: SandboxOptions) -> Result<Sandbox, CliError> {
    Sandbox::new(options).map_err(|error| {
        CliError::failed(format!("the sandbox for the programs cannot start: {error}"))
            .hint("run 'nanoclaw doctor' to see what is missing")
    })
}

fn cancel(client: &ApiClient, batch: &Mutex<Option<String>>, terminal: &Terminal) {
    let batch = batch.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(batch) = batch else { return terminal.info("interrupted before the cases were accepted") };
    match client.post(&format!("/v1/batches/{batch}/cancel"), None) {
        Ok(_) => terminal.info(&format!("{batch} is cancelled")),
        Err(error) => terminal.error(&error.to_string()),
    }
}

struct EvalRun<'a> {
    client: &'a ApiClient,
    terminal: &'a Terminal,
    /// Cancelled by Ctrl-C.
    stop: &'a CancelToken,
    concurrency: Option<u32>,
}

impl EvalRun<'_> {
    /// Submits the trials as one batch and returns its results, in order.
    fn results(&self, trials: &[Trial<'_>], batch: &Mutex<Option<String>>) -> Result<Vec<Value>, CliError> {
        self.client.check_reachable()?;
        // A key that may not read the results submits nothing.
        self.retry().run(&mut || self.client.get_waiting("/v1/batches?limit=1", Duration::ZERO))?;
        let id = self.submit(trials)?;
        *batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
        self.terminal.info(&format!("{id}: {} jobs accepted", trials.len()));
        let (path, wait) = (format!("/v1/batches/{id}?wait={WAIT_S}"), Duration::from_secs(WAIT_S));
        let mut has_told = false;
        loop {
            let state = self.retry().run(&mut || self.client.get_waiting(&path, wait))?;
            let status = state.get("status").and_then(Value::as_str).unwrap_or_default();
            if matches!(status, "completed" | "cancelled" | "expired" | "failed") {
                break;
            }
            if !has_told && let Some(job) = self.waiting_job(&id) {
                has_told = true;
                self.terminal.info(&format!("{job} waits for an approval: nanoclaw approve {job}"));
            }
        }
        let path = format!("/v1/batches/{id}/results");
        Ok(self.retry().run(&mut || self.fetch(&path, trials.len()))?)
    }

    /// A job of the batch that waits for an approval.
    fn waiting_job(&self, batch: &str) -> Option<String> {
        let found = self.client.get(&format!("/v1/jobs?batch_id={batch}&status=waiting&limit=1")).ok()?;
        found.pointer("/data/0/id")?.as_str().map(str::to_owned)
    }

    fn submit(&self, trials: &[Trial<'_>]) -> Result<String, CliError> {
        let line = |(nth, trial): (usize, &Trial<'_>)| {
            let mut body: Map<String, Value> = trial.case.job.clone();
            body.extend(trial.model.map(|model| ("model".to_owned(), model.into())));
            format!("{}\n", json!({"custom_id": nth.to_string(), "body": body}))
        };
        let text: String = trials.iter().enumerate().map(line).collect();
        let path = self.concurrency.map_or_else(String::new, |jobs| format!("?concurrency={jobs}"));
        let (path, key) = (format!("/v1/batches{path}"), format!("{:032x}", SystemEntropy.random()));
        let bytes = text.len() as u64;
        let sent = self.retry().run(&mut || self.client.upload(&path, &key, &mut text.as_bytes(), bytes));
        let accepted = match sent {
            Err(RetryError::Refused(status, message)) => {
                let message = at_case(&message, trials);
                return Err(refusal(status, format!("{message}; nothing was submitted")));
            }
            sent => sent?,
        };
        let id = accepted.get("id").and_then(Value::as_str).unwrap_or_default();
        Ok(path_segment(id)?.to_owned())
    }

    fn fetch(&self, path: &str, lines: usize) -> Result<Vec<Value>, RequestError> {
        let broke_off = || RequestError::Unavailable("the results broke off".to_owned());
        let read = BufReader::new(self.client.lines(path)?).lines();
        let parse = |line: std::io::Result<String>| {
            serde_json::from_str(&line.map_err(|_| broke_off())?).map_err(|_| broke_off())
        };
        let results: Vec<Value> = read.map(parse).collect::<Result<_, _>>()?;
        if results.len() == lines { Ok(results) } else { Err(broke_off()) }
    }

    /// Makes the checks of a trial.
    fn judge(&self, trial: &Trial<'_>, line: &Value, sandbox: Option<&Sandbox>) -> CaseResult {
        let job = line.pointer("/response/body").and_then(|job| EvaluatedJob::deserialize(job).ok());
        let message = |value: Option<&Value>| {
            let text = value.and_then(|value| value.get("message")).and_then(Value::as_str);
            text.unwrap_or("there is no answer").to_owned()
        };
        let mut result = CaseResult {
            case: trial.case.id.clone(),
            line: trial.case.line,
            model: trial.model.unwrap_or("-").to_owned(),
            job: None,
            answer: String::new(),
            error: None,
            checks: Vec::new(),
            usage: Usage::default(),
            time_ms: 0,
        };
        let Some(job) = job else {
            return CaseResult { error: Some(message(line.get("error"))), ..result };
        };
        result.time_ms = self.time_ms(&job.id);
        (result.job, result.model, result.usage) = (Some(job.id), job.model, job.usage);
        result.answer = job.output_text.unwrap_or_default();
        if job.status != "succeeded" {
            let message = message(job.error.as_ref());
            return CaseResult { error: Some(format!("the job {}: {message}", job.status)), ..result };
        }
        let check = |check: &check::Check| CheckResult {
            title: check.title(),
            fault: check.fault(&result.answer, sandbox),
        };
        result.checks = trial.case.checks.iter().map(check).collect();
        result
    }

    /// How long the job ran. Only its export has that to the millisecond; 0 if it cannot be read.
    fn time_ms(&self, job: &str) -> u64 {
        let header = || -> Option<Value> {
            let lines = self.client.lines(&format!("/v1/jobs/{}/export", path_segment(job).ok()?)).ok()?;
            let mut line = String::new();
            BufReader::new(lines).read_line(&mut line).ok()?;
            serde_json::from_str(&line).ok()
        };
        let header = header().unwrap_or_default();
        let time = |name: &str| header.pointer(name).and_then(Value::as_u64).unwrap_or_default();
        time("/job/finished_at_ms").saturating_sub(time("/job/started_at_ms"))
    }

    fn retry(&self) -> RequestRetry<'_> {
        let report = Box::new(|text: &str| self.terminal.info(text));
        RequestRetry { stop: self.stop, report, hint: "the batch is stored there: nanoclaw list batches" }
    }
}

/// The server's message about a line of the batch, with the line of the file and the model instead.
fn at_case(message: &str, trials: &[Trial<'_>]) -> String {
    let found = || {
        let (number, rest) = message.strip_prefix("line ")?.split_once(": ")?;
        let trial = trials.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        let model = trial.model.map(|model| format!(" with model {model}")).unwrap_or_default();
        Some(format!("line {}{model}: {rest}", trial.case.line))
    };
    found().unwrap_or_else(|| message.to_owned())
}
