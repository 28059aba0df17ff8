//! The messages that a conversation passes to its next job: its summary, and the turns after it, as many as
//! fit ([`crate::store::rows::history`]).

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
use crate::store::rows::history::{HistoryBudget, is_users};

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
        if !budget.add(ConversationTurn { number, messages: turn }, &mut newest_first) {
            break;
        }
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
