//! The tool calls of the newest answer: which are started, settled and published. Results are published in
//! call order. Calls of the client's functions have no result here.

use crate::domain::approval::denied_result;
use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use std::collections::BTreeSet;

/// The result of a call that may or may not have run (P3).
pub const INTERRUPTED: &str =
    r#"{"success":false,"data":null,"error":"interrupted, outcome unknown","execution_time":0.0}"#;

/// The result of a call that was never made or whose result is lost.
pub(in crate::engine) const CANCELLED: &str =
    r#"{"success":false,"data":null,"error":"(cancelled)","execution_time":0.0}"#;

/// A user's decision about a call that needs approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallApproval {
    Approved,
    /// With the reason.
    Denied(String),
}

/// Content, whether the call was skipped, and when it ended.
pub(super) type SettledOutcome = (String, bool, Option<u64>);

/// A call of the current batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CallState {
    call: ToolCall,
    /// The client runs it, after the end of the job.
    is_client: bool,
    decision: Option<CallApproval>,
    started: bool,
    outcome: Option<SettledOutcome>,
    published: bool,
}

/// An outcome that is not applied yet: id of the call, content, whether the call was skipped.
pub(super) type NewOutcome<'a> = Option<(&'a str, &'a str, bool)>;

/// The calls of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallBatch {
    states: Vec<CallState>,
    /// The answer is complete; the next call opens a new batch.
    sealed: bool,
    /// Calls of the server's tools in earlier batches, without denied ones, and all calls of agents.
    earlier: usize,
}

impl CallBatch {
    /// Adds a call of the current answer.
    pub(super) fn add(&mut self, call: ToolCall, is_client: bool) {
        if std::mem::take(&mut self.sealed) {
            self.clear();
        }
        let (decision, outcome) = (None, None);
        self.states.push(CallState { call, is_client, decision, started: false, outcome, published: false });
    }

    /// Completes the answer and returns its calls.
    pub(super) fn seal(&mut self) -> Vec<ToolCall> {
        if std::mem::replace(&mut self.sealed, true) {
            self.clear();
        }
        self.states.iter().map(|state| state.call.clone()).collect()
    }

    fn clear(&mut self) {
        self.earlier = self.earlier.saturating_add(self.not_denied().count());
        self.states.clear();
    }

    /// The calls of the server's tools beyond the first `most` of the job that have neither started nor an
    /// outcome. Denied calls do not count.
    pub(super) fn beyond(&self, most: u32) -> Vec<ToolCall> {
        let left = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(self.earlier);
        let excess = self.not_denied().skip(left);
        let waiting = excess.filter(|s| !s.started && !s.published && s.outcome.is_none());
        waiting.map(|s| s.call.clone()).collect()
    }

    /// How many calls are left of `most`, beside those of the newest answer.
    pub(super) fn left(&self, most: u32) -> u64 {
        let made = self.earlier.saturating_add(self.not_denied().count());
        u64::from(most).saturating_sub(u64::try_from(made).unwrap_or(u64::MAX))
    }

    /// An agent of the job has made a call.
    pub(super) fn count_agent_call(&mut self) {
        self.earlier = self.earlier.saturating_add(1);
    }

    fn not_denied(&self) -> impl Iterator<Item = &CallState> {
        self.server_calls().filter(|s| !matches!(s.decision, Some(CallApproval::Denied(_))))
    }

    /// Records a decision about these calls; the last one counts.
    pub(super) fn decide(&mut self, id_refs: &[String], decision: &CallApproval) {
        for id_ref in id_refs {
            if let Some(state) = self.unsettled_mut(id_ref) {
                state.decision = Some(decision.clone());
            }
        }
    }

    pub(super) fn start(&mut self, id_ref: &str) {
        if let Some(state) = self.unsettled_mut(id_ref) {
            state.started = true;
        }
    }

    pub(super) fn settle(&mut self, id_ref: &str, outcome: SettledOutcome) {
        if let Some(state) = self.unsettled_mut(id_ref) {
            state.outcome = Some(outcome);
        }
    }

    /// Marks the call as published and returns it.
    pub(super) fn publish(&mut self, id_ref: &str) -> Option<&ToolCall> {
        let state = self.states.iter_mut().find(|s| s.call.id_ref == id_ref && !s.published)?;
        state.published = true;
        Some(&state.call)
    }

    fn unsettled_mut(&mut self, id_ref: &str) -> Option<&mut CallState> {
        self.states.iter_mut().find(|s| s.call.id_ref == id_ref && s.outcome.is_none() && !s.published)
    }

    /// The call with this id, if it has neither a result nor an outcome.
    pub(super) fn find(&self, id_ref: &str) -> Option<&ToolCall> {
        self.without_outcome().map(|s| &s.call).find(|call| call.id_ref == id_ref)
    }

    pub(super) fn has_started(&self, id_ref: &str) -> bool {
        self.states.iter().any(|s| s.call.id_ref == id_ref && s.started)
    }

    /// Marks for the calls that may or may not have run. Only calls that must not run twice have a start
    /// mark.
    pub(super) fn interrupted(&self) -> Vec<Record> {
        let started = self.without_outcome().filter(|s| s.started);
        started.map(|s| finished_mark(&s.call.id_ref, INTERRUPTED, true)).collect()
    }

    /// Marks for the calls that were denied.
    pub(super) fn denied(&self) -> Vec<Record> {
        let refused = self.without_outcome().filter_map(|s| match &s.decision {
            Some(CallApproval::Denied(reason)) => Some((&s.call, reason)),
            Some(CallApproval::Approved) | None => None,
        });
        refused.map(|(call, reason)| finished_mark(&call.id_ref, &denied_result(reason), true)).collect()
    }

    /// The calls that need approval and have no decision yet.
    pub(super) fn undecided(&self, needs_approval: &dyn Fn(&str) -> bool) -> Vec<ToolCall> {
        let undecided =
            self.without_outcome().filter(|s| s.decision.is_none() && needs_approval(&s.call.name));
        undecided.map(|s| s.call.clone()).collect()
    }

    /// The ids of the approved calls: each by itself, or all of its tool.
    pub(super) fn approved(&self, always: &BTreeSet<String>) -> Vec<String> {
        let approved = self.states.iter().filter(|s| match &s.decision {
            Some(decision) => *decision == CallApproval::Approved,
            None => always.contains(&s.call.name),
        });
        approved.map(|s| s.call.id_ref.clone()).collect()
    }

    /// The calls that have neither a result nor an outcome.
    pub(super) fn unsettled(&self) -> Vec<ToolCall> {
        self.without_outcome().map(|s| s.call.clone()).collect()
    }

    /// Whether there are calls that only the client can answer.
    pub(super) fn has_client_calls(&self) -> bool {
        self.states.iter().any(|s| s.is_client)
    }

    fn without_outcome(&self) -> impl Iterator<Item = &CallState> {
        self.server_calls().filter(|s| !s.published && s.outcome.is_none())
    }

    fn server_calls(&self) -> impl Iterator<Item = &CallState> {
        self.states.iter().filter(|s| !s.is_client)
    }

    /// The results that may be published now, numbered from `first_index`: up to the first call without an
    /// outcome.
    pub(super) fn publishable(&self, first_index: u32, new_outcome: NewOutcome<'_>) -> Vec<Record> {
        let outcome = |state: &CallState| match (&state.outcome, new_outcome) {
            (Some(settled), _) => Some(settled.clone()),
            (None, Some((id_ref, content, skipped))) if state.call.id_ref == id_ref => {
                Some((content.to_owned(), skipped, None))
            }
            _ => None,
        };
        let ready = self.server_calls().filter(|s| !s.published).map_while(|s| Some((s, outcome(s)?)));
        (first_index..)
            .zip(ready)
            .map(|(index, (state, (content, skipped, ended_at_ms)))| {
                let (id_ref, name) = (state.call.id_ref.clone(), state.call.name.clone());
                Event::ToolResult { index, id_ref, name, content, skipped, ended_at_ms }.into()
            })
            .collect()
    }

    /// The results that the conversation keeps for calls without a published one. The client brings its own.
    pub(super) fn closing(&self) -> impl Iterator<Item = Message> {
        self.server_calls().filter(|s| !s.published).map(|state| {
            let content = state.outcome.as_ref().map_or(CANCELLED, |(content, ..)| content).to_owned();
            result_message(&state.call, content)
        })
    }
}

/// The mark of an outcome that is not published yet.
pub(super) fn finished_mark(id_ref: &str, content: &str, skipped: bool) -> Record {
    let (id_ref, content, ended_at_ms) = (id_ref.to_owned(), content.to_owned(), None);
    EngineMark::ToolFinished { id_ref, content, skipped, ended_at_ms }.into()
}

/// The result as a message for the model.
pub(super) fn result_message(call: &ToolCall, content: String) -> Message {
    Message::Tool { id_ref: call.id_ref.clone(), name: call.name.clone(), content }
}
