//! Runs the tool calls of an answer and requests approval for those that need it.

use super::journal::LogJournal;
use super::{DriveOutcome, Driver};
use crate::domain::event::{EngineMark, Record};
use crate::domain::tool::ToolCall;
use crate::engine::turn::INTERRUPTED;
use crate::ports::{
    ApprovedCalls, JobBudget, LeaseError, ModelParameters, SeenFiles, ToolContext, UnexecutedReason,
};

impl Driver<'_> {
    fn model_parameters(&self) -> ModelParameters {
        let (spec, rights, used) = (&self.lease.spec, &self.rights, self.turn.usage());
        let tokens = rights.max_total_tokens.map(|max| max.saturating_sub(used.total_tokens));
        let cost_micros = rights.max_cost_micros.map(|max| max.saturating_sub(used.cost_micros));
        let tool_calls = rights.max_tool_calls.map(|most| self.turn.tool_calls_left(most));
        ModelParameters {
            model: self.request.model.clone(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            budget: JobBudget::new(tokens, cost_micros, tool_calls),
        }
    }

    /// Suspends the job until a user decides. As with `defer`, this counts neither as an attempt nor as a
    /// failure.
    pub(super) fn request_approval(&self, calls: Vec<ToolCall>) -> Result<DriveOutcome, LeaseError> {
        self.ports
            .store
            .wait_for_approval(self.lease.fence(), calls, self.limits.approval_timeout_ms)
            .wait()?;
        Ok(DriveOutcome::Postponed)
    }

    /// Runs the calls. `unwritten` are applied records that precede their results; they are written with the
    /// first one.
    pub(super) fn run_tools(&mut self, unwritten: Vec<Record>, calls: &[ToolCall]) -> Result<(), LeaseError> {
        let context = self.tool_context();
        self.progress.run_tools(calls);
        let journal =
            LogJournal::new(self.ports, self.lease, &mut self.turn, &self.progress).after(unwritten);
        self.ports.tools.run(calls, &context, &journal);
        self.progress.wait_for_store();
        let unwritten = journal.close()?;
        if unwritten.is_empty() { Ok(()) } else { self.write(unwritten) }
    }

    /// Reports denied and interrupted calls to the tools, which never run them.
    pub(super) fn report_unexecuted(&self, records: &[Record]) {
        for record in records {
            let Record::Mark(EngineMark::ToolFinished { id_ref, content, .. }) = record else { continue };
            let Some(call) = self.turn.unsettled_call(id_ref) else { continue };
            let reason =
                if content == INTERRUPTED { UnexecutedReason::Interrupted } else { UnexecutedReason::Denied };
            self.ports.tools.settled(call, &self.tool_context(), reason, content);
        }
    }

    fn tool_context(&self) -> ToolContext {
        let spec = &self.lease.spec;
        ToolContext {
            user: self.lease.job.user,
            job: self.lease.job.id,
            conversation_id: spec.conversation_id.clone(),
            project_id: spec.project_id,
            rights: self.rights.clone(),
            seen_files: SeenFiles::of(self.turn.prompt().seen_files().clone()),
            terms: self.model_parameters(),
            origin: spec.origin,
            is_trial: false,
            id_ref: String::new(),
            approved: ApprovedCalls::Calls(self.turn.approved().into()),
            cancel: self.cancel.clone(),
        }
    }
}
