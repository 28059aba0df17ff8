//! `nanoclaw verify`: compares the logs of jobs with their hash chains, and names the first record that was
//! changed, removed or moved.

use super::backup::transfer_error;
use super::client::ApiClient;
use super::error::CliError;
use super::store_target::{LocatedStore, StoreTarget};
use super::terminal::Terminal;
use crate::app::log_public_key;
use crate::domain::id::JobId;
use crate::domain::log_chain::{ChainLink, ChainVerdict, FoldKind, LogPublicKey};
use crate::domain::run_file::{HeaderProof, RunLog, RunLogReader};
use crate::store::{
    CheckpointReport, LogFault, StoreLocation, shared_log_key, verify_checkpoints, verify_logs,
};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("logs").required(true).args(["job", "all", "checkpoint"])))]
pub(super) struct VerifyArgs {
    /// The job whose log is verified, or a file of exported runs
    #[arg(value_name = "JOB|FILE")]
    job: Option<VerifySubject>,
    /// Verify the logs of all jobs in the store; stop the server of a file first
    #[arg(long)]
    all: bool,
    /// Make a signed checkpoint over the logs of all ended jobs now; a server makes one a day
    #[arg(long)]
    checkpoint: bool,
    /// The head that you know of the job: from its last event, its webhook or its object
    #[arg(long, value_name = "HASH", conflicts_with_all = ["all", "checkpoint"])]
    head: Option<ChainLink>,
    /// A public key that must have signed the file, and what retention has shortened in it: `public_key` of
    /// GET /v1/log/key at its server; repeatable, for runs that were imported there. For a store: a key
    /// beside its own, of a server that had it before
    #[arg(long = "key", value_name = "KEY", value_parser = read_key, conflicts_with = "checkpoint")]
    keys: Vec<LogPublicKey>,
    /// Print the verdicts as JSON, one a line
    #[arg(long)]
    json: bool,
}

fn read_key(text: &str) -> Result<LogPublicKey, String> {
    LogPublicKey::from_text(text).ok_or_else(|| "it must be 64 lower-case hexadecimal digits".to_owned())
}

/// What is verified.
#[derive(Debug, Clone)]
enum VerifySubject {
    Job(JobId),
    File(PathBuf),
}

impl FromStr for VerifySubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<JobId>() {
            Ok(job) => Ok(Self::Job(job)),
            Err(_) if Path::new(text).exists() => Ok(Self::File(text.into())),
            Err(error) => Err(format!("{error}, and there is no such file")),
        }
    }
}

/// Where the logs are.
pub(super) enum LogSource {
    /// At a server, in a closed file, or in a database.
    Target(StoreTarget),
    /// In a file of exported runs.
    Export(PathBuf),
}

impl VerifyArgs {
    /// Whether a server can answer: it verifies one job at a time, and makes checkpoints.
    pub(super) fn suits_server(&self) -> bool {
        self.checkpoint || self.job().is_some()
    }

    /// The file of exported runs.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.job {
            Some(VerifySubject::File(path)) => Some(path),
            _ => None,
        }
    }

    fn job(&self) -> Option<JobId> {
        match &self.job {
            Some(VerifySubject::Job(job)) => Some(*job),
            _ => None,
        }
    }
}

/// The counts of a run.
#[derive(Default)]
struct VerifiedLogs {
    intact: u64,
    /// Those of them that were folded, by whom nobody has checked.
    unchecked: u64,
    not_chained: u64,
    faulty: u64,
}

/// A verdict in the form of `GET /v1/jobs/{id}/verify`.
struct ShownVerdict {
    job: String,
    status: String,
    head: Option<String>,
    folded: Option<String>,
    /// Nobody has checked who has signed the note about the fold.
    is_unchecked: bool,
    /// The key that has signed the first line of the run in a file.
    signed_by: Option<String>,
    fault: Option<String>,
}

/// Verifies the logs. Fails if a record is not as it was written.
pub(super) fn verify(
    source: &LogSource,
    args: &VerifyArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let mut counts = VerifiedLogs::default();
    let (mut printed, mut keys) = (Ok(()), Vec::new());
    let mut show = |mut verdict: ShownVerdict| {
        verdict.compare(args.head);
        counts.add(&verdict);
        if printed.is_ok() {
            printed = verdict.print(args, terminal);
        }
    };
    match (source, args.job()) {
        (LogSource::Export(file), _) => verify_file(file, &args.keys, &mut show)?,
        (LogSource::Target(StoreTarget::Server(_)), _) if !args.keys.is_empty() => {
            return Err(CliError::failed(
                "a server verifies with its own key, so --key is for files and stores",
            )
            .hint("nanoclaw export the job first, and verify the file"));
        }
        (LogSource::Target(StoreTarget::Server(client)), Some(job)) => {
            show(ShownVerdict::read(&client.get(&format!("/v1/jobs/{job}/verify"))?));
        }
        (LogSource::Target(StoreTarget::Server(client)), None) => return make_checkpoint(client, terminal),
        (LogSource::Target(StoreTarget::Store(_)), None) if args.checkpoint => {
            return Err(CliError::failed("no server answers, and only a server has the key".to_owned())
                .hint("start it, or name it with --server"));
        }
        (LogSource::Target(StoreTarget::Store(store)), job) => {
            keys = store_keys(store, &args.keys)?;
            let each = &mut |job, verdict: Result<_, _>| {
                let verdict = ShownVerdict::of(job, &verdict);
                let is_unchecked = verdict.is_unchecked || keys.is_empty() && verdict.folded.is_some();
                show(ShownVerdict { is_unchecked, ..verdict });
            };
            let jobs =
                verify_logs(&store.location, job, &keys, each).map_err(|error| transfer_error(&error))?;
            if let Some(job) = job.filter(|_| jobs == 0) {
                return Err(CliError::failed(format!("there is no job {job}")).hint("see: nanoclaw jobs"));
            }
        }
    }
    printed?;
    let mut is_intact = counts.faulty == 0;
    if args.all {
        terminal.info(&counts.to_string());
        if let LogSource::Target(StoreTarget::Store(store)) = source {
            is_intact &= compare_checkpoints(&store.location, &keys, (args, terminal))?;
        }
    }
    Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The keys that may have signed in this store: the one that its nodes share, the one of its data directory,
/// which signed what a migration has brought along, and those that the user names.
fn store_keys(store: &LocatedStore, named: &[LogPublicKey]) -> Result<Vec<LogPublicKey>, CliError> {
    let shared = shared_log_key(&store.location).map_err(|error| transfer_error(&error))?;
    let own = log_public_key(&store.data_dir).map_err(|error| CliError::failed(error.to_string()))?;
    Ok(shared.into_iter().chain(own).chain(named.iter().copied()).collect())
}

/// Compares the heads of jobs with the signed checkpoints. Returns whether none was changed.
fn compare_checkpoints(
    store: &StoreLocation,
    keys: &[LogPublicKey],
    (args, terminal): (&VerifyArgs, &Terminal),
) -> Result<bool, CliError> {
    let report = verify_checkpoints(store, keys).map_err(|error| transfer_error(&error))?;
    let CheckpointReport { checkpoints, proven, removed, mut faults } = report;
    if keys.is_empty() && checkpoints > 0 {
        faults.push("no signature was checked: the data directory has no log_key; put it there, or name it with --key".to_owned());
    }
    faults.iter().try_for_each(|fault| {
        let shown = if args.json { json!({"checkpoint_fault": fault}).to_string() } else { fault.clone() };
        terminal.line(&shown)
    })?;
    terminal.info(&format!(
        "{checkpoints} checkpoints: {proven} jobs have their heads, {removed} were removed since"
    ));
    Ok(faults.is_empty())
}

/// Makes a checkpoint, and prints it.
fn make_checkpoint(client: &ApiClient, terminal: &Terminal) -> Result<ExitCode, CliError> {
    let answer = client.post("/v1/log/checkpoints", None)?;
    match answer.get("checkpoint") {
        Some(made) if made.is_object() => terminal.line(&made.to_string())?,
        _ => terminal.info(
            "no job has ended since the last checkpoint; those of the last minute are left to the next one",
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Verifies the logs of a file of exported runs.
fn verify_file(
    path: &Path,
    keys: &[LogPublicKey],
    show: &mut dyn FnMut(ShownVerdict),
) -> Result<(), CliError> {
    let unreadable = |error: String| CliError::failed(format!("cannot read '{}': {error}", path.display()));
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut reader = RunLogReader::default();
    let mut verdict = |RunLog { chain, fault, proof }: RunLog| {
        let verdict = ShownVerdict::of(chain.job, &chain.verify(keys).map_err(LogFault::from));
        let verdict = match fault.or_else(|| proof.fault(keys)) {
            Some(fault) if verdict.fault.is_none() => ShownVerdict::faulty(chain.job, fault),
            _ => verdict,
        };
        let signed_by = match proof {
            HeaderProof::SignedBy(key) => Some(key.to_string()),
            HeaderProof::Unsigned | HeaderProof::Changed => None,
        };
        show(ShownVerdict { is_unchecked: keys.is_empty() && chain.fold.is_some(), signed_by, ..verdict });
    };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| unreadable(error.to_string()))?;
        let log = reader.push(&line).map_err(|error| unreadable(error.to_string()))?;
        log.into_iter().for_each(&mut verdict);
    }
    let last = reader.end().map_err(|error| unreadable(error.to_string()))?;
    last.into_iter().for_each(verdict);
    Ok(())
}

impl VerifiedLogs {
    fn add(&mut self, verdict: &ShownVerdict) {
        let count = match verdict.status.as_str() {
            "intact" if verdict.is_unchecked => {
                self.unchecked = self.unchecked.saturating_add(1);
                &mut self.intact
            }
            "intact" => &mut self.intact,
            "not_chained" => &mut self.not_chained,
            _ => &mut self.faulty,
        };
        *count = count.saturating_add(1);
    }
}

impl std::fmt::Display for VerifiedLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { intact, unchecked, not_chained, faulty } = self;
        write!(f, "{intact} logs are intact, {faulty} are not, {not_chained} are not chained")?;
        if *unchecked > 0 {
            write!(f, "; of {unchecked} intact ones nobody has checked who folded them")?;
        }
        Ok(())
    }
}

impl ShownVerdict {
    fn of(job: JobId, verdict: &Result<ChainVerdict, LogFault>) -> Self {
        let shown = |status: &str| Self {
            job: job.to_string(),
            status: status.to_owned(),
            head: None,
            folded: None,
            is_unchecked: false,
            signed_by: None,
            fault: None,
        };
        let name = |kind: FoldKind| match kind {
            FoldKind::Deltas => "deltas".to_owned(),
            FoldKind::Cut => "cut".to_owned(),
        };
        match verdict {
            Ok(ChainVerdict::NotChained) => shown("not_chained"),
            Ok(ChainVerdict::Intact { head, fold }) => {
                Self { head: Some(head.to_string()), folded: fold.map(name), ..shown("intact") }
            }
            Ok(ChainVerdict::IntactAsImported { head, fold }) => Self {
                head: Some(head.to_string()),
                folded: Some(name(*fold)),
                is_unchecked: true,
                ..shown("intact")
            },
            Err(fault) => Self::faulty(job, fault.to_string()),
        }
    }

    fn faulty(job: JobId, fault: String) -> Self {
        Self {
            job: job.to_string(),
            status: "faulty".to_owned(),
            head: None,
            folded: None,
            is_unchecked: false,
            signed_by: None,
            fault: Some(fault),
        }
    }

    /// Reads the answer of a server.
    fn read(answer: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Self {
            job: text(answer.get("job_id")).unwrap_or_default(),
            status: text(answer.get("status")).unwrap_or_default(),
            head: text(answer.get("log_head")),
            folded: text(answer.get("folded")),
            is_unchecked: answer.get("is_folded_elsewhere").and_then(Value::as_bool).unwrap_or_default(),
            signed_by: None,
            fault: text(answer.pointer("/fault/message")),
        }
    }

    /// A log that is a whole chain, but another one than the caller knows, was rewritten.
    fn compare(&mut self, known: Option<ChainLink>) {
        let Some(known) = known.map(|known| known.to_string()) else { return };
        if self.status != "faulty" && self.head.as_ref() != Some(&known) {
            let head = self.head.as_deref().unwrap_or("none");
            self.fault = Some(format!("the log has another head ({head}): it was rewritten, or has gone on"));
            "faulty".clone_into(&mut self.status);
        }
    }

    fn print(&self, args: &VerifyArgs, terminal: &Terminal) -> Result<(), CliError> {
        let Self { job, status, head, folded, is_unchecked, signed_by, fault } = self;
        if args.json {
            let line = json!({"job_id": job, "status": status, "log_head": head, "folded": folded,
                    "is_signature_unchecked": is_unchecked, "signed_by": signed_by, "fault": fault});
            return Ok(terminal.line(&line.to_string())?);
        }
        let line = match (fault, head) {
            (Some(fault), _) => format!("{job}  {fault}"),
            // With --all only what needs attention is listed.
            _ if args.all && !is_unchecked => return Ok(()),
            (None, Some(head)) => {
                let folded = match folded.as_deref() {
                    Some("deltas") => ", after retention has joined its deltas",
                    Some("cut") => ", after retention has cut it to its last event",
                    _ => "",
                };
                let unchecked = if *is_unchecked {
                    " (the signature of that was not checked: export the job, and verify the file with --key)"
                } else {
                    ""
                };
                let signed = signed_by.as_ref().map(|key| format!("; signed by {key}")).unwrap_or_default();
                format!("{job}  intact{folded}{unchecked}; head {head}{signed}")
            }
            (None, None) => {
                format!(
                    "{job}  not chained: an older version has begun its log, its file had no chain, or it is not stored yet"
                )
            }
        };
        Ok(terminal.line(&line)?)
    }
}
