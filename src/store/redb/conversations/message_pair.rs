//! The question and the answer of a job in its conversation, each of which may be deleted. Pairs are ordered
//! by acceptance. Users read the text from the job; models get the text from `turns`.

use crate::domain::conversation::{Conversation, TITLE_CHARS};
use crate::domain::event::Event;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::job::{JobOutcome, JobSpec};
use crate::ports::{MessageRef, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::conversation::{MessagePair, job_of};
use crate::store::rows::job::JobRow;

/// The range of a conversation's keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConversationRange<'a> {
    pub(crate) user: UserId,
    pub(crate) id: &'a ConversationId,
    pub(crate) floor: u64,
}

impl<'a> ConversationRange<'a> {
    pub(crate) fn of(row: &'a ConversationRow) -> Self {
        let Conversation { user, id, .. } = &row.conversation;
        Self { user: *user, id, floor: row.floor }
    }

    pub(crate) fn key(self, accept: u64) -> TurnBytes {
        TurnKey { user: self.user, conversation: self.id, accept }.encode()
    }

    /// From this acceptance number on.
    pub(crate) fn from(self, accept: u64) -> (TurnBytes, TurnBytes) {
        (self.key(accept.max(self.floor)), self.key(u64::MAX))
    }

    /// Finds a message, deleted or not. Uses the row of its job; searches all pairs when the question was
    /// answered again or the row is unreadable.
    pub(crate) fn find(
        self,
        jobs: &impl ReadableTable<&'static JobBytes, &'static [u8]>,
        message_pairs: &impl ReadableTable<&'static TurnBytes, &'static [u8]>,
        message: MessageRef,
    ) -> Result<Option<(u64, MessagePair)>, StoreError> {
        let row = jobs.get(&job_of(message).to_bytes())?.map(|bytes| values::decode::<JobRow>(bytes.value()));
        if let Some(Ok(row)) = row {
            let is_of_conversation =
                row.job.user == self.user && row.job.conversation_id.as_ref() == Some(self.id);
            if !is_of_conversation || row.accept < self.floor {
                return Ok(None);
            }
            if let Some(bytes) = message_pairs.get(&self.key(row.accept))?
                && let Some(message_pair) = decode_pair(bytes.value())
                && message_pair.has(message)
            {
                return Ok(Some((row.accept, message_pair)));
            }
        }
        let (first, last) = self.from(0);
        for entry in message_pairs.range::<&TurnBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if let Some(message_pair) =
                decode_pair(bytes.value()).filter(|message_pair| message_pair.has(message))
            {
                return Ok(Some((TurnKey::accept(key.value()), message_pair)));
            }
        }
        Ok(None)
    }
}

/// An unreadable pair is logged and left out.
pub(crate) fn decode_pair(bytes: &[u8]) -> Option<MessagePair> {
    values::decode(bytes).inspect_err(|error| tracing::error!(%error, "message pair cannot be read")).ok()
}

impl Transaction<'_> {
    /// Adds a new job to its conversation; creates a missing conversation.
    pub(crate) fn enter_conversation(
        &mut self,
        row: &JobRow,
        spec: &JobSpec,
        message_pair: &MessagePair,
    ) -> Result<(), StoreError> {
        let Some(key) = row.turn_key() else { return Ok(()) };
        let new_row = |floor| ConversationRow::of_job(&row.job, key.conversation, spec, floor);
        let mut conversation = match self.find_conversation(key.user, key.conversation) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let fresh = new_row(row.accept);
                self.add_conversation(&fresh)?;
                fresh
            }
            // An unreadable row must not block new jobs, and its messages stay.
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(reason, "conversation cannot be read; its settings start from defaults");
                new_row(0)
            }
            Err(error) => return Err(error),
        };
        self.put_pair(&key.encode(), message_pair)?;
        let count = &mut conversation.conversation.message_count;
        *count = count.saturating_add(message_pair.count(false));
        self.update_conversation(&mut conversation)
    }

    /// Counts the answer of an ended job, and sets the title that it suggests.
    pub(crate) fn count_answer(&mut self, row: &JobRow, ending: &JobOutcome) -> Result<(), StoreError> {
        let Some(key) = row.turn_key() else { return Ok(()) };
        let Some(mut found) = self.conversation_of(row)? else { return Ok(()) };
        let answered =
            self.message_pair(&key.encode())?.is_some_and(|message_pair| message_pair.shows_answer);
        let conversation = &mut found.conversation;
        conversation.message_count = conversation.message_count.saturating_add(u64::from(answered));
        if let Event::Done { suggested_title: Some(title), .. } = &ending.event
            && conversation.wants_title()
        {
            conversation.title = title.chars().take(TITLE_CHARS).collect();
        }
        self.update_conversation(&mut found)
    }

    /// Moves the pair of a retried job to the end of its conversation. The row has its new number already.
    pub(crate) fn reenter_conversation(&mut self, row: &JobRow, old_accept: u64) -> Result<(), StoreError> {
        let Some(key) = row.turn_key() else { return Ok(()) };
        let Some(mut found) = self.conversation_of(row)? else { return Ok(()) };
        let old = TurnKey { accept: old_accept, ..key }.encode();
        let stored = self.message_pair(&old)?;
        let counted = stored.map_or(0, |message_pair| message_pair.count(true));
        self.tables.message_pairs.remove(&old)?;
        let message_pair =
            MessagePair { shows_answer: true, ..stored.unwrap_or_else(|| MessagePair::of(&row.job)) };
        self.put_pair(&key.encode(), &message_pair)?;
        let count = &mut found.conversation.message_count;
        *count = count.saturating_sub(counted).saturating_add(message_pair.count(false));
        self.update_conversation(&mut found)
    }

    /// Removes an ended or quarantined job from its conversation. Returns the freed bytes.
    pub(crate) fn leave_conversation(&mut self, key: TurnKey<'_>) -> Result<usize, StoreError> {
        let bytes = key.encode();
        let Some(message_pair) = self.message_pair(&bytes)? else { return Ok(0) };
        let freed = self.tables.message_pairs.remove(&bytes)?.map_or(0, |bytes| bytes.value().len());
        match self.find_conversation(key.user, key.conversation) {
            Ok(Some(mut found)) if found.floor <= key.accept => {
                let count = &mut found.conversation.message_count;
                *count = count.saturating_sub(message_pair.count(true));
                self.put_conversation(&found)?;
            }
            Ok(_) | Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(freed)
    }

    /// The message pair of a job.
    pub(crate) fn message_pair(&self, key: &TurnBytes) -> Result<Option<MessagePair>, StoreError> {
        Ok(self.tables.message_pairs.get(key)?.and_then(|bytes| decode_pair(bytes.value())))
    }

    pub(crate) fn put_pair(&mut self, key: &TurnBytes, message_pair: &MessagePair) -> Result<(), StoreError> {
        self.mark_dirty();
        self.tables.message_pairs.put_row(key, message_pair)?;
        Ok(())
    }

    /// Deletes the job of a pair with all its data; of a quarantined job, the data in its conversation.
    /// Returns whether it was deleted: an unfinished job stays.
    pub(crate) fn clear_pair(
        &mut self,
        range: ConversationRange<'_>,
        accept: u64,
    ) -> Result<bool, StoreError> {
        let key = TurnKey { user: range.user, conversation: range.id, accept };
        let bytes = key.encode();
        let row = match self
            .message_pair(&bytes)?
            .map(|message_pair| self.find_row(message_pair.job))
            .transpose()
        {
            Err(StoreError::Corrupt(_)) => None,
            row => row?.flatten(),
        };
        // The job has moved to another position since, so it stays.
        if let Some(row) = row.filter(|row| row.turn_key() == Some(key)) {
            return self.forget(row.id());
        }
        self.leave_conversation(key)?;
        self.tables.message_pairs.remove(&bytes)?;
        self.tables.turns.remove(&bytes)?;
        self.forget_items(&bytes)?;
        self.mark_dirty();
        Ok(true)
    }

    /// Numbers of a conversation's pairs from this one on, at most `limit`.
    pub(crate) fn pairs_from(
        &self,
        range: ConversationRange<'_>,
        accept: u64,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let (first, last) = range.from(accept);
        let pairs = self.tables.message_pairs.range::<&TurnBytes>(&first..=&last)?.take(limit);
        pairs.map(|entry| Ok(TurnKey::accept(entry?.0.value()))).collect()
    }
}
