//! Chooses where to cut a context that is too long: before a user message or before a round of tool calls, so
//! that no answer loses its question and no result its call. The newest question and the newest round stay.

use super::base::PromptBase;
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;

/// A prompt above this share of the budget is cut, percent; estimates are not exact.
const FULL_PERCENT: u64 = 90;
/// A cut reduces the prompt to this share, percent, so that not every step cuts again.
const TARGET_PERCENT: u64 = 50;
/// The share that the conversation keeps, however much instructions and tools take, percent.
const MIN_PERCENT: u64 = 20;

/// How many tokens a prompt may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct PromptBudget {
    /// Tokens of the whole prompt.
    pub(in crate::engine) tokens: u64,
    /// Tokens that no cut removes: tools, instructions, a summary.
    pub(in crate::engine) fixed: u64,
}

/// Which messages a shortened context leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct CutPoint {
    /// How many of the newest messages of history and input stay.
    pub(in crate::engine) kept_history: usize,
    /// How many of the oldest messages of this job are left out.
    pub(in crate::engine) omitted_job_messages: usize,
}

impl PromptBudget {
    /// The budget of a model with this context window, less the reserve for its answer.
    pub(in crate::engine) fn of_window(window: u64, answer: Option<u64>, fixed: u64) -> Self {
        let reserve = answer.unwrap_or(window / 4).min(window / 2);
        Self { tokens: window.saturating_sub(reserve), fixed }
    }

    /// A smaller budget after `overflows` prompts that should have fitted did not.
    #[must_use]
    pub(in crate::engine) fn after_overflows(self, overflows: u32) -> Self {
        let tokens = (0..overflows.min(16)).fold(self.tokens, |tokens, _| tokens.saturating_mul(2) / 3);
        Self { tokens, ..self }
    }

    /// Whether a prompt of this size has to be cut.
    pub(in crate::engine) fn is_full(self, tokens: u64) -> bool {
        tokens > self.tokens.saturating_mul(FULL_PERCENT) / 100
    }

    /// Tokens that the messages may take after a cut.
    fn target_tokens(self) -> u64 {
        let target = (self.tokens.saturating_mul(TARGET_PERCENT) / 100).saturating_sub(self.fixed);
        target.max(self.tokens.saturating_mul(MIN_PERCENT) / 100)
    }
}

impl PromptBase {
    /// The smallest cut after `current` that fits the budget, else the largest possible; `None` if nothing
    /// may be cut.
    pub(in crate::engine) fn cut(
        &self,
        job_messages: &[Message],
        current: CutPoint,
        budget: PromptBudget,
        estimator: &TokenEstimator,
    ) -> Option<CutPoint> {
        let cut_points = self.cut_points(job_messages, current);
        let fits = |cut: &CutPoint| {
            let earlier = self.earlier.iter().skip(self.first_kept(cut.kept_history));
            let earlier = earlier.filter(|message| !matches!(message, Message::System { .. }));
            estimator.messages(earlier.chain(job_messages.iter().skip(cut.omitted_job_messages)))
                <= budget.target_tokens()
        };
        cut_points.iter().find(|cut| fits(cut)).or(cut_points.last()).copied()
    }

    /// The possible cuts after `current`, the smallest first.
    fn cut_points(&self, job_messages: &[Message], current: CutPoint) -> Vec<CutPoint> {
        let total = self.earlier.len();
        let is_user = |at: &usize| matches!(self.earlier.get(*at), Some(Message::User { .. }));
        let after = self.first_kept(current.kept_history).saturating_add(1);
        let questions = (after..total).filter(is_user);
        let earlier = questions.map(|at| CutPoint {
            kept_history: total.saturating_sub(at),
            omitted_job_messages: current.omitted_job_messages,
        });
        let question = (0..total).rev().find(is_user).unwrap_or(0);
        let kept_history = current.kept_history.min(total.saturating_sub(question));
        let is_round = |at: &usize| matches!(job_messages.get(*at), Some(Message::Assistant { .. }));
        let rounds = (current.omitted_job_messages.saturating_add(1)..job_messages.len()).filter(is_round);
        earlier
            .chain(rounds.map(|omitted_job_messages| CutPoint { kept_history, omitted_job_messages }))
            .collect()
    }

    /// The messages that `to` leaves out and `from` does not, oldest first.
    pub(in crate::engine) fn left_out<'m>(
        &'m self,
        job_messages: &'m [Message],
        from: CutPoint,
        to: CutPoint,
    ) -> Vec<&'m Message> {
        let (start, end) = (self.first_kept(from.kept_history), self.first_kept(to.kept_history));
        let earlier = self.earlier.iter().take(end).skip(start);
        let job_messages = job_messages.iter().take(to.omitted_job_messages).skip(from.omitted_job_messages);
        earlier.chain(job_messages).collect()
    }

    /// The cut that leaves nothing out.
    pub(in crate::engine) fn no_cut(&self) -> CutPoint {
        CutPoint { kept_history: self.earlier.len(), omitted_job_messages: 0 }
    }

    /// The summary from an earlier job.
    pub(in crate::engine) fn earlier_summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }
}
