//! Deletes one message: no user and no model can read it any more. The output and the log of a deleted
//! answer go at once, except the terminal event. When both messages of a job are deleted, the job is.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::ConversationSummary;
use crate::domain::message::Message;
use crate::ports::{ConversationError, MessageRef, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, conversation_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::items::question_length;
use crate::store::redb::conversations::message_pair::ConversationRange;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::MessagePair;

impl Transaction<'_> {
    /// Deletes a message of a conversation.
    pub(crate) fn delete_message(
        &mut self,
        user: UserId,
        id: &ConversationId,
        message: MessageRef,
    ) -> Result<bool, ConversationError> {
        let Some(mut found) = self.find_conversation(user, id)? else { return Ok(false) };
        let range = ConversationRange::of(&found);
        let (jobs, message_pairs) = (&self.tables.jobs, &self.tables.message_pairs);
        let Some((accept, before)) = range.find(jobs, message_pairs, message)? else { return Ok(false) };
        let after = match message {
            MessageRef::Ask(_) => MessagePair { shows_question: false, ..before },
            MessageRef::Answer(_) => MessagePair { shows_answer: false, ..before },
        };
        if after == before {
            return Ok(false);
        }
        match self.find_row(before.job) {
            Ok(Some(row)) if !row.job.status.is_terminal() => {
                return Err(ConversationError::WrongState { status: row.job.status });
            }
            // An unreadable pair can be deleted, too.
            Ok(_) | Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let key = range.key(accept);
        self.drop_summary(range, accept)?;
        if after.is_shown() {
            self.trim_turn(&key, &after)?;
            if !after.shows_answer {
                self.erase_output(before.job)?;
            }
            if !after.shows_question {
                self.erase_input(before.job)?;
            }
            self.put_pair(&key, &after)?;
            found.conversation.message_count = found.conversation.message_count.saturating_sub(1);
        } else {
            self.clear_pair(range, accept)?;
            if let Some(left) = self.find_conversation(user, id)? {
                found = left;
            }
        }
        found.edited_through = self.counters.accept;
        self.update_conversation(&mut found)?;
        Ok(true)
    }

    /// Removes the start of the input from the row, so that the job object shows no input any more.
    fn erase_input(&mut self, job: JobId) -> Result<(), StoreError> {
        match self.find_row(job) {
            Ok(Some(mut row)) if row.job.input.is_some() => {
                row.job.input = None;
                self.put_row(&row)
            }
            // An unreadable row shows nothing.
            Ok(_) | Err(StoreError::Corrupt(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Drops a summary that replaces the turn with this number or a later one.
    pub(crate) fn drop_summary(
        &mut self,
        range: ConversationRange<'_>,
        accept: u64,
    ) -> Result<(), StoreError> {
        let key = conversation_key(range.user, range.id);
        let stored = self.tables.summaries.get(&key)?;
        let stored = stored.map(|bytes| values::decode::<ConversationSummary>(bytes.value()));
        if stored.is_some_and(|stored| stored.map_or(true, |summary| summary.through >= accept)) {
            self.tables.summaries.remove(&key)?;
        }
        Ok(())
    }

    /// Removes deleted messages from the turn that models read.
    fn trim_turn(&mut self, key: &TurnBytes, message_pair: &MessagePair) -> Result<(), StoreError> {
        let Some(bytes) = self.tables.turns.remove(key)?.map(|bytes| bytes.value().to_vec()) else {
            return Ok(());
        };
        self.count_freed(bytes.len());
        let read =
            values::decode::<Vec<Message>>(&bytes).and_then(|turn| Ok((turn, self.spec(message_pair.job)?)));
        let (turn, question) = match read {
            Ok((turn, spec)) => {
                (turn, question_length(&self.tables.conversation_items, key, spec.input.len())?)
            }
            // The end of the question is unknown, so the complete turn is removed: deleted text must not
            // stay.
            Err(StoreError::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let left = if message_pair.shows_question { turn.get(..question) } else { turn.get(question..) };
        let left = left.unwrap_or_default();
        self.tables.turns.put_row(key, left)?;
        Ok(())
    }
}
