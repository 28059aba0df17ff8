//! Where a context that is too long is cut: before a user message or before a round of tool calls, so that no
//! answer loses its question and no result its call. The newest question and the newest round always stay.

use super::base::PromptBase;
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;

/// A prompt above this share of the budget is cut, percent; estimates are not exact.
const FULL_PERCENT: u64 = 90;
/// A cut reduces the prompt to this share, percent, so that not every step cuts again.
const LEFT_PERCENT: u64 = 50;
/// The share that the conversation keeps, however much instructions and tools take, percent.
const MIN_PERCENT: u64 = 20;

/// How many tokens a prompt may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct PromptBudget {
    /// Tokens of the whole prompt.
    pub(in crate::engine) tokens: u64,
    /// Tokens of what no cut removes: tools, instructions, a summary.
    pub(in crate::engine) fixed: u64,
}

/// Which messages a shortened context leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct CutPoint {
    /// How many of the newest messages of history and input stay.
    pub(in crate::engine) kept: usize,
    /// How many of the oldest messages of this job are left out.
    pub(in crate::engine) said: usize,
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
    fn left(self) -> u64 {
        let left = (self.tokens.saturating_mul(LEFT_PERCENT) / 100).saturating_sub(self.fixed);
        left.max(self.tokens.saturating_mul(MIN_PERCENT) / 100)
    }
}

impl PromptBase {
    /// The smallest cut after `now` that fits the budget, else the largest possible; `None` if nothing may be
    /// cut.
    pub(in crate::engine) fn cut(
        &self,
        said: &[Message],
        now: CutPoint,
        budget: PromptBudget,
        estimator: &TokenEstimator,
    ) -> Option<CutPoint> {
        let cut_points = self.cut_points(said, now);
        let fits = |cut: &CutPoint| {
            let earlier = self.earlier.iter().skip(self.first_kept(cut.kept));
            let earlier = earlier.filter(|message| !matches!(message, Message::System { .. }));
            estimator.messages(earlier.chain(said.iter().skip(cut.said))) <= budget.left()
        };
        cut_points.iter().find(|cut| fits(cut)).or(cut_points.last()).copied()
    }

    /// The possible cuts after `now`, the smallest first.
    fn cut_points(&self, said: &[Message], now: CutPoint) -> Vec<CutPoint> {
        let total = self.earlier.len();
        let is_user = |at: &usize| matches!(self.earlier.get(*at), Some(Message::User { .. }));
        let after = self.first_kept(now.kept).saturating_add(1);
        let questions = (after..total).filter(is_user);
        let earlier = questions.map(|at| CutPoint { kept: total.saturating_sub(at), said: now.said });
        let question = (0..total).rev().find(is_user).unwrap_or(0);
        let kept = now.kept.min(total.saturating_sub(question));
        let is_round = |at: &usize| matches!(said.get(*at), Some(Message::Assistant { .. }));
        let rounds = (now.said.saturating_add(1)..said.len()).filter(is_round);
        earlier.chain(rounds.map(|said| CutPoint { kept, said })).collect()
    }

    /// The messages that `to` leaves out and `from` does not, oldest first.
    pub(in crate::engine) fn left_out<'m>(
        &'m self,
        said: &'m [Message],
        from: CutPoint,
        to: CutPoint,
    ) -> Vec<&'m Message> {
        let (first, next) = (self.first_kept(from.kept), self.first_kept(to.kept));
        let earlier = self.earlier.iter().take(next).skip(first);
        earlier.chain(said.iter().take(to.said).skip(from.said)).collect()
    }

    /// The cut that leaves nothing out.
    pub(in crate::engine) fn no_cut(&self) -> CutPoint {
        CutPoint { kept: self.earlier.len(), said: 0 }
    }

    /// The summary from an earlier job.
    pub(in crate::engine) fn earlier_summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }
}
