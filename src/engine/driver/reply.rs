//! The streamed text and the reported usage of a model call.

use crate::domain::call_times::CallTimes;
use crate::domain::event::{Record, StepKind};
use crate::domain::usage::Usage;
use crate::engine::turn::{CallPiece, TurnState};

/// Largest token count that a provider's usage report may hold.
const MAX_CREDIBLE_TOKENS: u64 = 1_000_000_000;

/// The answer so far and its reported cost.
#[derive(Debug, Default)]
pub(super) struct PartialReply {
    /// Text and reasoning together.
    pub(super) text: String,
    /// Arguments that were streamed.
    arguments: String,
    /// Usage as the provider reported it.
    pub(super) usage: Option<Usage>,
    /// When the model was called; `None`: it was not.
    pub(super) times: Option<CallTimes>,
}

impl PartialReply {
    /// Adds a piece; returns its record.
    pub(super) fn piece(&mut self, turn: &TurnState, kind: StepKind, text: &str) -> Vec<Record> {
        self.text.push_str(text);
        vec![turn.delta(kind, text)]
    }

    /// Adds a piece of a call for the client; returns its records.
    pub(super) fn call_piece(&mut self, turn: &TurnState, piece: CallPiece<'_>) -> Vec<Record> {
        self.arguments.push_str(piece.arguments);
        turn.call_piece(piece)
    }

    /// All that has arrived of an answer without an end.
    pub(super) fn partial_text(&self) -> String {
        format!("{}{}", self.text, self.arguments)
    }

    /// Stores the last credible report: one absurd number must not distort the usage statistics.
    pub(super) fn report(&mut self, usage: Usage) {
        let counts = [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens];
        if counts.iter().all(|tokens| *tokens <= MAX_CREDIBLE_TOKENS) {
            self.usage = Some(usage);
        }
    }
}
