//! How a history that is too long is cut: at a message of the user, because providers refuse an answer
//! without its question and a tool result without its call.

use crate::domain::job::ConversationTurn;
use crate::domain::message::Message;

/// Limits of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryBudget {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// Whether it is the user's.
pub(crate) fn is_users(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

impl HistoryBudget {
    /// Takes the next older turn, or the part of it that fits. Returns whether older ones may follow.
    pub(crate) fn add(&mut self, turn: ConversationTurn, newest_first: &mut Vec<ConversationTurn>) -> bool {
        let ConversationTurn { number, messages } = turn;
        if self.take(&messages) {
            newest_first.push(ConversationTurn { number, messages });
            return true;
        }
        let rest = self.newest_of(&messages);
        let rest = if rest.is_empty() && newest_first.is_empty() {
            self.question_and_answer_of(&messages)
        } else {
            rest
        };
        newest_first.push(ConversationTurn { number, messages: rest });
        false
    }

    /// Subtracts the messages from the budget, if they fit. Returns whether they do.
    fn take(&mut self, messages: &[Message]) -> bool {
        let bytes = messages.iter().map(Message::bytes).sum();
        match (self.messages.checked_sub(messages.len()), self.bytes.checked_sub(bytes)) {
            (Some(messages), Some(bytes)) => {
                *self = Self { messages, bytes };
                true
            }
            _ => false,
        }
    }

    /// The newest part of a turn that does not fit: it starts with the first user message from which the rest
    /// fits.
    fn newest_of(self, turn: &[Message]) -> Vec<Message> {
        let starts = (0..turn.len()).filter_map(|at| turn.get(at..));
        let mut from_user = starts.filter(|rest| rest.first().is_some_and(is_users));
        from_user.find(|rest| Self::take(&mut self.clone(), rest)).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// The last question and the final answer of a turn that has too many steps.
    fn question_and_answer_of(mut self, turn: &[Message]) -> Vec<Message> {
        let question = turn.iter().rev().find(|message| is_users(message));
        let answer = turn.last().filter(
            |message| matches!(message, Message::Assistant { tool_calls, .. } if tool_calls.is_empty()),
        );
        let messages: Vec<Message> = question.into_iter().chain(answer).cloned().collect();
        if self.take(&messages) { messages } else { Vec::new() }
    }
}
