//! The place of a job in its conversation: a question and its answer, each of which may be deleted. Pairs are
//! ordered by acceptance. Their text is the job's; what models get is in `turns`.

use crate::domain::conversation::{Conversation, TITLE_CHARS};
use crate::domain::event::Event;
use crate::domain::id::{AskId, ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobOutcome, JobSpec};
use crate::ports::{MessageRef, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::row::ConversationRow;
use crate::store::redb::jobs::row::JobRow;
use crate::store::redb::writer::transaction::Transaction;
use serde::{Deserialize, Serialize};

/// A row of the table `message_pairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessagePair {
    pub(crate) job: JobId,
    /// The question's id: the first job's that was asked it.
    pub(crate) ask: AskId,
    pub(crate) ask_created_at_ms: u64,
    pub(crate) shows_question: bool,
    pub(crate) shows_answer: bool,
}

impl MessagePair {
    /// Of a job that is asked something new.
    pub(crate) fn of(job: &Job) -> Self {
        let ask_created_at_ms = job.created_at_ms;
        Self {
            job: job.id,
            ask: job.id.ask_id(),
            ask_created_at_ms,
            shows_question: true,
            shows_answer: true,
        }
    }

    /// Whether one of its messages has this id, deleted or not.
    pub(crate) fn has(&self, message: MessageRef) -> bool {
        match message {
            MessageRef::Ask(ask) => self.ask == ask,
            MessageRef::Answer(answer) => self.job == answer.job(),
        }
    }

    /// Whether anything of it can still be read.
    pub(crate) fn is_shown(&self) -> bool {
        self.shows_question || self.shows_answer
    }

    /// How many messages it counts for; an answer counts once it is there.
    pub(crate) fn count(&self, has_ended: bool) -> u64 {
        u64::from(self.shows_question).saturating_add(u64::from(self.shows_answer && has_ended))
    }
}

/// The job that a message's id names.
pub(crate) fn job_of(message: MessageRef) -> JobId {
    match message {
        MessageRef::Ask(ask) => ask.job(),
        MessageRef::Answer(answer) => answer.job(),
    }
}

/// All that is a conversation's own.
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

    /// Where a message is, deleted or not: the row of its job knows, or else (the question was asked again,
    /// the row cannot be read) a look at all of them.
    pub(crate) fn find(
        self,
        jobs: &impl ReadableTable<&'static JobBytes, &'static [u8]>,
        message_pairs: &impl ReadableTable<&'static TurnBytes, &'static [u8]>,
        message: MessageRef,
    ) -> Result<Option<(u64, MessagePair)>, StoreError> {
        let row = jobs.get(&job_of(message).to_bytes())?.map(|bytes| values::decode::<JobRow>(bytes.value()));
        if let Some(Ok(row)) = row {
            let is_mine = row.job.user == self.user && row.job.conversation_id.as_ref() == Some(self.id);
            if !is_mine || row.accept < self.floor {
                return Ok(None);
            }
            if let Some(bytes) = message_pairs.get(&self.key(row.accept))?
                && let Some(message_pair) = readable(bytes.value())
                && message_pair.has(message)
            {
                return Ok(Some((row.accept, message_pair)));
            }
        }
        let (first, last) = self.from(0);
        for entry in message_pairs.range::<&TurnBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if let Some(message_pair) =
                readable(bytes.value()).filter(|message_pair| message_pair.has(message))
            {
                return Ok(Some((TurnKey::accept(key.value()), message_pair)));
            }
        }
        Ok(None)
    }
}

/// One that cannot be read shows nothing; the others stay.
pub(crate) fn readable(bytes: &[u8]) -> Option<MessagePair> {
    values::decode(bytes).inspect_err(|error| tracing::error!(%error, "message pair cannot be read")).ok()
}

impl Transaction<'_> {
    /// A job that was just accepted enters its conversation, which is made if there is none.
    pub(crate) fn enter_conversation(
        &mut self,
        row: &JobRow,
        spec: &JobSpec,
        message_pair: &MessagePair,
    ) -> Result<(), StoreError> {
        let Some(key) = row.turn_key() else { return Ok(()) };
        let of_job = |floor| ConversationRow::of_job(&row.job, key.conversation, spec, floor);
        let mut conversation = match self.find_conversation(key.user, key.conversation) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let fresh = of_job(row.accept);
                self.add_conversation(&fresh)?;
                fresh
            }
            // It must not keep jobs from being accepted, and what was said in it stays.
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(reason, "conversation cannot be read; its settings start from defaults");
                of_job(0)
            }
            Err(error) => return Err(error),
        };
        self.put_pair(&key.encode(), message_pair)?;
        let count = &mut conversation.conversation.message_count;
        *count = count.saturating_add(message_pair.count(false));
        self.update_conversation(&mut conversation)
    }

    /// A job has ended: its answer counts, and the conversation may take the title that it brings.
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

    /// A failed job is tried again, as if it had been accepted anew: the exchange goes to the end of its
    /// conversation. The row has its new number already.
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

    /// An ended job, or one that is set aside, leaves its conversation: the bytes that are freed.
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
        Ok(self.tables.message_pairs.get(key)?.and_then(|bytes| readable(bytes.value())))
    }

    pub(crate) fn put_pair(&mut self, key: &TurnBytes, message_pair: &MessagePair) -> Result<(), StoreError> {
        self.mark_dirty();
        self.tables.message_pairs.put_row(key, message_pair)?;
        Ok(())
    }

    /// Forgets the job behind an exchange with all that belongs to it. Of one that is set aside, what its
    /// conversation has of it. Whether it is gone: one that has not ended stays.
    pub(crate) fn clear_pair(
        &mut self,
        line: ConversationRange<'_>,
        accept: u64,
    ) -> Result<bool, StoreError> {
        let key = TurnKey { user: line.user, conversation: line.id, accept };
        let bytes = key.encode();
        let row = match self
            .message_pair(&bytes)?
            .map(|message_pair| self.find_row(message_pair.job))
            .transpose()
        {
            Err(StoreError::Corrupt(_)) => None,
            row => row?.flatten(),
        };
        // What lies elsewhere by now is not this one's to forget.
        if let Some(row) = row.filter(|row| row.turn_key() == Some(key)) {
            return self.forget(row.id());
        }
        self.leave_conversation(key)?;
        self.tables.message_pairs.remove(&bytes)?;
        self.tables.turns.remove(&bytes)?;
        self.mark_dirty();
        Ok(true)
    }

    /// Exchanges of a conversation from this number on, at most so many, by their numbers.
    pub(crate) fn pairs_from(
        &self,
        line: ConversationRange<'_>,
        accept: u64,
        most: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let (first, last) = line.from(accept);
        let range = self.tables.message_pairs.range::<&TurnBytes>(&first..=&last)?.take(most);
        range.map(|entry| Ok(TurnKey::accept(entry?.0.value()))).collect()
    }
}
