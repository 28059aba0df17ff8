//! The parts of a whole answer, and the ids of calls that are handed to the client.

use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, SequencedEvent, StepKind};
use crate::domain::id::JobId;
use crate::domain::steps::{StepContent, StepFold};
use crate::domain::tool::ToolCall;

/// Stands between the texts before and after calls of the server's tools.
pub(super) const BREAK: &str = "\n\n";

/// A call as the client gets it.
pub(super) fn handed_over(job: JobId, place: u32, call: ToolCall) -> ToolCall {
    ToolCall { id_ref: ClientCallId::new(job, place).to_string(), ..call }
}

/// The log of an answer, read event by event.
#[derive(Debug, Default)]
pub(crate) struct AnswerLog {
    steps: StepFold,
    /// The calls that are handed to the client, as the model wrote them.
    calls: Vec<ToolCall>,
    /// The last event, if it ends the job.
    pub(super) end: Option<Event>,
}

impl AnswerLog {
    /// Takes the next event. Returns about how many bytes it adds.
    pub(super) fn take(&mut self, event: Event) -> usize {
        self.end = matches!(event, Event::Done { .. } | Event::Error { .. }).then(|| event.clone());
        if let Event::ToolCall { call, is_client: true, .. } = &event {
            self.calls.push(call.clone());
        }
        self.steps.take(event)
    }
}

impl FromIterator<SequencedEvent> for AnswerLog {
    fn from_iter<I: IntoIterator<Item = SequencedEvent>>(events: I) -> Self {
        let mut log = Self::default();
        for SequencedEvent { event, .. } in events {
            log.take(event);
        }
        log
    }
}

/// The parts of a whole answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerParts {
    /// Reasoning and texts in their order; two neighbours are of different kinds.
    pub(crate) texts: Vec<(StepKind, String)>,
    /// The calls that are handed to the client.
    pub(crate) calls: Vec<ToolCall>,
}

impl AnswerParts {
    /// The parts in the log of a job. With `final_text_only`, text before calls of the server's tools is
    /// left out.
    pub(crate) fn of(job: JobId, log: AnswerLog, final_text_only: bool) -> Self {
        let calls = (0..).zip(log.calls).map(|(place, call)| handed_over(job, place, call)).collect();
        let mut parts = Self { calls, ..Self::default() };
        let mut is_after_call = false;
        for step in log.steps.into_steps() {
            match step.part {
                StepContent::Text { content } => {
                    if is_after_call && final_text_only {
                        parts.texts.retain(|(kind, _)| *kind != StepKind::Text);
                    } else if is_after_call && parts.has_text() {
                        parts.push(StepKind::Text, BREAK);
                    }
                    is_after_call = false;
                    parts.push(StepKind::Text, &content);
                }
                StepContent::Thinking { content } => parts.push(StepKind::Thinking, &content),
                StepContent::ToolCall(_) | StepContent::ToolResult { .. } => is_after_call = true,
            }
        }
        parts
    }

    /// The texts of this kind together.
    pub(crate) fn joined(&self, kind: StepKind) -> String {
        self.texts.iter().filter(|(known, _)| *known == kind).map(|(_, text)| text.as_str()).collect()
    }

    pub(super) fn has_text(&self) -> bool {
        self.texts.iter().any(|(kind, text)| *kind == StepKind::Text && !text.is_empty())
    }

    pub(super) fn push(&mut self, kind: StepKind, text: &str) {
        match self.texts.last_mut() {
            Some((last, whole)) if *last == kind => whole.push_str(text),
            _ => self.texts.push((kind, text.to_owned())),
        }
    }
}
