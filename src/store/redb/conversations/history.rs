//! The messages that a conversation passes to its next job: its summary, and the turns after it. A history
//! that is too long is cut at a message of the user, because providers refuse an answer without its question
//! and a tool result without its call.

use crate::domain::conversation::StoredItems;
use crate::domain::id::JobId;
use crate::domain::job::{ConversationTurn, History};
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{CONVERSATION_ITEMS, TURNS};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::row;
use crate::store::redb::conversations::summary::summary;
use crate::store::redb::jobs::read::row;

/// Limits of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryBudget {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// The newest messages of the conversation before the job that fit, oldest first.
pub(crate) fn history(
    reading: &ReadTransaction,
    job: JobId,
    mut budget: HistoryBudget,
) -> Result<History, StoreError> {
    let Some(row) = row(reading, job)? else { return Ok(History::default()) };
    // A background job gets its task only.
    if row.job.origin.parent().is_some() {
        return Ok(History::default());
    }
    let Some(key) = row.turn_key() else { return Ok(History::default()) };
    let (floor, wants_title) = match row::read(reading, key.user, key.conversation) {
        Ok(Some(found)) if found.floor <= key.accept => (found.floor, found.conversation.wants_title()),
        // The conversation was removed since the job was accepted.
        Ok(_) => return Ok(History::default()),
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(%job, reason, "conversation of the job cannot be read");
            (0, false)
        }
        Err(error) => return Err(error),
    };
    let summary = summary(reading, key)?;
    let first = summary.as_ref().map_or(0, |summary| summary.through.saturating_add(1)).max(floor);
    let (first, end) = (TurnKey { accept: first, ..key }.encode(), key.encode());
    let turns = TURNS.read(reading)?;
    let mut newest_first = Vec::new();
    for entry in turns.range::<&TurnBytes>(&first..&end)?.rev() {
        if budget.messages == 0 {
            break;
        }
        let (at, value) = entry?;
        let number = TurnKey::accept(at.value());
        let turn: Vec<Message> = values::decode(value.value())?;
        if !budget.take(&turn) {
            let rest = budget.newest_of(&turn);
            let rest = if rest.is_empty() && newest_first.is_empty() {
                budget.question_and_answer_of(&turn)
            } else {
                rest
            };
            newest_first.push(ConversationTurn { number, messages: rest });
            break;
        }
        newest_first.push(ConversationTurn { number, messages: turn });
    }
    newest_first.reverse();
    newest_first.retain(|turn| !turn.messages.is_empty());
    if summary.is_none() {
        // Providers require a user message first, so an answer without its question cannot be the first.
        // Added items are as their client wants them.
        let added = CONVERSATION_ITEMS.read(reading)?;
        let mut leading_answers = 0;
        for turn in newest_first.iter().take_while(|turn| !turn.messages.iter().any(is_users)) {
            let stored: Option<StoredItems> = added.row(&TurnKey { accept: turn.number, ..key }.encode())?;
            if stored.is_some_and(|stored| !stored.added.is_empty()) {
                break;
            }
            leading_answers += 1;
        }
        newest_first.drain(..leading_answers);
    }
    Ok(History { summary: summary.map(|summary| summary.content), turns: newest_first, wants_title })
}

fn is_users(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

impl HistoryBudget {
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
        let mut from_user = starts.filter(|rest| matches!(rest.first(), Some(Message::User { .. })));
        from_user.find(|rest| Self::take(&mut self.clone(), rest)).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// The last question and the final answer of a turn that has too many steps.
    fn question_and_answer_of(mut self, turn: &[Message]) -> Vec<Message> {
        let question = turn.iter().rev().find(|message| matches!(message, Message::User { .. }));
        let answer = turn.last().filter(
            |message| matches!(message, Message::Assistant { tool_calls, .. } if tool_calls.is_empty()),
        );
        let messages: Vec<Message> = question.into_iter().chain(answer).cloned().collect();
        if self.take(&messages) { messages } else { Vec::new() }
    }
}
