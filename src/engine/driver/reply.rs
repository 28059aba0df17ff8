//! What a model call has streamed beside its completion.

use crate::domain::usage::Usage;

/// Largest token count that a provider's usage report is believed to hold.
const MAX_CREDIBLE_TOKENS: u64 = 1_000_000_000;

/// The answer so far and its reported cost.
#[derive(Debug, Default)]
pub(super) struct PartialReply {
    /// Text and reasoning together.
    pub(super) text: String,
    /// Usage as the provider reported it.
    pub(super) usage: Option<Usage>,
}

impl PartialReply {
    /// Keeps the last credible report: one wrong number must not spoil a day's accounts.
    pub(super) fn report(&mut self, usage: Usage) {
        let counts = [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens];
        if counts.iter().all(|tokens| *tokens <= MAX_CREDIBLE_TOKENS) {
            self.usage = Some(usage);
        }
    }
}
