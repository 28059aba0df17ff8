//! An answer that does not have the form that the request wants. The model is asked once for another one.

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::message::Message;

/// How often another answer is asked for.
const REPAIRS: u32 = 1;

/// The newest answer, which was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAnswer {
    content: String,
    fault: String,
}

impl RefusedAnswer {
    /// The end of the prompt that asks for another one.
    pub fn messages(&self) -> [Message; 2] {
        let request = format!(
            "Your answer does not have the requested form: {}. Answer again, with the corrected JSON alone: no text \
             around it and no code fence.",
            self.fault
        );
        [Message::assistant(self.content.clone()), Message::user(request)]
    }
}

/// The refused answers of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AnswerRepairs {
    count: u32,
    refused: Option<RefusedAnswer>,
    /// The indices of the newest answer's steps.
    steps: Vec<u32>,
}

impl AnswerRepairs {
    /// The newest answer, if it was refused.
    pub(super) fn refused(&self) -> Option<&RefusedAnswer> {
        self.refused.as_ref()
    }

    /// Whether another answer may be asked for.
    pub(super) fn are_left(&self) -> bool {
        self.count < REPAIRS
    }

    /// Notes an answer with these steps, which continues the one before or is a new one.
    pub(super) fn note_answer(&mut self, steps: impl Iterator<Item = u32>, continues: bool) {
        self.refused = None;
        if !continues {
            self.steps.clear();
        }
        self.steps.extend(steps);
    }

    /// The records that refuse the newest answer.
    pub(super) fn refuse(&self, fault: String) -> Vec<Record> {
        let discarded = self.steps.iter().map(|index| Event::StepDiscarded { index: *index }.into());
        discarded.chain([EngineMark::AnswerRefused { fault }.into()]).collect()
    }

    /// Notes that this answer was refused.
    pub(super) fn note_refused(&mut self, content: String, fault: &str) {
        self.refused = Some(RefusedAnswer { content, fault: fault.to_owned() });
        self.count = self.count.saturating_add(1);
    }
}
