//! Where a context that is too long is cut. Owns the places at which a cut may be made: before a message of the user, or
//! before a round of tool calls, so that no answer loses its question and no result its call. The newest question and the
//! newest round always stay.

use super::Opening;
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;

/// Of the room, so much may be filled before something is left out, percent: estimates are not exact.
const FULL_PERCENT: u64 = 90;
/// Of the room, so much is filled after that, percent: a cut is not made again at every step.
const LEFT_PERCENT: u64 = 50;
/// And so much at least for the conversation, however much instructions and tools take, percent.
const LEAST_PERCENT: u64 = 20;

/// How much a prompt may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Room {
    /// Of the whole prompt.
    pub(in crate::engine) tokens: u64,
    /// What every prompt holds anyway: tools, instructions, a summary.
    pub(in crate::engine) fixed: u64,
}

/// What is to be left out: [`super::Shortened`] without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Cut {
    /// Messages of history and input that stay, the newest ones.
    pub(in crate::engine) kept: usize,
    /// Messages of this job that go, the oldest ones.
    pub(in crate::engine) said: usize,
}

impl Room {
    /// Of a model with this context window, less what its answer needs.
    pub(in crate::engine) fn of_window(window: u64, answer: Option<u64>, fixed: u64) -> Self {
        let reserve = answer.unwrap_or(window / 4).min(window / 2);
        Self { tokens: window.saturating_sub(reserve), fixed }
    }

    /// The same, when prompts that should have fitted did not, so many times.
    #[must_use]
    pub(in crate::engine) fn after_overflows(self, overflows: u32) -> Self {
        let tokens = (0..overflows.min(16)).fold(self.tokens, |tokens, _| tokens.saturating_mul(2) / 3);
        Self { tokens, ..self }
    }

    /// Whether a prompt of so many tokens leaves no room.
    pub(in crate::engine) fn is_full(self, tokens: u64) -> bool {
        tokens > self.tokens.saturating_mul(FULL_PERCENT) / 100
    }

    /// What the messages may take after a cut: never so little that every step would cut again.
    fn left(self) -> u64 {
        let left = (self.tokens.saturating_mul(LEFT_PERCENT) / 100).saturating_sub(self.fixed);
        left.max(self.tokens.saturating_mul(LEAST_PERCENT) / 100)
    }
}

impl Opening {
    /// The smallest cut behind `now` that leaves room, or the largest that may be made; `None` when there is no place
    /// for any.
    pub(in crate::engine) fn cut(
        &self,
        said: &[Message],
        now: Cut,
        room: Room,
        estimator: &TokenEstimator,
    ) -> Option<Cut> {
        let places = self.places(said, now);
        let fits = |cut: &Cut| {
            let earlier = self.earlier.iter().skip(self.first_kept(cut.kept));
            let earlier = earlier.filter(|message| !matches!(message, Message::System { .. }));
            estimator.messages(earlier.chain(said.iter().skip(cut.said))) <= room.left()
        };
        places.iter().find(|cut| fits(cut)).or(places.last()).copied()
    }

    /// Where a cut may be made behind `now`, the smallest first.
    fn places(&self, said: &[Message], now: Cut) -> Vec<Cut> {
        let total = self.earlier.len();
        let is_user = |at: &usize| matches!(self.earlier.get(*at), Some(Message::User { .. }));
        let after = self.first_kept(now.kept).saturating_add(1);
        let questions = (after..total).filter(is_user);
        let earlier = questions.map(|at| Cut { kept: total.saturating_sub(at), said: now.said });
        let question = (0..total).rev().find(is_user).unwrap_or(0);
        let kept = now.kept.min(total.saturating_sub(question));
        let is_round = |at: &usize| matches!(said.get(*at), Some(Message::Assistant { .. }));
        let rounds = (now.said.saturating_add(1)..said.len()).filter(is_round);
        earlier.chain(rounds.map(|said| Cut { kept, said })).collect()
    }

    /// What the cut `to` leaves out and `from` did not, oldest first.
    pub(in crate::engine) fn left_out<'m>(
        &'m self,
        said: &'m [Message],
        from: Cut,
        to: Cut,
    ) -> Vec<&'m Message> {
        let (first, next) = (self.first_kept(from.kept), self.first_kept(to.kept));
        let earlier = self.earlier.iter().take(next).skip(first);
        earlier.chain(said.iter().take(to.said).skip(from.said)).collect()
    }

    /// Nothing is left out.
    pub(in crate::engine) fn whole(&self) -> Cut {
        Cut { kept: self.earlier.len(), said: 0 }
    }

    /// What stands for everything before, from an earlier job.
    pub(in crate::engine) fn earlier_summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }
}
