//! Runs a prepared batch: threads, file order, cache, timeouts, panics, and the report of each call. It knows
//! no tool by name (P6) and retries nothing.

use super::audit_entry::audit_entry;
use super::batch::{PreparedBatch, PreparedCall};
use super::cache::{CacheKey, ResultCache};
use super::catalogue::ToolCatalogue;
use super::file_ordering::FileOrdering;
use super::options::ExecutorOptions;
use super::outcome::CallOutcome;
use super::truncate::{FullResultReader, ResultLimits};
use crate::domain::call_times::{AgentModelCall, CallTimes};
use crate::domain::event::AgentStep;
use crate::domain::handle::ResultHandle;
use crate::domain::tool::{FileAccess, ToolCall, ToolOrigin};
use crate::domain::usage::Usage;
use crate::ports::{
    AuditEntry, Journal, Measurement, ProgressReporter, SeenFiles, ToolContext, ToolError, ToolOutcome,
};
use crate::tools::parallel;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A batch that runs.
pub(super) struct BatchRun<'a> {
    pub(super) options: &'a ExecutorOptions,
    /// The tools at the start of the batch.
    pub(super) catalogue: &'a ToolCatalogue,
    pub(super) cache: &'a ResultCache,
    pub(super) context: &'a ToolContext,
    /// Receives the results.
    pub(super) journal: &'a dyn Journal,
}

impl BatchRun<'_> {
    /// Runs the batch on as many threads as the limit allows and reports each call.
    pub(super) fn perform(&self, batch: &PreparedBatch<'_>) {
        for (call, reason) in &batch.refused {
            let outcome = CallOutcome::refused(reason.clone());
            let result = outcome.to_tool_outcome(&self.base_limits());
            self.record(call, None, &outcome, &result);
            self.journal.finished(call, result);
        }
        let has_files = self.context.has_workspace();
        let uses = |call: &PreparedCall<'_>| if has_files { call.traits.files } else { FileAccess::None };
        let ordering = FileOrdering::new(batch.calls.iter().map(uses).collect());
        parallel::on_threads("tool", self.options.limits.workers.min(batch.calls.len()), || {
            while let Some(turn) = ordering.next_turn() {
                let Some(prepared) = batch.calls.get(turn.at()) else { continue };
                let seen_files = self.context.seen_files.for_call();
                let outcome = self.execute(prepared, &seen_files);
                self.journal.saw_files(prepared.call, seen_files.take_recorded());
                let limits = self.limits(prepared);
                let result = outcome.to_tool_outcome(&limits);
                self.record(prepared.call, Some(prepared), &outcome, &result);
                self.journal.finished(prepared.call, result);
                for call in &prepared.duplicates {
                    let duplicate = outcome.for_duplicate();
                    // The full result is stored once for all duplicates.
                    let result = ToolOutcome { full_result: None, ..duplicate.to_tool_outcome(&limits) };
                    self.record(call, Some(prepared), &duplicate, &result);
                    self.journal.finished(call, result);
                }
            }
        });
    }

    /// The result of a call, from the cache or of its run. A call that is not idempotent runs only after the
    /// journal has recorded its start.
    fn execute(&self, prepared: &PreparedCall<'_>, seen_files: &SeenFiles) -> CallOutcome {
        if self.context.cancel.is_cancelled() {
            return CallOutcome::cancelled();
        }
        let (traits, tool) = (prepared.traits, prepared.tool);
        let may_write = matches!(traits.files, FileAccess::Writes | FileAccess::Runs);
        let is_cacheable = traits.cacheable && traits.idempotent;
        let _write = (may_write && !is_cacheable).then(|| self.cache.writing(self.context));
        let key =
            is_cacheable.then(|| CacheKey::new(tool, (&prepared.canonical, traits.files), self.context));
        let clock = self.context.cancel.clock();
        if let Some(data) =
            key.as_ref().and_then(|key| self.cache.get(key, traits.files, clock.monotonic_ms()))
        {
            return CallOutcome::cached(data);
        }
        let cache_slot = key.map(|key| (self.cache.stamp(&key, traits.files), key));
        if !traits.idempotent && self.journal.started(prepared.call).is_break() {
            return CallOutcome::cancelled();
        }
        let timeout = self.options.limits.timeout.saturating_add(tool.tool.own_timeout(&prepared.arguments));
        let cancel = self.context.cancel.with_timeout(timeout);
        let started_ms = clock.monotonic_ms();
        let (id_ref, seen_files) = (prepared.call.id_ref.clone(), seen_files.clone());
        let context = ToolContext { seen_files, id_ref, cancel, ..self.context.clone() };
        let reporter = JournalReporter { call: prepared.call, journal: self.journal };
        let run = || tool.tool.call_with_progress(&prepared.arguments, &context, &reporter);
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let name = tool.spec.name.as_ref();
            tracing::error!(tool = name, job = %context.job, "tool panicked");
            let message = format!("the tool '{name}' crashed: a fault of this server, not of the arguments");
            Err(ToolError::Failed { message, data: Value::Null })
        });
        let outcome = CallOutcome::ran(result, clock.monotonic_ms().saturating_sub(started_ms));
        if let (Some((stamp, key)), Ok(data)) = (cache_slot, outcome.result()) {
            self.cache.put(key, (traits.files, stamp), data, clock.monotonic_ms());
        }
        outcome
    }

    /// Counts the call and writes it to the audit log.
    fn record(
        &self,
        call: &ToolCall,
        prepared: Option<&PreparedCall<'_>>,
        outcome: &CallOutcome,
        result: &ToolOutcome,
    ) {
        self.options.meter.record(measurement(prepared, outcome));
        let Some(audit) = &self.options.audit else { return };
        let entry = audit_entry(call, self.context);
        let arguments = prepared.map(|prepared| Value::Object(prepared.arguments.clone()));
        audit.record(&AuditEntry {
            arguments: arguments.unwrap_or_else(|| entry.arguments.clone()),
            success: outcome.result().is_ok(),
            result: result.content.clone(),
            duration_ms: outcome.millis(),
            level: prepared.and_then(|prepared| sandbox_level(prepared, outcome)),
            skipped: outcome.skip_reason().map(str::to_owned),
            ..entry
        });
    }

    /// The limits of a call's result. The full result is stored only if the job has a tool that reads it and
    /// the call is not one of that tool.
    fn limits(&self, prepared: &PreparedCall<'_>) -> ResultLimits {
        let mut readers = self.catalogue.tools().iter().filter(|tool| tool.reads_results);
        let is_stored = self.journal.keeps_full_result() && !prepared.tool.reads_results;
        let reader = readers.find(|_| is_stored && self.context.rights.tools.offers_any());
        let handle = || ResultHandle::of(self.context.job, &prepared.call.id_ref);
        ResultLimits {
            reader: reader
                .map(|tool| FullResultReader { tool: tool.spec.name.to_string(), handle: handle() }),
            ..self.base_limits()
        }
    }

    fn base_limits(&self) -> ResultLimits {
        let limits = &self.options.limits;
        ResultLimits { chars: limits.result_chars, bytes: limits.result_bytes, reader: None }
    }
}

fn measurement<'a>(prepared: Option<&'a PreparedCall<'_>>, outcome: &CallOutcome) -> Measurement<'a> {
    let tool = prepared.map(|prepared| prepared.tool.spec.name.as_ref());
    let ran = if outcome.result().is_ok() { "succeeded" } else { "failed" };
    let took_us = outcome.skip_reason().is_none().then(|| outcome.millis().saturating_mul(1_000));
    Measurement::ToolCalled { tool, outcome: outcome.skip_reason().unwrap_or(ran), took_us }
}

/// The sandbox level of a call that ran in the sandbox. Only results of built-in tools are trusted.
fn sandbox_level(prepared: &PreparedCall<'_>, outcome: &CallOutcome) -> Option<String> {
    let data = match outcome.result() {
        Ok(data) | Err(ToolError::Failed { data, .. }) => Some(data),
        Err(ToolError::Invalid(_)) => None,
    };
    let tool = &prepared.tool.tool;
    let is_builtin = tool.origin() == ToolOrigin::BuiltIn;
    let reported =
        data.filter(|_| is_builtin).and_then(|data| data.get("strictness")).and_then(Value::as_str);
    let fixed = tool.level().filter(|_| outcome.skip_reason().is_none());
    fixed.or(reported).map(str::to_owned)
}

/// Writes the progress of a running call to the log of its job.
struct JournalReporter<'a> {
    call: &'a ToolCall,
    journal: &'a dyn Journal,
}

impl ProgressReporter for JournalReporter<'_> {
    fn step(&self, step: AgentStep, times: Option<CallTimes>) {
        self.journal.stepped(self.call, step, times);
    }

    fn spent(&self, model: &str, usage: Usage, of_call: Option<AgentModelCall>) {
        self.journal.spent(self.call, model, usage, of_call);
    }
}
