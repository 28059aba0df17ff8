//! Writes the reports of running tools into the job's log. Log and state change under one lock, so their
//! order is one.

use crate::domain::call_times::{AgentModelCall, CallTimes};
use crate::domain::event::{AgentStep, EngineMark, Event, Record};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::engine::run_progress::RunProgress;
use crate::engine::setup::{EnginePorts, usage_in};
use crate::engine::turn::TurnState;
use crate::ports::{CancelReason, Journal, Lease, LeaseError, SeenFile, ToolOutcome, Urgency};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The journal of one batch of tool calls, used by several tool threads.
pub(super) struct LogJournal<'a> {
    ports: &'a EnginePorts,
    lease: &'a Lease,
    state: Mutex<JournalState<'a>>,
    progress: &'a RunProgress,
}

struct JournalState<'a> {
    turn: &'a mut TurnState,
    /// Applied records that are written with the next ones.
    unwritten: Vec<Record>,
    /// Files that the model sees through results that are not written yet, by call.
    seen: Vec<(String, SeenFile)>,
    /// The error of the first failed write; nothing is written after it.
    write_error: Option<LeaseError>,
}

impl<'a> LogJournal<'a> {
    /// A journal that applies its records to `turn` and writes them under `lease`.
    pub(super) fn new(
        ports: &'a EnginePorts,
        lease: &'a Lease,
        turn: &'a mut TurnState,
        progress: &'a RunProgress,
    ) -> Self {
        Self {
            ports,
            lease,
            state: Mutex::new(JournalState {
                turn,
                unwritten: Vec::new(),
                seen: Vec::new(),
                write_error: None,
            }),
            progress,
        }
    }

    /// The same journal that writes these applied records together with its first ones.
    pub(super) fn after(self, unwritten: Vec<Record>) -> Self {
        self.lock().unwritten = unwritten;
        self
    }

    /// The records that were not written because none followed, or the first failed write.
    pub(super) fn close(self) -> Result<Vec<Record>, LeaseError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.write_error.map_or(Ok(state.unwritten), Err)
    }

    fn lock(&self) -> MutexGuard<'_, JournalState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the records while the state is locked and waits for the write after unlocking.
    fn append(&self, records: impl FnOnce(&TurnState) -> Vec<Record>) -> ControlFlow<()> {
        let (ticket, usage) = {
            let mut state = self.lock();
            if state.write_error.is_some() {
                return ControlFlow::Break(());
            }
            let records = records(state.turn);
            for record in &records {
                state.turn.apply(record);
            }
            self.progress.log_grew();
            let records: Vec<_> = std::mem::take(&mut state.unwritten).into_iter().chain(records).collect();
            let usage = usage_in(&records, &self.lease.spec.model);
            (self.ports.store.append(self.lease.fence(), records, Urgency::Now), usage)
        };
        match ticket.wait() {
            Ok(()) => {
                self.ports.record_usage(&usage);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.lock().write_error.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    /// The records of files that the model sees through the result of this call.
    fn take_seen(&self, id_ref: &str) -> Vec<Record> {
        let mut state = self.lock();
        let of_call = state.seen.extract_if(.., |(call, _)| call == id_ref);
        of_call.map(|(_, SeenFile { path, version })| EngineMark::FileSeen { path, version }.into()).collect()
    }

    /// Whether the next run of the job repeats this call when no outcome is recorded.
    fn would_rerun(&self, call: &ToolCall) -> bool {
        let state = self.lock();
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

    fn saw_files(&self, call: &ToolCall, seen: Vec<SeenFile>) {
        let mut state = self.lock();
        state.seen.extend(seen.into_iter().map(|file| (call.id_ref.clone(), file)));
    }

    fn finished(&self, call: &ToolCall, outcome: ToolOutcome) {
        self.progress.finish(call);
        // A call that a shutdown interrupted gets no outcome, so the next start makes it again.
        if self.lease.cancel.reason() == Some(CancelReason::Shutdown) && self.would_rerun(call) {
            return;
        }
        // The full result is in the log before the model can read it.
        let full_result = outcome.full_result.map(|whole| {
            EngineMark::ToolWhole { handle: whole.handle.to_string(), content: whole.content }.into()
        });
        // In the transaction of the result: the model has seen the file if and only if it has the result.
        let seen = self.take_seen(&call.id_ref);
        let ended_at_ms = self.ports.clock.now_ms();
        let settle = |turn: &TurnState| {
            let results = turn.settle(&call.id_ref, &outcome.content, outcome.skipped);
            let results = results.into_iter().map(|result| result.with_tool_end(&call.id_ref, ended_at_ms));
            full_result.into_iter().chain(seen).chain(results).collect()
        };
        // The state stores a failed write, which ends the run.
        let _control_flow = self.append(settle);
    }

    fn stepped(&self, _call: &ToolCall, step: AgentStep, times: Option<CallTimes>) {
        let _control_flow = self.append(|_| vec![Event::AgentStep { step, times }.into()]);
    }

    fn spent(&self, _call: &ToolCall, model: &str, usage: Usage, agent: Option<AgentModelCall>) {
        let model = model.to_owned();
        let _control_flow = self.append(|_| vec![EngineMark::Spent { model, usage, agent }.into()]);
    }
}
