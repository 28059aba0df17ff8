//! One batch of calls on its way. Owns threads, the order that files impose, timeouts, panics and reports; refuses to know
//! any tool by name (P6), and to retry behind the model's back.

use super::batch::{Batch, Task};
use super::cache::{Cache, Key};
use super::catalogue::Catalogue;
use super::cut::{Reader, Room};
use super::entry::entry;
use super::executor::Terms;
use super::outcome::Outcome;
use super::waves::Waves;
use crate::domain::event::AgentStep;
use crate::domain::handle::ResultHandle;
use crate::domain::tool::{FileAccess, ToolCall, ToolOrigin};
use crate::domain::usage::Usage;
use crate::ports::{AuditEntry, Journal, Measurement, ProgressReporter, ToolContext, ToolError, ToolOutcome};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// What the calls of a batch share.
pub(super) struct Run<'a> {
    /// What the operator says.
    pub(super) terms: &'a Terms,
    /// The tools of the moment at which the batch began.
    pub(super) catalogue: &'a Catalogue,
    /// Results that may stand for new ones.
    pub(super) cache: &'a Cache,
    /// Whose calls they are.
    pub(super) context: &'a ToolContext,
    /// Where they are reported.
    pub(super) journal: &'a dyn Journal,
}

impl Run<'_> {
    /// Makes the calls and reports each.
    pub(super) fn perform(&self, batch: &Batch<'_>) {
        for (call, reason) in &batch.refused {
            let outcome = Outcome::refused(reason.clone());
            self.record(call, None, &outcome);
            self.journal.finished(call, outcome.into_tool_outcome(&self.bare_room()));
        }
        self.perform_all(&batch.tasks);
    }

    /// Performs the tasks on as many threads as the bound allows; this thread is one of them.
    fn perform_all(&self, tasks: &[Task<'_>]) {
        let in_project = self.context.project_id.is_some();
        let uses = |task: &Task<'_>| if in_project { task.traits.files } else { FileAccess::None };
        let waves = Waves::new(tasks.iter().map(uses).collect());
        let about = tracing::Span::current();
        let work = || {
            let _about = about.enter(); // what a tool's thread logs is about the same job
            while let Some(turn) = waves.next() {
                if let Some(task) = tasks.get(turn.at()) {
                    self.perform_one(task);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.terms.bounds.workers.min(tasks.len()) {
                // A thread that cannot be had costs only parallelism.
                if thread::Builder::new().name("tool".to_owned()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn perform_one(&self, task: &Task<'_>) {
        let outcome =
            if self.context.cancel.is_cancelled() { Outcome::cancelled() } else { self.outcome(task) };
        let (twin, room) = (outcome.for_twin(), self.room(task));
        self.record(task.call, Some(task), &outcome);
        self.journal.finished(task.call, outcome.into_tool_outcome(&room));
        for call in &task.twins {
            self.record(call, Some(task), &twin);
            // One keeping is enough for all of them.
            self.journal.finished(call, ToolOutcome { whole: None, ..twin.clone().into_tool_outcome(&room) });
        }
    }

    /// From the cache, or of a run.
    fn outcome(&self, task: &Task<'_>) -> Outcome {
        let files = task.traits.files;
        if !(task.traits.cacheable && task.traits.idempotent) {
            let may_write = matches!(files, FileAccess::Writes | FileAccess::Runs);
            let _until_it_ends = may_write.then(|| self.cache.writing(self.context));
            return self.started(task);
        }
        let clock = &self.context.cancel.clock();
        let key = Key::new(task.tool, &task.canonical, self.context);
        if let Some(data) = self.cache.get(&key, files, clock.monotonic_ms()) {
            return Outcome::cached(data);
        }
        let stamp = self.cache.stamp(&key, files);
        let outcome = self.started(task);
        if let Ok(data) = outcome.result() {
            self.cache.put(key, (files, stamp), data, clock.monotonic_ms());
        }
        outcome
    }

    /// What may not be run twice runs only when that it does is on record.
    fn started(&self, task: &Task<'_>) -> Outcome {
        let may_start = task.traits.idempotent || self.journal.started(task.call).is_continue();
        if may_start { self.call(task) } else { Outcome::cancelled() }
    }

    /// Counted, and into the audit log.
    fn record(&self, call: &ToolCall, task: Option<&Task<'_>>, outcome: &Outcome) {
        self.terms.meter.record(sample(task, outcome));
        let Some(audit) = &self.terms.audit else { return };
        let bare = entry(call, self.context);
        let said = task.map(|task| Value::Object(task.arguments.clone()));
        audit.record(&AuditEntry {
            arguments: said.unwrap_or_else(|| bare.arguments.clone()),
            success: outcome.result().is_ok(),
            result: outcome.clone().into_tool_outcome(&self.bare_room()).content,
            duration_ms: outcome.millis(),
            level: task.and_then(|task| level(task, outcome)),
            skipped: outcome.why_not_run().map(str::to_owned),
            ..bare
        });
    }

    /// The room of a call's result. What reads results has none of its own to be read, and what nobody keeps cannot be.
    fn room(&self, task: &Task<'_>) -> Room {
        let mut readers = self.catalogue.tools().iter().filter(|tool| tool.reads_results);
        let is_kept = self.journal.keeps_full_result() && !task.tool.reads_results;
        let reader = readers.find(|_| is_kept && self.context.allowed.offers_any());
        let handle = || ResultHandle::of(self.context.job, &task.call.id_ref);
        Room {
            reader: reader.map(|tool| Reader { tool: tool.spec.name.to_string(), handle: handle() }),
            ..self.bare_room()
        }
    }

    fn bare_room(&self) -> Room {
        let bounds = &self.terms.bounds;
        Room { chars: bounds.result_chars, bytes: bounds.result_bytes, reader: None }
    }

    fn call(&self, task: &Task<'_>) -> Outcome {
        let time = self.terms.bounds.timeout.saturating_add(task.tool.tool.own_timeout(&task.arguments));
        let cancel = self.context.cancel.with_timeout(time);
        let clock = cancel.clock().clone();
        let begun_ms = clock.monotonic_ms();
        let context = ToolContext { cancel, id_ref: task.call.id_ref.clone(), ..self.context.clone() };
        let report = Telling { call: task.call, journal: self.journal };
        let run = || task.tool.tool.call_with_progress(&task.arguments, &context, &report);
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let name = task.tool.spec.name.as_ref();
            tracing::error!(tool = name, job = %context.job, "a tool panicked");
            let message = format!("the tool '{name}' crashed: a fault of this server, not of the arguments");
            Err(ToolError::Failed { message, data: Value::Null })
        });
        Outcome::ran(result, clock.monotonic_ms().saturating_sub(begun_ms))
    }
}

/// What is counted of a call.
fn sample<'a>(task: Option<&'a Task<'_>>, outcome: &Outcome) -> Measurement<'a> {
    let tool = task.map(|task| task.tool.spec.name.as_ref());
    let ran = if outcome.result().is_ok() { "succeeded" } else { "failed" };
    let took_us = outcome.why_not_run().is_none().then(|| outcome.millis().saturating_mul(1_000));
    Measurement::ToolCalled { tool, outcome: outcome.why_not_run().unwrap_or(ran), took_us }
}

/// The sandbox's level of a call that ran in one.
fn level(task: &Task<'_>, outcome: &Outcome) -> Option<String> {
    let data = match outcome.result() {
        Ok(data) | Err(ToolError::Failed { data, .. }) => Some(data),
        Err(ToolError::Invalid(_)) => None,
    };
    // What a stranger's tool says of itself proves nothing.
    let is_ours = task.tool.tool.origin() == ToolOrigin::BuiltIn;
    let told = data.filter(|_| is_ours).and_then(|data| data.get("strictness")).and_then(Value::as_str);
    let fixed = task.tool.tool.level().filter(|_| outcome.why_not_run().is_none());
    fixed.or(told).map(str::to_owned)
}

/// What a running call tells goes into its job's log.
struct Telling<'a> {
    call: &'a ToolCall,
    journal: &'a dyn Journal,
}

impl ProgressReporter for Telling<'_> {
    fn step(&self, step: AgentStep) {
        self.journal.stepped(self.call, step);
    }

    fn spent(&self, model: &str, usage: Usage) {
        self.journal.spent(self.call, model, usage);
    }
}
