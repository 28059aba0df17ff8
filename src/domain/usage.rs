//! Token counts. Owns their addition; refuses prices and time.

use serde::{Deserialize, Serialize};

/// Tokens spent, as reported by the model's provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, history included.
    pub prompt_tokens: u64,
    /// Tokens that the model wrote, thinking included.
    pub completion_tokens: u64,
    /// What the provider counts in all; the sum of the two where it says nothing.
    pub total_tokens: u64,
}

impl Usage {
    /// Prompt and completion, with their sum as the total.
    pub fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
    }
}
