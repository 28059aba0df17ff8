//! Deletes one message: no user reads it and no model gets it any more. The output and the log of a deleted
//! answer go at once, except the terminal event. When both messages of a job are deleted, the job is.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::ConversationSummary;
use crate::domain::message::Message;
use crate::ports::{MessageRef, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, conversation_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::message_pair::{ConversationRange, MessagePair};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::StoreWrite;

/// This message of this conversation.
pub(crate) struct DeleteMessage {
    pub(crate) user: UserId,
    pub(crate) id: ConversationId,
    pub(crate) message: MessageRef,
}

impl StoreWrite for DeleteMessage {
    type Output = bool;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
        let Some(mut found) = transaction.find_conversation(self.user, &self.id)? else { return Ok(false) };
        let line = ConversationRange::of(&found);
        let (jobs, message_pairs) = (&transaction.tables.jobs, &transaction.tables.message_pairs);
        let Some((accept, before)) = line.find(jobs, message_pairs, self.message)? else { return Ok(false) };
        let after = match self.message {
            MessageRef::Ask(_) => MessagePair { shows_question: false, ..before },
            MessageRef::Answer(_) => MessagePair { shows_answer: false, ..before },
        };
        if after == before {
            return Ok(false);
        }
        match transaction.find_row(before.job) {
            Ok(Some(row)) if !row.job.status.is_terminal() => {
                return Err(StoreError::WrongState { status: row.job.status });
            }
            // What cannot be read can be deleted.
            Ok(_) | Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        let key = line.key(accept);
        transaction.drop_summary(line, accept)?;
        if after.is_shown() {
            transaction.trim_turn(&key, &after)?;
            if !after.shows_answer {
                transaction.erase_output(before.job)?;
            }
            transaction.put_pair(&key, &after)?;
            found.conversation.message_count = found.conversation.message_count.saturating_sub(1);
        } else {
            transaction.clear_pair(line, accept)?;
            if let Some(left) = transaction.find_conversation(self.user, &self.id)? {
                found = left;
            }
        }
        found.edited_through = transaction.counters.accept;
        transaction.update_conversation(&mut found)?;
        Ok(true)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

impl Transaction<'_> {
    /// Drops a summary that stands for the turn with this number or for a later one.
    pub(crate) fn drop_summary(
        &mut self,
        line: ConversationRange<'_>,
        accept: u64,
    ) -> Result<(), StoreError> {
        let key = conversation_key(line.user, line.id);
        let stored = self.tables.summaries.get(&key)?;
        let stored = stored.map(|bytes| values::decode::<ConversationSummary>(bytes.value()));
        if stored.is_some_and(|stored| stored.map_or(true, |summary| summary.through >= accept)) {
            self.tables.summaries.remove(&key)?;
        }
        Ok(())
    }

    /// Of what models are told of a job, leaves what its exchange still shows.
    fn trim_turn(&mut self, key: &TurnBytes, message_pair: &MessagePair) -> Result<(), StoreError> {
        let Some(bytes) = self.tables.turns.remove(key)?.map(|bytes| bytes.value().to_vec()) else {
            return Ok(());
        };
        self.count_freed(bytes.len());
        let read =
            values::decode::<Vec<Message>>(&bytes).and_then(|turn| Ok((turn, self.spec(message_pair.job)?)));
        let (turn, asked) = match read {
            Ok((turn, spec)) => (turn, spec.input.len()),
            // It is unknown where the question ends, so the whole turn goes: what was deleted must not stay.
            Err(StoreError::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let left = if message_pair.shows_question { turn.get(..asked) } else { turn.get(asked..) };
        let left = left.unwrap_or_default();
        self.tables.turns.insert(key, values::encode(left)?.as_slice())?;
        Ok(())
    }
}
