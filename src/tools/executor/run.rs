//! One batch of calls on its way. Owns threads, the order that files impose, timeouts, panics and reports; refuses to know
//! any tool by name (P6), and to retry behind the model's back.

use super::audit_entry::audit_entry;
use super::batch::{PreparedBatch, PreparedCall};
use super::cache::{CacheKey, ResultCache};
use super::catalogue::ToolCatalogue;
use super::file_ordering::FileOrdering;
use super::options::ExecutorOptions;
use super::outcome::CallOutcome;
use super::truncate::{ResultLimits, ResultReader};
use crate::domain::event::AgentStep;
use crate::domain::handle::ResultHandle;
use crate::domain::tool::{FileAccess, ToolCall, ToolOrigin};
use crate::domain::usage::Usage;
use crate::ports::{AuditEntry, Journal, Measurement, ProgressReporter, ToolContext, ToolError, ToolOutcome};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// What the calls of a batch share.
pub(super) struct BatchRun<'a> {
    /// What the operator says.
    pub(super) options: &'a ExecutorOptions,
    /// The tools of the moment at which the batch began.
    pub(super) catalogue: &'a ToolCatalogue,
    /// Results that may stand for new ones.
    pub(super) cache: &'a ResultCache,
    /// Whose calls they are.
    pub(super) context: &'a ToolContext,
    /// Where they are reported.
    pub(super) journal: &'a dyn Journal,
}

impl BatchRun<'_> {
    /// Makes the calls and reports each.
    pub(super) fn perform(&self, batch: &PreparedBatch<'_>) {
        for (call, reason) in &batch.refused {
            let outcome = CallOutcome::refused(reason.clone());
            self.record(call, None, &outcome);
            self.journal.finished(call, outcome.into_tool_outcome(&self.base_limits()));
        }
        self.perform_all(&batch.tasks);
    }

    /// Performs the tasks on as many threads as the bound allows; this thread is one of them.
    fn perform_all(&self, tasks: &[PreparedCall<'_>]) {
        let in_project = self.context.project_id.is_some();
        let uses = |task: &PreparedCall<'_>| if in_project { task.traits.files } else { FileAccess::None };
        let ordering = FileOrdering::new(tasks.iter().map(uses).collect());
        let about = tracing::Span::current();
        let work = || {
            let _about = about.enter(); // what a tool's thread logs is about the same job
            while let Some(turn) = ordering.next_turn() {
                if let Some(task) = tasks.get(turn.at()) {
                    self.perform_one(task);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.options.limits.workers.min(tasks.len()) {
                // A thread that cannot be had costs only parallelism.
                if thread::Builder::new().name("tool".to_owned()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn perform_one(&self, task: &PreparedCall<'_>) {
        let outcome =
            if self.context.cancel.is_cancelled() { CallOutcome::cancelled() } else { self.outcome(task) };
        let (duplicate, room) = (outcome.for_duplicate(), self.room(task));
        self.record(task.call, Some(task), &outcome);
        self.journal.finished(task.call, outcome.into_tool_outcome(&room));
        for call in &task.duplicates {
            self.record(call, Some(task), &duplicate);
            // One keeping is enough for all of them.
            self.journal
                .finished(call, ToolOutcome { whole: None, ..duplicate.clone().into_tool_outcome(&room) });
        }
    }

    /// From the cache, or of a run.
    fn outcome(&self, task: &PreparedCall<'_>) -> CallOutcome {
        let files = task.traits.files;
        if !(task.traits.cacheable && task.traits.idempotent) {
            let may_write = matches!(files, FileAccess::Writes | FileAccess::Runs);
            let _until_it_ends = may_write.then(|| self.cache.writing(self.context));
            return self.started(task);
        }
        let clock = &self.context.cancel.clock();
        let key = CacheKey::new(task.tool, &task.canonical, self.context);
        if let Some(data) = self.cache.get(&key, files, clock.monotonic_ms()) {
            return CallOutcome::cached(data);
        }
        let stamp = self.cache.stamp(&key, files);
        let outcome = self.started(task);
        if let Ok(data) = outcome.result() {
            self.cache.put(key, (files, stamp), data, clock.monotonic_ms());
        }
        outcome
    }

    /// What may not be run twice runs only when that it does is on record.
    fn started(&self, task: &PreparedCall<'_>) -> CallOutcome {
        let may_start = task.traits.idempotent || self.journal.started(task.call).is_continue();
        if may_start { self.call(task) } else { CallOutcome::cancelled() }
    }

    /// Counted, and into the audit log.
    fn record(&self, call: &ToolCall, task: Option<&PreparedCall<'_>>, outcome: &CallOutcome) {
        self.options.meter.record(sample(task, outcome));
        let Some(audit) = &self.options.audit else { return };
        let bare = audit_entry(call, self.context);
        let said = task.map(|task| Value::Object(task.arguments.clone()));
        audit.record(&AuditEntry {
            arguments: said.unwrap_or_else(|| bare.arguments.clone()),
            success: outcome.result().is_ok(),
            result: outcome.clone().into_tool_outcome(&self.base_limits()).content,
            duration_ms: outcome.millis(),
            level: task.and_then(|task| level(task, outcome)),
            skipped: outcome.why_not_run().map(str::to_owned),
            ..bare
        });
    }

    /// The room of a call's result. What reads results has none of its own to be read, and what nobody keeps cannot be.
    fn room(&self, task: &PreparedCall<'_>) -> ResultLimits {
        let mut readers = self.catalogue.tools().iter().filter(|tool| tool.reads_results);
        let is_kept = self.journal.keeps_full_result() && !task.tool.reads_results;
        let reader = readers.find(|_| is_kept && self.context.allowed.offers_any());
        let handle = || ResultHandle::of(self.context.job, &task.call.id_ref);
        ResultLimits {
            reader: reader.map(|tool| ResultReader { tool: tool.spec.name.to_string(), handle: handle() }),
            ..self.base_limits()
        }
    }

    fn base_limits(&self) -> ResultLimits {
        let limits = &self.options.limits;
        ResultLimits { chars: limits.result_chars, bytes: limits.result_bytes, reader: None }
    }

    fn call(&self, task: &PreparedCall<'_>) -> CallOutcome {
        let time = self.options.limits.timeout.saturating_add(task.tool.tool.own_timeout(&task.arguments));
        let cancel = self.context.cancel.with_timeout(time);
        let clock = cancel.clock().clone();
        let begun_ms = clock.monotonic_ms();
        let context = ToolContext { cancel, id_ref: task.call.id_ref.clone(), ..self.context.clone() };
        let report = JournalReporter { call: task.call, journal: self.journal };
        let run = || task.tool.tool.call_with_progress(&task.arguments, &context, &report);
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let name = task.tool.spec.name.as_ref();
            tracing::error!(tool = name, job = %context.job, "a tool panicked");
            let message = format!("the tool '{name}' crashed: a fault of this server, not of the arguments");
            Err(ToolError::Failed { message, data: Value::Null })
        });
        CallOutcome::ran(result, clock.monotonic_ms().saturating_sub(begun_ms))
    }
}

/// What is counted of a call.
fn sample<'a>(task: Option<&'a PreparedCall<'_>>, outcome: &CallOutcome) -> Measurement<'a> {
    let tool = task.map(|task| task.tool.spec.name.as_ref());
    let ran = if outcome.result().is_ok() { "succeeded" } else { "failed" };
    let took_us = outcome.why_not_run().is_none().then(|| outcome.millis().saturating_mul(1_000));
    Measurement::ToolCalled { tool, outcome: outcome.why_not_run().unwrap_or(ran), took_us }
}

/// The sandbox's level of a call that ran in one.
fn level(task: &PreparedCall<'_>, outcome: &CallOutcome) -> Option<String> {
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
struct JournalReporter<'a> {
    call: &'a ToolCall,
    journal: &'a dyn Journal,
}

impl ProgressReporter for JournalReporter<'_> {
    fn step(&self, step: AgentStep) {
        self.journal.stepped(self.call, step);
    }

    fn spent(&self, model: &str, usage: Usage) {
        self.journal.spent(self.call, model, usage);
    }
}
