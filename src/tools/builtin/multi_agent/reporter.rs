//! Reports a sub-agent's steps to the log of the job, and collects the results of its tool calls.

use crate::domain::call_times::{AgentModelCall, CallTimes, ToolResultFields};
use crate::domain::event::{AgentAction, AgentStep};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::{Clock, JobBudget, Journal, ProgressReporter, ToolOutcome};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Characters of each text in the log.
pub(super) const STEP_CHARS: usize = 4_000;

/// Reports the steps of one agent.
pub(super) struct StepReporter<'a> {
    report: &'a dyn ProgressReporter,
    id_ref: &'a str,
    agent: &'a str,
    index: u32,
}

impl<'a> StepReporter<'a> {
    pub(super) fn new(report: &'a dyn ProgressReporter, id_ref: &'a str, agent: &'a str) -> Self {
        Self { report, id_ref, agent, index: 0 }
    }

    pub(super) fn model_replied(&mut self, thinking: &str, text: &str) {
        if !thinking.is_empty() {
            self.step(AgentAction::Thinking { content: cut(thinking) }, None);
        }
        if !text.is_empty() {
            self.step(AgentAction::Text { content: cut(text) }, None);
        }
    }

    pub(super) fn tools_called(&mut self, calls: &[ToolCall]) {
        for call in calls {
            let (name, arguments) = (cut(&call.name), cut(&call.arguments));
            self.step(AgentAction::ToolCall { name, arguments }, None);
        }
    }

    pub(super) fn tool_finished(&mut self, name: &str, content: &str, times: CallTimes) {
        self.step(AgentAction::ToolResult { name: cut(name), content: cut(content) }, Some(times));
    }

    /// A model call of the agent.
    pub(super) fn model_call(
        &self,
        response_model: Option<String>,
        has_failed: bool,
        times: CallTimes,
    ) -> AgentModelCall {
        let (id_ref, agent) = (self.id_ref.to_owned(), self.agent.to_owned());
        AgentModelCall { id_ref, agent, response_model, has_failed, times }
    }

    fn step(&mut self, act: AgentAction, times: Option<CallTimes>) {
        let (id_ref, agent) = (self.id_ref.to_owned(), self.agent.to_owned());
        self.report.step(AgentStep { id_ref, agent, index: self.index, act }, times);
        self.index = self.index.saturating_add(1);
    }
}

/// The beginning of a text, with an ellipsis if it was cut.
fn cut(text: &str) -> String {
    match text.char_indices().nth(STEP_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The result of a tool call of an agent.
pub(super) struct AgentToolResult {
    pub(super) content: String,
    /// When the tool ran.
    pub(super) times: CallTimes,
}

/// Collects the results of an agent's tool calls.
pub(super) struct ResultCollector<'a> {
    report: &'a dyn ProgressReporter,
    budget: &'a JobBudget,
    clock: &'a dyn Clock,
    results: Mutex<BTreeMap<String, AgentToolResult>>,
}

impl<'a> ResultCollector<'a> {
    pub(super) fn new(report: &'a dyn ProgressReporter, budget: &'a JobBudget, clock: &'a dyn Clock) -> Self {
        Self { report, budget, clock, results: Mutex::default() }
    }

    /// Each call with its result.
    pub(super) fn in_order(self, calls: &[ToolCall]) -> Vec<(&ToolCall, AgentToolResult)> {
        let now_ms = self.clock.now_ms();
        let mut results = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let times = CallTimes { started_at_ms: now_ms, ended_at_ms: now_ms };
        let none = || AgentToolResult { content: String::new(), times };
        calls.iter().map(|call| (call, results.remove(&call.id_ref).unwrap_or_else(none))).collect()
    }
}

impl Journal for ResultCollector<'_> {
    /// The log has the start of the call that the agent works for.
    fn started(&self, _: &ToolCall) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&self, call: &ToolCall, outcome: ToolOutcome) {
        let ToolOutcome { content, skipped, .. } = outcome;
        let ended_at_ms = self.clock.now_ms();
        let ran_ms = if skipped { 0 } else { ToolResultFields::read(&content).execution_ms() };
        let times = CallTimes { started_at_ms: ended_at_ms.saturating_sub(ran_ms), ended_at_ms };
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(call.id_ref.clone(), AgentToolResult { content, times });
    }

    /// The job cannot read the results of an agent's tools.
    fn keeps_full_result(&self) -> bool {
        false
    }

    fn spent(&self, _: &ToolCall, model: &str, usage: Usage, of_call: Option<AgentModelCall>) {
        self.budget.spend(usage);
        self.report.spent(model, usage, of_call);
    }
}
