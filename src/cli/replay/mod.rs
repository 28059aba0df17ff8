//! `nanoclaw replay`: runs the loop of an ended job anew. Unchanged, it compares every record with the log;
//! with another model, prompt or other tools it shows what differs.

mod clock;
mod log;
mod model;
mod recorded_pieces;
mod recording;
pub(crate) mod report;
mod run;
mod store;
mod tools;

use super::client::ApiClient;
use super::client::address::path_segment;
use super::error::CliError;
use super::runs::export::refused;
use super::runs::import::{each_run, open};
use super::terminal::Terminal;
use crate::app::system::SystemEntropy;
use crate::app::{engine_limits, local_tools, open_store, provide_data_dir};
use crate::config::Config;
use crate::domain::event::{EngineMark, Record};
use crate::domain::id::JobId;
use crate::domain::log_chain::LogRecord;
use crate::domain::result_reference::{referenced_in, referenced_jobs};
use crate::domain::run_file::RunFile;
use crate::llm::Router;
use crate::ports::{Clock, Entropy, Model, NodeStore, Toolbox};
use recording::{RecordingError, jobs_in_prompts};
use report::{Comparison, RunFigures, describe};
use run::{ReplayParts, Replayed, VariedTools, varied_spec};
use serde_json::json;
use std::fmt::Display;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What tools do in a replay. Its help is that of the option: pages show no list of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ToolMode {
    // A recorded call has its recorded result; others fail.
    Record,
    // They run, in a directory of their own.
    Live,
    // Every call is denied.
    Deny,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The job's id on the server, or a file of 'nanoclaw export'; '-' reads stdin
    #[arg(value_name = "JOB|FILE")]
    run: String,
    /// Keep the log before this model call, counted from 1
    #[arg(long, value_name = "STEP", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    from: Option<u32>,
    /// Ask this configured model instead
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Ask this instead of the newest user message
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Ask with this system prompt instead
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Give recorded results, run the tools in an empty directory, or deny them
    #[arg(long, value_name = "MODE", default_value = "record")]
    tools: ToolMode,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

impl ReplayArgs {
    /// Whether a model is asked, instead of the recording.
    fn asks_model(&self) -> bool {
        self.model.is_some() || self.prompt.is_some() || self.system.is_some()
    }
}

/// Where a replay gets what its options name.
pub(crate) trait ReplaySources {
    /// The server that has the job.
    fn server(&self) -> Result<ApiClient, CliError>;
    /// The configuration without keys: a replay of the recording calls no model.
    fn configuration(&self) -> Result<Config, CliError>;
    /// The configuration with a store and files of its own in a directory.
    fn configuration_in(&self, dir: &Path) -> Result<Config, CliError>;
}

/// Replays a run. Exit code 1: an unchanged replay differs from the log.
pub(crate) fn replay(
    sources: &dyn ReplaySources,
    clock: &Arc<dyn Clock>,
    args: &ReplayArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let file = read(sources, &args.run)?;
    let fault = file.fault.clone();
    if let Some(fault) = &fault {
        terminal.info(&format!("the run was changed since its export: {fault}"));
    }
    let spec = &file.run.run.spec;
    let (job, model) = (file.run.run.state.id.to_string(), spec.model.clone());
    let state = &file.run.run.state;
    let took_ms = state.started_at_ms.map(|began_ms| state.finished_at_ms.saturating_sub(began_ms));
    let records: Result<Vec<_>, _> = file.run.records.iter().map(LogRecord::parse).collect();
    let mut records = records.map_err(failed)?;
    let reuses_agents = args.asks_model() && args.tools != ToolMode::Live;
    if reuses_agents && records.iter().any(is_of_agent) {
        records.retain(|record| !is_of_agent(record));
        terminal.info("what sub-agents have spent is left out: their recorded results are used again");
    }
    let recorded = RunFigures::of(&records, &model, &file.run.run.output, took_ms);
    if args.asks_model() || args.tools != ToolMode::Record {
        let (replayed, model) = vary(sources, clock, args, file, terminal)?;
        let comparison = Comparison::of(job, recorded, &model, &replayed);
        if args.json {
            terminal.line(&comparison.to_json().to_string())?;
        } else {
            terminal.data(&comparison.table(terminal.columns()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let config = sources.configuration()?;
    let configured = Router::new(config.models.clone(), &config.limits);
    let configured = configured.map(|router| router.models()).unwrap_or_default();
    let parts = ReplayParts::of(file, engine_limits(&config), args.from).map_err(|error| unfit(&error))?;
    let replayed = parts.check(&configured).map_err(failed)?;
    let difference = replayed.difference.clone();
    if args.json {
        let mut text = Comparison::of(job, recorded, &model, &replayed).to_json();
        let shown = difference.as_ref().map(|difference| {
            json!({"seq": difference.place.seq, "sub": difference.place.sub, "recorded": difference.recorded,
                "replayed": difference.replayed})
        });
        if let Some(fields) = text.as_object_mut() {
            fields.insert("identical".to_owned(), difference.is_none().into());
            fields.insert("fault".to_owned(), json!(fault));
            fields.insert("difference".to_owned(), shown.unwrap_or_default());
        }
        terminal.line(&text.to_string())?;
    } else {
        match &difference {
            None => terminal.line(&format!("{job} identical: {} records", replayed.records.len()))?,
            Some(difference) => terminal.line(&format!("{job} {}", describe(difference)))?,
        }
    }
    if difference.is_some() {
        terminal.info("a replay has the limits and the preamble of this machine: name the server's --config");
    }
    Ok(if difference.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether it books what a sub-agent has spent.
fn is_of_agent(record: &Record) -> bool {
    matches!(record, Record::Mark(EngineMark::Spent { agent: Some(_), .. }))
}

/// Replays with something changed. Returns the model that was asked, too.
fn vary(
    sources: &dyn ReplaySources,
    clock: &Arc<dyn Clock>,
    args: &ReplayArgs,
    mut file: RunFile,
    terminal: &Terminal,
) -> Result<(Replayed, String), CliError> {
    varied_spec(&mut file, args.model.as_deref(), args.prompt.as_deref(), args.system.as_deref());
    check_references(&file, args)?;
    let is_live = args.tools == ToolMode::Live;
    if is_live && file.run.run.spec.project_id.take().is_some() {
        terminal.info("the tools do not see the files of the job's project: they work in an empty directory");
    }
    let model = file.run.run.spec.model.clone();
    let step = args.from.unwrap_or(1);
    if !args.asks_model() && !is_live {
        let parts = ReplayParts::of(file, engine_limits(&sources.configuration()?), Some(step))
            .map_err(|error| unfit(&error))?;
        let replayed = parts.vary(None, VariedTools::Denied(None), (step, Arc::clone(clock)));
        return Ok((replayed.map_err(failed)?, model));
    }
    let scratch = ScratchDirectory::make()?;
    let config = sources.configuration_in(&scratch.0)?;
    let parts = ReplayParts::of(file, engine_limits(&config), Some(step)).map_err(|error| unfit(&error))?;
    note_mcp_tools(&parts, is_live, terminal)?;
    let asked = if args.asks_model() { Some(router(&config, &model)?) } else { None };
    let store = open_store(&config, clock).map_err(failed)?;
    // Tools make a directory for jobs that there are.
    store.submit(vec![parts.new_job()]).wait().map_err(failed)?;
    let replayed = local_tools(&config, &store, clock).map_err(failed).and_then(|toolbox| {
        let tools = varied_tools(args.tools, toolbox);
        parts.vary(asked, tools, (step, Arc::clone(clock))).map_err(failed)
    });
    NodeStore::close(&*store);
    Ok((replayed?, model))
}

/// Fails if a model would be asked with a prompt that names answers of other jobs which the log does not
/// have: an earlier version wrote it.
fn check_references(file: &RunFile, args: &ReplayArgs) -> Result<(), CliError> {
    let records: Vec<Record> = file.run.records.iter().filter_map(|record| record.parse().ok()).collect();
    let recorded = jobs_in_prompts(&records);
    let spec = &file.run.run.spec;
    let in_prompt = spec.system_prompt.as_deref().into_iter().flat_map(referenced_in);
    let mut named = in_prompt.chain(referenced_jobs(&spec.input));
    let named = named.find(|job| spec.conditions.after.contains(job) && !recorded.contains(job));
    let Some(job) = named.filter(|_| args.asks_model()) else { return Ok(()) };
    let text = format!("the prompt holds the answer of {job}, and the run does not have it");
    Err(CliError::failed(text).hint("put it in yourself: --prompt TEXT"))
}

/// No MCP server runs in a replay. Live tools without those that the run called would be another agent.
fn note_mcp_tools(parts: &ReplayParts, is_live: bool, terminal: &Terminal) -> Result<(), CliError> {
    let names: Vec<&str> = parts.recording.mcp_tools().into_iter().collect();
    let names = names.join(", ");
    match (names.is_empty(), is_live) {
        (true, _) => {}
        (false, false) => terminal.info(&format!("the model is not offered tools of MCP servers: {names}")),
        (false, true) => {
            let message =
                format!("the run called tools of MCP servers, which do not run in a replay: {names}");
            return Err(CliError::failed(message).hint("give their recorded results: --tools record"));
        }
    }
    Ok(())
}

fn varied_tools(mode: ToolMode, toolbox: Arc<dyn Toolbox>) -> VariedTools {
    match mode {
        ToolMode::Record => VariedTools::Recorded(Some(toolbox)),
        ToolMode::Deny => VariedTools::Denied(Some(toolbox)),
        ToolMode::Live => VariedTools::Live(toolbox),
    }
}

/// The configured models, of which this must be one.
fn router(config: &Config, model: &str) -> Result<Arc<dyn Model>, CliError> {
    let router = Router::new(config.models.clone(), &config.limits).map_err(failed)?;
    if router.model(model).is_some() {
        return Ok(Arc::new(router));
    }
    let known: Vec<String> = router.models().into_iter().map(|info| info.id).collect();
    Err(CliError::failed(format!("model {model} is not configured on this machine")).hint(format!(
        "name one of {} with --model, or another configuration with --config",
        known.join(", ")
    )))
}

/// The run: of the server, or of a file that holds one.
fn read(sources: &dyn ReplaySources, run: &str) -> Result<RunFile, CliError> {
    let mut files = Vec::new();
    let mut take = |file, _: &str| {
        files.push(file);
        Ok(())
    };
    if run.starts_with(JobId::PREFIX) && !Path::new(run).exists() {
        let (client, path) = (sources.server()?, format!("/v1/jobs/{}/export", path_segment(run)?));
        let lines = client.lines(&path).map_err(|error| refused(&client, error))?;
        each_run(&mut BufReader::new(lines), &run, &mut take)?;
    } else {
        each_run(&mut open(Path::new(run))?, &run, &mut take)?;
    }
    let several = files.len();
    match files.pop() {
        Some(file) if several == 1 => Ok(file),
        _ => Err(CliError::usage(format!("'{run}' holds {several} runs"))
            .hint("export the one to replay by itself: nanoclaw export JOB -o FILE")),
    }
}

fn unfit(error: &RecordingError) -> CliError {
    let hint = match error {
        RecordingError::Shortened(_) => {
            "only a whole log can be replayed: export runs in time, or keep logs longer (retention.deltas)"
        }
        RecordingError::Unreadable { .. } => "was it written by a newer version?",
        RecordingError::NoCalls => "submit it anew with the other model",
        RecordingError::NoStep(..) => "name a smaller one with --from",
    };
    CliError::failed(error.to_string()).hint(hint)
}

fn failed(error: impl Display) -> CliError {
    CliError::failed(error.to_string())
}

/// A directory for one replay, removed at its end.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn make() -> Result<Self, CliError> {
        let path = std::env::temp_dir().join(format!("nanoclaw-replay-{:032x}", SystemEntropy.random()));
        provide_data_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What stays is in a directory for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
