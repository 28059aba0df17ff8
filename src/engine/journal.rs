//! Where running tools report. Owns the order of their records: log and state change together, under one lock. Refuses to
//! run anything.

use super::progress::Progress;
use super::setup::{Ports, spent_in};
use super::turn::Turn;
use crate::domain::event::{AgentStep, EngineMark, Event, Record};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::{CancelReason, Journal, Lease, StoreError, ToolOutcome, Urgency};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Writes what the executor reports into the log: one tool thread at a time, in the order in which it is reported.
pub(super) struct LogJournal<'a> {
    ports: &'a Ports,
    lease: &'a Lease,
    state: Mutex<State<'a>>,
    progress: &'a Progress,
}

struct State<'a> {
    turn: &'a mut Turn,
    /// The first write that failed: nothing is written after it.
    broken: Option<StoreError>,
}

impl<'a> LogJournal<'a> {
    /// Keeps `turn` up to date with what it writes under `lease`.
    pub(super) fn new(
        ports: &'a Ports,
        lease: &'a Lease,
        turn: &'a mut Turn,
        progress: &'a Progress,
    ) -> Self {
        Self { ports, lease, state: Mutex::new(State { turn, broken: None }), progress }
    }

    /// Whether everything that was reported stands in the log.
    pub(super) fn close(self) -> Result<(), StoreError> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).broken.map_or(Ok(()), Err)
    }

    /// Sends the records while the state is locked, so that log order and state order are one; waits outside.
    fn append(&self, records: impl FnOnce(&Turn) -> Vec<Record>) -> ControlFlow<()> {
        let (ticket, spent) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.broken.is_some() {
                return ControlFlow::Break(());
            }
            let records = records(state.turn);
            for record in &records {
                state.turn.apply(record);
            }
            self.progress.grow();
            let spent = spent_in(&records, &self.lease.spec.model);
            (self.ports.store.append(self.lease.fence(), records, Urgency::Now), spent)
        };
        match ticket.wait() {
            Ok(()) => {
                self.ports.tell_spent(&spent);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).broken.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Whether the next run of the job makes this call again when no outcome is recorded.
    fn would_rerun(&self, call: &ToolCall) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        !state.turn.has_started(&call.id_ref)
    }
}

impl Journal for LogJournal<'_> {
    fn started(&self, call: &ToolCall) -> ControlFlow<()> {
        if self.lease.cancel.reason().is_some() {
            return ControlFlow::Break(());
        }
        self.append(|_| vec![EngineMark::ToolStarted { id_ref: call.id_ref.clone() }.into()])
    }

    fn finished(&self, call: &ToolCall, outcome: ToolOutcome) {
        self.progress.finish(call);
        // What shutdown cut off or never let begin is left without an outcome, and so is simply made after the restart.
        if self.lease.cancel.reason() == Some(CancelReason::Shutdown) && self.would_rerun(call) {
            return;
        }
        // What was cut of the result is in the log before anybody can ask for it.
        let whole = outcome.whole.map(|whole| {
            EngineMark::ToolWhole { handle: whole.handle.to_string(), content: whole.content }.into()
        });
        let settle = |turn: &Turn| {
            let results = turn.settle(&call.id_ref, &outcome.content, outcome.skipped);
            whole.into_iter().chain(results).collect()
        };
        // A failure is kept in the state and ends the drive.
        let _kept = self.append(settle);
    }

    fn stepped(&self, _call: &ToolCall, step: AgentStep) {
        let _kept = self.append(|_| vec![Event::AgentStep(step).into()]);
    }

    fn spent(&self, _call: &ToolCall, model: &str, usage: Usage) {
        let _kept = self.append(|_| vec![EngineMark::Spent { model: model.to_owned(), usage }.into()]);
    }
}
