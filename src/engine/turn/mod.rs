//! The agent loop as a pure function: [`TurnState::fold`] reads the job's log, [`TurnState::next`] returns
//! the next step. No I/O, so a log that is replayed after a crash leads to the same step.

mod calls;
mod failures;
mod next_step;
mod recorded_prompt;
mod refused_answer;
mod repeated_failures;
mod stand_in;
mod state;
mod streamed_calls;

pub(super) use calls::CANCELLED;
pub use calls::INTERRUPTED;
pub use next_step::{NextStep, TurnLimits, TurnRules, unpriced_text};
pub use recorded_prompt::RecordedPrompt;
pub use refused_answer::RefusedAnswer;
pub use state::{ShortenedContext, TurnState};
pub use streamed_calls::CallPiece;

#[cfg(test)]
mod tests;
