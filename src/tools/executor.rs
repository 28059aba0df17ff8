//! Runs batches of calls. Owns threads, timeouts, panics and reports; refuses to know any tool by name (P6), to run
//! what was not allowed, and to retry behind the model's back.

use super::batch::{Batch, Task};
use super::cut::{Reader, Room};
use super::outcome::Outcome;
use super::schema::Schema;
use crate::domain::handle::ResultHandle;
use crate::domain::limits::Limits;
use crate::domain::tool::{Aliases, ToolCall, ToolChoice, ToolSpec, ToolTraits};
use crate::ports::{Journal, Tool, ToolContext, ToolError, ToolOutcome, Toolbox};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Why a set of tools cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tool's schema does not compile.
    #[error("tool '{tool}' has a bad schema: {reason}")]
    BadSchema {
        /// Whose.
        tool: String,
        /// Why.
        reason: String,
    },
    /// Two tools of one name, aliases counted: a call could mean either.
    #[error("tool '{0}' is registered twice")]
    Twice(String),
}

/// The bounds of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of one batch that run at once.
    pub workers: usize,
    /// Longest run of one call.
    pub timeout: Duration,
    /// Longest result as the model sees it, characters.
    pub result_chars: usize,
    /// Longest result as it is kept, bytes.
    pub result_bytes: usize,
}

impl Bounds {
    /// From the limits and `tool_max_workers`.
    pub fn new(limits: &Limits, workers: usize) -> Self {
        let timeout = Duration::from_secs(limits.tool_timeout_s);
        let (result_chars, result_bytes) = (limits.tool_result_chars, limits.tool_result_bytes);
        Self { workers: workers.max(1), timeout, result_chars, result_bytes }
    }
}

/// A tool and what is known of it once and for all.
pub(super) struct Registered {
    tool: Box<dyn Tool>,
    /// What models are told.
    pub(super) spec: ToolSpec,
    /// What its runs may do.
    pub(super) traits: ToolTraits,
    /// Its other names.
    pub(super) aliases: Aliases,
    /// It reads what was cut of other tools' results.
    reads_results: bool,
    /// What its arguments must look like.
    pub(super) schema: Schema,
}

impl Registered {
    /// Its name and its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.spec.name.as_ref()).chain(self.aliases.names.iter().copied())
    }

    /// Whether the job lists it, by whichever of its names.
    fn is_named(&self, choice: &ToolChoice) -> bool {
        matches!(choice, ToolChoice::Named(_)) && self.names().any(|name| choice.allows(name))
    }

    /// Whether the job may use it, by whichever of its names the job lists it.
    pub(super) fn is_allowed(&self, choice: &ToolChoice) -> bool {
        let goes_along = self.reads_results && choice.offers_any();
        goes_along || self.names().any(|name| choice.allows(name))
    }
}

/// The toolbox.
pub struct Executor {
    tools: Vec<Registered>,
    bounds: Bounds,
    /// The tools whose calls wait for somebody's approval; `*`: all of them.
    approval: Vec<String>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.tools.iter().map(|tool| tool.spec.name.as_ref()).collect();
        f.debug_struct("Executor")
            .field("tools", &names)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// Serves these tools, in alphabetical order, or says which of them cannot be served.
    pub fn new(tools: Vec<Box<dyn Tool>>, bounds: Bounds) -> Result<Self, Error> {
        let register = |tool: Box<dyn Tool>| {
            let (spec, traits) = (tool.spec(), tool.traits());
            let bad = |reason| Error::BadSchema { tool: spec.name.to_string(), reason };
            let schema = Schema::compile(&spec.parameters).map_err(bad)?;
            let (aliases, reads_results) = (tool.aliases(), tool.reads_results());
            Ok(Registered { tool, spec, traits, aliases, reads_results, schema })
        };
        let mut tools = tools.into_iter().map(register).collect::<Result<Vec<_>, _>>()?;
        tools.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
        let mut names: Vec<&str> = tools.iter().flat_map(Registered::names).collect();
        names.sort_unstable();
        if let Some((twice, _)) = names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
            return Err(Error::Twice((*twice).to_owned()));
        }
        Ok(Self { tools, bounds, approval: Vec::new() })
    }

    /// The same, but that calls of these tools wait for somebody's approval.
    #[must_use]
    pub fn asking_about(self, approval: Vec<String>) -> Self {
        Self { approval, ..self }
    }

    fn find(&self, name: &str) -> Option<&Registered> {
        self.tools.iter().find(|tool| tool.names().any(|known| known == name))
    }

    fn perform(&self, task: &Task<'_>, context: &ToolContext, journal: &dyn Journal) {
        let may_start = || task.tool.traits.idempotent || journal.started(task.call).is_continue();
        let outcome = if !context.leash.is_pulled() && may_start() {
            self.call(task, context)
        } else {
            Outcome::cancelled()
        };
        let (twin, room) = (outcome.for_twin(), self.room(task, context));
        journal.finished(task.call, outcome.into_tool_outcome(&room));
        for call in &task.twins {
            // One keeping is enough for all of them.
            journal.finished(call, ToolOutcome { whole: None, ..twin.clone().into_tool_outcome(&room) });
        }
    }

    /// The room of a call's result. What reads results has none of its own to be read.
    fn room(&self, task: &Task<'_>, context: &ToolContext) -> Room {
        let mut readers = self.tools.iter().filter(|tool| tool.reads_results);
        let reader = readers.find(|_| !task.tool.reads_results && context.allowed.offers_any());
        let handle = || ResultHandle::of(context.job, &task.call.id_ref);
        Room {
            reader: reader.map(|tool| Reader { tool: tool.spec.name.to_string(), handle: handle() }),
            ..self.bare_room()
        }
    }

    fn bare_room(&self) -> Room {
        Room { chars: self.bounds.result_chars, bytes: self.bounds.result_bytes, reader: None }
    }

    fn call(&self, task: &Task<'_>, context: &ToolContext) -> Outcome {
        let time = self.bounds.timeout.saturating_add(task.tool.tool.own_time(&task.arguments));
        let leash = context.leash.shortened(time);
        let clock = leash.clock.clone();
        let begun_ms = clock.monotonic_ms();
        let context = ToolContext { leash, id_ref: task.call.id_ref.clone(), ..context.clone() };
        let name = task.tool.spec.name.as_ref();
        let result = catch_unwind(AssertUnwindSafe(|| task.tool.tool.call(&task.arguments, &context)));
        let result = result.unwrap_or_else(|_| {
            tracing::error!(tool = name, job = %context.job, "a tool panicked");
            let message = format!("the tool '{name}' crashed: a fault of this server, not of the arguments");
            Err(ToolError::Failed { message, data: Value::Null })
        });
        Outcome::ran(result, clock.monotonic_ms().saturating_sub(begun_ms))
    }

    /// Performs the tasks on as many threads as the bound allows; this thread is one of them.
    fn perform_all(&self, tasks: &[Task<'_>], context: &ToolContext, journal: &dyn Journal) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.perform(task, context, journal);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.bounds.workers.min(tasks.len()) {
                // A thread that cannot be had costs only parallelism.
                if thread::Builder::new().name("tool".to_owned()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }
}

impl Toolbox for Executor {
    fn offered(&self, choice: &ToolChoice, has_results: bool) -> Vec<ToolSpec> {
        let is_offered = |tool: &&Registered| {
            let is_wanted = !tool.reads_results || has_results || tool.is_named(choice);
            is_wanted && tool.is_allowed(choice)
        };
        self.tools.iter().filter(is_offered).map(|tool| tool.spec.clone()).collect()
    }

    fn knows(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn is_idempotent(&self, name: &str, has_project: bool) -> bool {
        self.find(name).is_none_or(|tool| tool.tool.traits_in(has_project).idempotent)
    }

    fn needs_approval(&self, name: &str) -> bool {
        let is_named = |tool: &Registered| {
            self.approval.iter().any(|wanted| wanted == "*" || tool.names().any(|name| name == wanted))
        };
        self.find(name).is_some_and(is_named)
    }

    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        let batch = Batch::prepare(calls, &self.tools, &context.allowed);
        for (call, reason) in batch.refused {
            journal.finished(call, Outcome::refused(reason).into_tool_outcome(&self.bare_room()));
        }
        self.perform_all(&batch.tasks, context, journal);
    }
}

#[cfg(test)]
mod face_tests;
#[cfg(test)]
pub(super) mod tests;
