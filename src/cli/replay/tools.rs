//! Toolboxes of a replay: results of the recording, or a refusal of all calls.

use super::recording::{RunRecording, call_key};
use super::store::ReplayStore;
use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::handle::ResultHandle;
use crate::domain::tool::{ToolCall, ToolChoice, ToolDefinition};
use crate::ports::{
    FullResult, Journal, SeenFile, ToolContext, ToolOutcome, ToolScope, Toolbox, WorkspaceOwner,
};
use crate::tools::schema_mismatch;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// The recording has no further act of the calls: it was interrupted here.
const BREAK: ControlFlow<(), Option<String>> = ControlFlow::Break(());

/// Reports what the recording has at the place where the log is.
pub(super) struct CheckingTools {
    store: Arc<ReplayStore>,
    guarded: BTreeSet<String>,
}

impl CheckingTools {
    pub(super) fn new(store: Arc<ReplayStore>) -> Self {
        let guarded = store.log().recording().guarded_tools();
        Self { store, guarded }
    }

    fn place(&self) -> usize {
        self.store.log().len()
    }

    /// Reports one recorded act of these calls. Returns the call that it ends; `Break` if the recording has
    /// none here.
    fn report(
        &self,
        recording: &RunRecording,
        calls: &[ToolCall],
        journal: &dyn Journal,
    ) -> ControlFlow<(), Option<String>> {
        let (mut full_result, mut seen, mut place) = (None, Vec::new(), self.place());
        let own = |id_ref: &str| calls.iter().find(|call| call.id_ref == id_ref);
        loop {
            match recording.at(place) {
                Some(Record::Mark(EngineMark::ToolWhole { handle, content })) => {
                    let job = self.store.job_id();
                    full_result = ResultHandle::parse(handle, job)
                        .map(|handle| FullResult { handle, content: content.clone() });
                }
                Some(Record::Mark(EngineMark::FileSeen { path, version })) => {
                    seen.push(SeenFile { path: path.clone(), version: version.clone() });
                }
                Some(Record::Mark(EngineMark::ToolStarted { id_ref })) => {
                    return own(id_ref).map_or(BREAK, |call| journal.started(call).map_continue(|()| None));
                }
                Some(Record::Mark(EngineMark::Spent { model, usage, agent })) => {
                    let Some(call) = calls.first() else { return BREAK };
                    journal.spent(call, model, *usage, agent.clone());
                    return ControlFlow::Continue(None);
                }
                Some(Record::Event(Event::AgentStep { step, times })) => {
                    let Some(call) = own(&step.id_ref) else { return BREAK };
                    journal.stepped(call, step.clone(), *times);
                    return ControlFlow::Continue(None);
                }
                Some(
                    Record::Event(Event::ToolResult { id_ref, content, skipped, .. })
                    | Record::Mark(EngineMark::ToolFinished { id_ref, content, skipped, .. }),
                ) => {
                    let Some(call) = own(id_ref) else { return BREAK };
                    if !seen.is_empty() {
                        journal.saw_files(call, seen);
                    }
                    let outcome = ToolOutcome { content: content.clone(), skipped: *skipped, full_result };
                    journal.finished(call, outcome);
                    return ControlFlow::Continue(Some(id_ref.clone()));
                }
                _ => return BREAK,
            }
            place = place.saturating_add(1);
        }
    }
}

impl Toolbox for CheckingTools {
    fn offered(&self, _: &ToolScope<'_>) -> Vec<ToolDefinition> {
        Vec::new()
    }

    /// What they said in the recorded run.
    fn instructions(&self, _: &ToolScope<'_>, _: WorkspaceOwner) -> Vec<String> {
        let log = self.store.log();
        log.recording().instructions_of_run(log.len()).0.to_vec()
    }

    fn has_tool(&self, name: &str) -> bool {
        self.guarded.contains(name)
    }

    fn is_refused(&self, _: &str, _: &ToolScope<'_>) -> bool {
        false
    }

    /// Those that the recorded run asked about, whatever asked for it.
    fn needs_approval(&self, name: &str, _: &[String]) -> bool {
        self.guarded.contains(name)
    }

    fn mismatch(&self, schema: &Value, value: &Value) -> Option<String> {
        schema_mismatch(schema, value)
    }

    fn run(&self, calls: &[ToolCall], _: &ToolContext, journal: &dyn Journal) {
        let recording = Arc::clone(self.store.log().recording());
        let mut open: BTreeSet<&str> = calls.iter().map(|call| call.id_ref.as_str()).collect();
        while !open.is_empty() {
            let place = self.place();
            let reported = self.report(&recording, calls, journal);
            if let ControlFlow::Continue(Some(ended)) = &reported {
                open.remove(ended.as_str());
            }
            if reported.is_break() || self.place() == place {
                return;
            }
        }
    }
}

/// What a replay with another model, or without the recorded tools, does with calls.
pub(super) struct AnsweringTools {
    /// Defines the tools; `None`: no model asks for them.
    inner: Option<Arc<dyn Toolbox>>,
    /// `None`: every call is denied.
    results: Option<Mutex<BTreeMap<String, VecDeque<String>>>>,
}

impl AnsweringTools {
    /// Answers with the results of the recording.
    pub(super) fn recorded(inner: Option<Arc<dyn Toolbox>>, recording: &RunRecording) -> Self {
        Self { inner, results: Some(Mutex::new(recording.results())) }
    }

    /// Denies every call.
    pub(super) fn denying(inner: Option<Arc<dyn Toolbox>>) -> Self {
        Self { inner, results: None }
    }

    fn answer(&self, call: &ToolCall) -> String {
        let Some(results) = &self.results else {
            return refusal("this replay denies all tools (--tools deny)");
        };
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = results.get_mut(&call_key(call)).and_then(|results| match results.len() {
            0 | 1 => results.front().cloned(),
            _ => results.pop_front(),
        });
        recorded.unwrap_or_else(|| {
            refusal("the recorded run has no call of this tool with these arguments, so there is no result")
        })
    }
}

fn refusal(error: &str) -> String {
    json!({"success": false, "data": null, "error": error, "execution_time": 0.0}).to_string()
}

impl Toolbox for AnsweringTools {
    fn offered(&self, scope: &ToolScope<'_>) -> Vec<ToolDefinition> {
        self.inner.as_ref().map(|inner| inner.offered(scope)).unwrap_or_default()
    }

    fn resolve(&self, choice: &ToolChoice, model: &str) -> ToolChoice {
        self.inner.as_ref().map_or_else(|| choice.clone(), |inner| inner.resolve(choice, model))
    }

    fn has_tool(&self, name: &str) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.has_tool(name))
    }

    fn is_refused(&self, _: &str, _: &ToolScope<'_>) -> bool {
        false
    }

    fn mismatch(&self, schema: &Value, value: &Value) -> Option<String> {
        schema_mismatch(schema, value)
    }

    fn run(&self, calls: &[ToolCall], _: &ToolContext, journal: &dyn Journal) {
        for call in calls {
            let outcome = ToolOutcome { content: self.answer(call), skipped: false, full_result: None };
            journal.finished(call, outcome);
        }
    }
}
