//! The messages of a model call: instructions, summary, history, input, and the job's own messages. Pure.

mod base;
mod cut;
mod repair;
mod transcript;

pub(in crate::engine) use base::{FinalInstruction, PromptBase};
pub(in crate::engine) use cut::{CutPoint, PromptBudget};
pub(in crate::engine) use transcript::transcript;

#[cfg(test)]
mod tests;
