//! What a job is to its conversation: a question and its answer, each of which may have been deleted. Owns their order, which
//! is that of acceptance, and their number; refuses their text, which is the job's (what models are told is in `turns`).

use super::conversation_row::ConversationRow;
use super::keys::{JobBytes, TurnBytes, TurnKey};
use super::queue::line_key;
use super::row::Row;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::value;
use crate::domain::conversation::{Conversation, TITLE_CHARS};
use crate::domain::event::Event;
use crate::domain::id::{AskId, ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobOutcome, JobSpec};
use crate::ports::{MessageRef, StoreError};
use serde::{Deserialize, Serialize};

/// What the `exchanges` table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub(super) job: JobId,
    /// The question's id: the first job's that was asked it.
    pub(super) ask: AskId,
    pub(super) ask_created_at_ms: u64,
    pub(super) shows_ask: bool,
    pub(super) shows_answer: bool,
}

impl Exchange {
    /// Of a job that is asked something new.
    pub(super) fn of(job: &Job) -> Self {
        let ask_created_at_ms = job.created_at_ms;
        Self { job: job.id, ask: job.id.ask_id(), ask_created_at_ms, shows_ask: true, shows_answer: true }
    }

    /// Whether one of its messages has this id, deleted or not.
    pub(super) fn has(&self, message: MessageRef) -> bool {
        match message {
            MessageRef::Ask(ask) => self.ask == ask,
            MessageRef::Answer(answer) => self.job == answer.job(),
        }
    }

    /// Whether anything of it can still be read.
    pub(super) fn is_shown(&self) -> bool {
        self.shows_ask || self.shows_answer
    }

    /// How many messages it counts for; an answer counts once it is there.
    pub(super) fn count(&self, has_ended: bool) -> u64 {
        u64::from(self.shows_ask).saturating_add(u64::from(self.shows_answer && has_ended))
    }
}

/// The job that a message's id names.
pub(super) fn job_of(message: MessageRef) -> JobId {
    match message {
        MessageRef::Ask(ask) => ask.job(),
        MessageRef::Answer(answer) => answer.job(),
    }
}

/// All that is a conversation's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) user: UserId,
    pub(super) id: &'a ConversationId,
    pub(super) floor: u64,
}

impl<'a> Line<'a> {
    pub(super) fn of(row: &'a ConversationRow) -> Self {
        let Conversation { user, id, .. } = &row.conversation;
        Self { user: *user, id, floor: row.floor }
    }

    pub(super) fn key(self, accept: u64) -> TurnBytes {
        TurnKey { user: self.user, conversation: self.id, accept }.encode()
    }

    /// From this acceptance number on.
    pub(super) fn from(self, accept: u64) -> (TurnBytes, TurnBytes) {
        (self.key(accept.max(self.floor)), self.key(u64::MAX))
    }

    /// Where a message is, deleted or not: the row of its job knows, or else (the question was asked again, the row cannot
    /// be read) a look at all of them.
    pub(super) fn find(
        self,
        jobs: &impl ReadableTable<&'static JobBytes, &'static [u8]>,
        exchanges: &impl ReadableTable<&'static TurnBytes, &'static [u8]>,
        message: MessageRef,
    ) -> Result<Option<(u64, Exchange)>, StoreError> {
        let row = jobs.get(&job_of(message).to_bytes())?.map(|bytes| value::decode::<Row>(bytes.value()));
        if let Some(Ok(row)) = row {
            let is_mine = row.job.user == self.user && row.job.conversation_id.as_ref() == Some(self.id);
            if !is_mine || row.accept < self.floor {
                return Ok(None);
            }
            if let Some(bytes) = exchanges.get(&self.key(row.accept))?
                && let Some(exchange) = readable(bytes.value())
                && exchange.has(message)
            {
                return Ok(Some((row.accept, exchange)));
            }
        }
        let (first, last) = self.from(0);
        for entry in exchanges.range::<&TurnBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if let Some(exchange) = readable(bytes.value()).filter(|exchange| exchange.has(message)) {
                return Ok(Some((TurnKey::accept(key.value()), exchange)));
            }
        }
        Ok(None)
    }
}

/// One that cannot be read shows nothing; the others stay.
pub(super) fn readable(bytes: &[u8]) -> Option<Exchange> {
    value::decode(bytes)
        .inspect_err(|error| tracing::error!(%error, "a question and its answer are lost"))
        .ok()
}

impl Transaction<'_> {
    /// A job that was just accepted enters its conversation, which is made if there is none.
    pub(super) fn enter_conversation(
        &mut self,
        row: &Row,
        spec: &JobSpec,
        exchange: &Exchange,
    ) -> Result<(), StoreError> {
        let Some(key) = line_key(row) else { return Ok(()) };
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
                tracing::error!(reason, "a conversation cannot be read: its settings begin anew");
                of_job(0)
            }
            Err(error) => return Err(error),
        };
        self.put_exchange(&key.encode(), exchange)?;
        let count = &mut conversation.conversation.message_count;
        *count = count.saturating_add(exchange.count(false));
        self.freshen_conversation(&mut conversation)
    }

    /// A job has ended: its answer counts, and the conversation may take the title that it brings.
    pub(super) fn answer_conversation(&mut self, row: &Row, ending: &JobOutcome) -> Result<(), StoreError> {
        let Some(key) = line_key(row) else { return Ok(()) };
        let Some(mut found) = self.conversation_of(row)? else { return Ok(()) };
        let answered = self.exchange(&key.encode())?.is_some_and(|exchange| exchange.shows_answer);
        let conversation = &mut found.conversation;
        conversation.message_count = conversation.message_count.saturating_add(u64::from(answered));
        if let Event::Done { suggested_title: Some(title), .. } = &ending.event
            && conversation.wants_title()
        {
            conversation.title = title.chars().take(TITLE_CHARS).collect();
        }
        self.freshen_conversation(&mut found)
    }

    /// A failed job is tried again, as if it had been accepted anew: the exchange goes to the end of its conversation. The
    /// row has its new number already.
    pub(super) fn reenter_conversation(&mut self, row: &Row, old_accept: u64) -> Result<(), StoreError> {
        let Some(key) = line_key(row) else { return Ok(()) };
        let Some(mut found) = self.conversation_of(row)? else { return Ok(()) };
        let old = TurnKey { accept: old_accept, ..key }.encode();
        let stored = self.exchange(&old)?;
        let counted = stored.map_or(0, |exchange| exchange.count(true));
        self.tables.exchanges.remove(&old)?;
        let exchange = Exchange { shows_answer: true, ..stored.unwrap_or_else(|| Exchange::of(&row.job)) };
        self.put_exchange(&key.encode(), &exchange)?;
        let count = &mut found.conversation.message_count;
        *count = count.saturating_sub(counted).saturating_add(exchange.count(false));
        self.freshen_conversation(&mut found)
    }

    /// An ended job, or one that is set aside, leaves its conversation: the bytes that are freed.
    pub(super) fn leave_conversation(&mut self, key: TurnKey<'_>) -> Result<usize, StoreError> {
        let bytes = key.encode();
        let Some(exchange) = self.exchange(&bytes)? else { return Ok(0) };
        let freed = self.tables.exchanges.remove(&bytes)?.map_or(0, |bytes| bytes.value().len());
        match self.find_conversation(key.user, key.conversation) {
            Ok(Some(mut found)) if found.floor <= key.accept => {
                let count = &mut found.conversation.message_count;
                *count = count.saturating_sub(exchange.count(true));
                self.put_conversation(&found)?;
            }
            Ok(_) | Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(freed)
    }

    /// What a job is to its conversation.
    pub(super) fn exchange(&self, key: &TurnBytes) -> Result<Option<Exchange>, StoreError> {
        Ok(self.tables.exchanges.get(key)?.and_then(|bytes| readable(bytes.value())))
    }

    pub(super) fn put_exchange(&mut self, key: &TurnBytes, exchange: &Exchange) -> Result<(), StoreError> {
        self.touch();
        self.tables.exchanges.insert(key, value::encode(exchange)?.as_slice())?;
        Ok(())
    }

    /// Forgets the job behind an exchange with all that belongs to it. Of one that is set aside, what its conversation has of
    /// it. Whether it is gone: one that has not ended stays.
    pub(super) fn clear_exchange(&mut self, line: Line<'_>, accept: u64) -> Result<bool, StoreError> {
        let key = TurnKey { user: line.user, conversation: line.id, accept };
        let bytes = key.encode();
        let row = match self.exchange(&bytes)?.map(|exchange| self.find_row(exchange.job)).transpose() {
            Err(StoreError::Corrupt(_)) => None,
            row => row?.flatten(),
        };
        // What lies elsewhere by now is not this one's to forget.
        if let Some(row) = row.filter(|row| line_key(row) == Some(key)) {
            return self.forget(row.id());
        }
        self.leave_conversation(key)?;
        self.tables.exchanges.remove(&bytes)?;
        self.tables.turns.remove(&bytes)?;
        self.touch();
        Ok(true)
    }

    /// Exchanges of a conversation from this number on, at most so many, by their numbers.
    pub(super) fn exchanges_from(
        &self,
        line: Line<'_>,
        accept: u64,
        most: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let (first, last) = line.from(accept);
        let range = self.tables.exchanges.range::<&TurnBytes>(&first..=&last)?.take(most);
        range.map(|entry| Ok(TurnKey::accept(entry?.0.value()))).collect()
    }
}
