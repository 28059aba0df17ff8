//! What stands for a conversation's oldest turns: one row for each conversation, which goes with its last turn. Refuses to
//! go back: a summary never gives way to one that stands for less.

use super::keys::{TurnBytes, TurnKey};
use super::schema::SUMMARIES;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::value;
use crate::domain::job::ConversationSummary;
use crate::ports::StoreError;
use redb::ReadTransaction;

impl Transaction<'_> {
    /// Stores the summary of the conversation that `member` is a key of.
    pub(super) fn write_summary(
        &mut self,
        member: &TurnBytes,
        summary: &ConversationSummary,
    ) -> Result<(), StoreError> {
        let (key, _) = TurnKey::line_of(member);
        let stored = self.tables.summaries.get(&key)?.map(|bytes| read(bytes.value()));
        if stored.flatten().is_some_and(|stored| stored.through > summary.through) {
            return Ok(());
        }
        self.tables.summaries.insert(&key, value::encode(summary)?.as_slice())?;
        Ok(())
    }

    /// After a turn has gone: the summary goes with the last one, because it tells what was said. The bytes that are freed.
    pub(super) fn forget_summary(&mut self, place: TurnKey<'_>) -> Result<usize, StoreError> {
        // What another conversation of this name has left behind is no turn of this one.
        let floor = match self.find_conversation(place.user, place.conversation) {
            Err(StoreError::Corrupt(_)) => 0,
            found => found?.map_or(0, |found| found.floor),
        };
        let (first, last) = TurnKey::line_of(&place.encode());
        let own = TurnKey { accept: floor, ..place }.encode();
        if self.tables.turns.range::<&TurnBytes>(&own..=&last)?.next().transpose()?.is_some() {
            return Ok(0);
        }
        Ok(self.tables.summaries.remove(&first)?.map_or(0, |bytes| bytes.value().len()))
    }
}

/// The summary that a job accepted at `key` is told: one that stands for what came before it, and for nothing else.
pub(super) fn summary(
    reading: &ReadTransaction,
    key: TurnKey<'_>,
) -> Result<Option<ConversationSummary>, StoreError> {
    let first = TurnKey { accept: 0, ..key }.encode();
    let stored = SUMMARIES.read(reading)?.get(&first)?.and_then(|bytes| read(bytes.value()));
    Ok(stored.filter(|summary| summary.through < key.accept))
}

/// One that cannot be read is as good as none: the turns are still there.
pub(super) fn read(bytes: &[u8]) -> Option<ConversationSummary> {
    match value::decode(bytes) {
        Ok(summary) => Some(summary),
        Err(error) => {
            tracing::error!(%error, "the summary of a conversation cannot be read");
            None
        }
    }
}
