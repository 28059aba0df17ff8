//! Runs the loop over a recording: exactly, with every record compared, or with another model, prompt or
//! tools.

use super::clock::{FixedEntropy, ReplayClock};
use super::log::{Difference, ReplayLog};
use super::model::{CheckingModel, SequenceModel, recorded_host};
use super::recording::{RecordingError, RunRecording};
use super::store::ReplayStore;
use super::tools::{AnsweringTools, CheckingTools};
use crate::app::system::SystemEntropy;
use crate::domain::event::Record;
use crate::domain::id::UserId;
use crate::domain::job::{ApprovalMode, History, Job, JobSpec};
use crate::domain::job_rights::JobRights;
use crate::domain::message::Message;
use crate::domain::run_file::RunFile;
use crate::domain::usage::Price;
use crate::engine::driver::{DriveOutcome, Driver};
use crate::engine::{EngineLimits, EnginePorts};
use crate::ports::{
    CancelToken, Clock, LeaseError, Model, ModelInfo, NewJob, NoopMeter, StoreError, Toolbox,
};
use std::sync::Arc;
use std::time::Duration;

/// How often a provider may put the job off.
const WAITS: u32 = 20;

/// What a replay has found.
pub(super) struct Replayed {
    pub(super) records: Vec<Record>,
    pub(super) output: String,
    /// Of a replay that checks.
    pub(super) difference: Option<Difference>,
    /// How long it took; `None` if time stood still.
    pub(super) time_ms: Option<u64>,
}

/// What the loop is given.
pub(super) struct ReplayParts {
    pub(super) recording: Arc<RunRecording>,
    pub(super) spec: JobSpec,
    pub(super) history: History,
    pub(super) job: Job,
    pub(super) limits: EngineLimits,
    /// Records that stay as they are.
    pub(super) kept: usize,
}

/// Tools of a replay with something changed.
pub(super) enum VariedTools {
    /// The results of the recording.
    Recorded(Option<Arc<dyn Toolbox>>),
    /// Every call is denied.
    Denied(Option<Arc<dyn Toolbox>>),
    /// They run.
    Live(Arc<dyn Toolbox>),
}

impl ReplayParts {
    /// The parts of a run. Step 1 is the first call of a model.
    pub(super) fn of(file: RunFile, limits: EngineLimits, step: Option<u32>) -> Result<Self, RecordingError> {
        let recording = Arc::new(RunRecording::new(&file.run)?);
        let kept = step.map(|step| recording.begin_of_step(step)).transpose()?.unwrap_or(0);
        let run = file.run.run;
        let job = Job {
            started_at_ms: run.state.started_at_ms,
            ..Job::queued(run.state.id, UserId::SINGLE, run.state.created_at_ms, &run.spec)
        };
        let history = History { wants_title: recording.suggests_title(), ..file.history };
        let limits = EngineLimits { title_model: recording.title_model(), ..limits };
        Ok(Self { recording, spec: run.spec, history, job, limits, kept })
    }

    /// The job, for a store that has none.
    pub(super) fn new_job(&self) -> NewJob {
        let Job { id, user, created_at_ms, .. } = self.job;
        let spec = JobSpec::new(self.spec.model.clone(), self.spec.input.clone(), 1, 1);
        NewJob { id, user, created_at_ms, spec, in_existing: false }
    }

    /// The facts of the models: those of the configuration, and what the recording shows.
    fn infos(&self, configured: &[ModelInfo]) -> Vec<ModelInfo> {
        let models = self.recording.models(&self.spec.model);
        let info = |(nth, id): (usize, &String)| {
            let known = configured.iter().find(|info| info.id == *id).cloned().unwrap_or_default();
            let fallback = if nth == 0 { models.iter().skip(1).cloned().collect() } else { Vec::new() };
            let host = recorded_host(&self.recording, id);
            // What the run has cost is in its log.
            let price = known.price.or_else(|| Some(Price::default()));
            ModelInfo { id: id.clone(), host, fallback, sees_images: true, price, ..known }
        };
        models.iter().enumerate().map(info).collect()
    }

    /// Replays the run as it was, and compares each record.
    pub(super) fn check(self, configured: &[ModelInfo]) -> Result<Replayed, StoreError> {
        let infos = self.infos(configured);
        let clock = Arc::new(ReplayClock::at(self.job.created_at_ms));
        let checking = Some(Arc::clone(&clock));
        let log = ReplayLog::new(Arc::clone(&self.recording), checking, self.spec.timeout_s, self.kept);
        let clock: Arc<dyn Clock> = clock;
        let store = Arc::new(ReplayStore::new(self.job, self.spec, self.history, Arc::clone(&clock), log));
        let ports = EnginePorts {
            store: Arc::<ReplayStore>::clone(&store),
            model: Arc::new(CheckingModel::new(Arc::clone(&store), infos)),
            tools: Arc::new(CheckingTools::new(Arc::clone(&store))),
            clock,
            entropy: Arc::new(FixedEntropy),
            meter: Arc::new(NoopMeter),
        };
        while let Some(ended) = drive(&store, &ports, &self.limits) {
            ended?;
            if store.log().difference.is_some() {
                break;
            }
        }
        let mut log = store.log();
        if log.difference.is_none() && log.len() < self.recording.len() {
            log.differ(None);
        }
        let (records, difference) = (log.records.clone(), log.difference.clone());
        drop(log);
        Ok(Replayed { records, output: store.output(), difference, time_ms: None })
    }

    /// Runs the loop anew behind the kept records; `model`: `None` for the recorded answers, which begin with
    /// this step.
    pub(super) fn vary(
        mut self,
        model: Option<Arc<dyn Model>>,
        tools: VariedTools,
        (step, clock): (u32, Arc<dyn Clock>),
    ) -> Result<Replayed, StoreError> {
        // A failure ends the replay, and nobody can decide about calls.
        self.spec.max_attempts = 1;
        let rights = JobRights { approval: ApprovalMode::AutoDeny, ..self.spec.rights() };
        self.spec = self.spec.with_rights(rights);
        // A limit of cost needs the prices of this machine.
        if model.as_ref().is_some_and(|model| !has_prices(&**model, &self.spec.model)) {
            self.spec.conditions.max_cost_micros = None;
        }
        self.history.wants_title = false;
        let model = model.unwrap_or_else(|| {
            Arc::new(SequenceModel::new(Arc::clone(&self.recording), step, self.infos(&[])))
        });
        let tools: Arc<dyn Toolbox> = match tools {
            VariedTools::Recorded(inner) => Arc::new(AnsweringTools::recorded(inner, &self.recording)),
            VariedTools::Denied(inner) => Arc::new(AnsweringTools::denying(inner)),
            VariedTools::Live(toolbox) => toolbox,
        };
        let log = ReplayLog::new(Arc::clone(&self.recording), None, self.spec.timeout_s, self.kept);
        let store = Arc::new(ReplayStore::new(self.job, self.spec, self.history, Arc::clone(&clock), log));
        let ports = EnginePorts {
            store: Arc::<ReplayStore>::clone(&store),
            model,
            tools,
            clock: Arc::clone(&clock),
            entropy: Arc::new(SystemEntropy),
            meter: Arc::new(NoopMeter),
        };
        let (began_ms, never) = (clock.monotonic_ms(), CancelToken::new(Arc::clone(&clock)));
        for _ in 0..WAITS {
            match drive(&store, &ports, &self.limits) {
                Some(Ok(DriveOutcome::Postponed)) => {}
                Some(ended) => {
                    ended?;
                    break;
                }
                None => break,
            }
            let Some(wait_ms) = store.take_wait_ms() else { break };
            clock.sleep(&never, Duration::from_millis(wait_ms));
        }
        let time_ms = Some(clock.monotonic_ms().saturating_sub(began_ms));
        let records = store.log().records.clone();
        Ok(Replayed { records, output: store.output(), difference: None, time_ms })
    }
}

/// Whether the model and its fallbacks have prices.
fn has_prices(models: &dyn Model, id: &str) -> bool {
    let has_price = |id: &str| models.model(id).is_some_and(|info| info.price.is_some());
    let fallbacks = models.model(id).map(|info| info.fallback).unwrap_or_default();
    has_price(id) && fallbacks.iter().all(|id| has_price(id))
}

/// One run of the loop; `None` if there is no further one.
fn drive(
    store: &ReplayStore,
    ports: &EnginePorts,
    limits: &EngineLimits,
) -> Option<Result<DriveOutcome, StoreError>> {
    let (lease, draining) = store.begin_run()?;
    let outcome = Driver::new(ports, limits, &lease, &draining).map(Driver::run);
    store.log().end_run();
    Some(match outcome {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(LeaseError::Fenced { .. })) => Ok(DriveOutcome::Abandoned),
        Ok(Err(LeaseError::Store(error))) | Err(error) => Err(error),
    })
}

/// The request with another model, prompt or system prompt. Images of the file are part of it.
pub(super) fn varied_spec(
    file: &mut RunFile,
    model: Option<&str>,
    prompt: Option<&str>,
    system: Option<&str>,
) {
    let spec = &mut file.run.run.spec;
    if let Some(model) = model {
        model.clone_into(&mut spec.model);
    }
    if let Some(system) = system {
        spec.system_prompt = Some(system.to_owned());
    }
    for message in &mut spec.input {
        if let Message::User { images, .. } = message {
            for image in images {
                let found = file.contents.iter().find(|content| content.digest == image.content);
                image.data = found.map(|content| Arc::from(content.data.as_slice()));
            }
        }
    }
    // The contents of earlier messages are not part of the file.
    for message in file.history.turns.iter_mut().flat_map(|turn| &mut turn.messages) {
        if let Message::User { images, .. } = message {
            images.clear();
        }
    }
    let newest = spec.input.iter_mut().rev().find_map(|message| match message {
        Message::User { content, images, .. } => Some((content, images)),
        _ => None,
    });
    match (prompt, newest) {
        (Some(prompt), Some((content, images))) => {
            prompt.clone_into(content);
            for image in images {
                image.text_offset_bytes = None;
            }
        }
        (Some(prompt), None) => spec.input.push(Message::user(prompt)),
        (None, _) => {}
    }
}
