//! The sentence that stands for an answer when the model gives none. It follows from the log alone, and the
//! log holds it like an answer of the model, so streams, output and conversation agree.

use super::next_step::TurnLimits;
use super::repeated_failures::reported_failure;
use super::state::TurnState;
use crate::domain::event::{EngineMark, FinishReason, Record, StepKind};
use crate::domain::message::Message;
use crate::domain::usage::Usage;

/// Longest quotation of a tool's error, characters.
const ERROR_CHARS: usize = 300;

/// The calls of one tool.
struct ToolTally<'a> {
    name: &'a str,
    calls: u32,
    failures: u32,
}

impl TurnState {
    /// The records of an answer that says why there is no other one and which tools were called.
    pub(super) fn stand_in_answer(&self, reason: FinishReason, limits: &TurnLimits<'_>) -> Vec<Record> {
        let cause = match reason {
            FinishReason::MaxSteps => {
                format!("the job used all its rounds of tool calls (max_steps: {})", limits.max_steps)
            }
            FinishReason::RepeatedFailure => {
                format!("the same tool call failed {} times", limits.repeated_failures)
            }
            FinishReason::ContentFilter => {
                "the content filter of the model's provider withheld it".to_owned()
            }
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length => {
                "the model ended without a text".to_owned()
            }
        };
        let text = format!("There is no final answer: {cause}.{}{}", self.calls_made(), self.last_error());
        let usage = Usage::default();
        let model = self.failures.model().map(str::to_owned);
        let finish_reason = if reason == FinishReason::ContentFilter { reason } else { FinishReason::Stop };
        let finished = EngineMark::model_finished(finish_reason, usage, model);
        vec![self.delta(StepKind::Text, &text), finished.into()]
    }

    /// ` Tools called: bash 4 times (1 failed), file_read once.`; empty without any call.
    fn calls_made(&self) -> String {
        let mut tallies: Vec<ToolTally<'_>> = Vec::new();
        for (name, content) in self.results() {
            let failed = u32::from(reported_failure(content).is_some());
            match tallies.iter_mut().find(|tally| tally.name == name) {
                Some(tally) => {
                    tally.calls = tally.calls.saturating_add(1);
                    tally.failures = tally.failures.saturating_add(failed);
                }
                None => tallies.push(ToolTally { name, calls: 1, failures: failed }),
            }
        }
        if tallies.is_empty() {
            return String::new();
        }
        let parts: Vec<String> = tallies.iter().map(ToolTally::text).collect();
        format!(" Tools called: {}.", parts.join(", "))
    }

    /// The error of the newest result, if the call failed.
    fn last_error(&self) -> String {
        let newest = self.results().last().and_then(|(_, content)| reported_failure(content));
        let Some(error) = newest.filter(|error| !error.trim().is_empty()) else { return String::new() };
        let quoted: String = error.trim().chars().take(ERROR_CHARS).collect();
        let ellipsis = if quoted.len() < error.trim().len() { "…" } else { "" };
        format!(" The last call failed: {quoted}{ellipsis}")
    }

    /// Tool and content of each result so far.
    fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        self.messages().iter().filter_map(|message| match message {
            Message::Tool { name, content, .. } => Some((name.as_str(), content.as_str())),
            _ => None,
        })
    }
}

impl ToolTally<'_> {
    fn text(&self) -> String {
        let times = match self.calls {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            calls => format!("{calls} times"),
        };
        match self.failures {
            0 => format!("{} {times}", self.name),
            1 if self.calls == 1 => format!("{} once (failed)", self.name),
            failures => format!("{} {times} ({failures} failed)", self.name),
        }
    }
}
