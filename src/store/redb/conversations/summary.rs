//! The summary that replaces a conversation's oldest turns: one row a conversation, removed with its last
//! turn. A summary never replaces one that covers more.

use crate::domain::job::ConversationSummary;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::SUMMARIES;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// Stores the summary of the conversation that `member` is a key of.
    pub(crate) fn write_summary(
        &mut self,
        member: &TurnBytes,
        summary: &ConversationSummary,
    ) -> Result<(), StoreError> {
        let (key, _) = TurnKey::conversation_range(member);
        let stored = self.tables.summaries.get(&key)?.map(|bytes| read(bytes.value()));
        if stored.flatten().is_some_and(|stored| stored.through > summary.through) {
            return Ok(());
        }
        self.tables.summaries.put_row(&key, summary)?;
        Ok(())
    }

    /// Removes the summary with the last turn, because it contains their text. Returns the freed bytes.
    pub(crate) fn forget_summary(&mut self, turn: TurnKey<'_>) -> Result<usize, StoreError> {
        // Turns of an earlier conversation with this name do not count.
        let floor = match self.find_conversation(turn.user, turn.conversation) {
            Err(StoreError::Corrupt(_)) => 0,
            found => found?.map_or(0, |found| found.floor),
        };
        let (first, last) = TurnKey::conversation_range(&turn.encode());
        let own = TurnKey { accept: floor, ..turn }.encode();
        if self.tables.turns.range::<&TurnBytes>(&own..=&last)?.next().transpose()?.is_some() {
            return Ok(0);
        }
        Ok(self.tables.summaries.remove(&first)?.map_or(0, |bytes| bytes.value().len()))
    }
}

/// The summary for a job accepted at `key`: one that covers earlier turns only.
pub(crate) fn summary(
    reading: &ReadTransaction,
    key: TurnKey<'_>,
) -> Result<Option<ConversationSummary>, StoreError> {
    let first = TurnKey { accept: 0, ..key }.encode();
    let stored = SUMMARIES.read(reading)?.get(&first)?.and_then(|bytes| read(bytes.value()));
    Ok(stored.filter(|summary| summary.through < key.accept))
}

/// An unreadable summary counts as none: the turns still exist.
pub(crate) fn read(bytes: &[u8]) -> Option<ConversationSummary> {
    match values::decode(bytes) {
        Ok(summary) => Some(summary),
        Err(error) => {
            tracing::error!(%error, "conversation summary cannot be read");
            None
        }
    }
}
