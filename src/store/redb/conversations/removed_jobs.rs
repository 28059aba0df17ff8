//! Removes the jobs that removed conversations and replaced answers left behind, while the store is idle.
//! Later jobs, and a later conversation of the same name, are not touched.

use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::key_parts;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::conversations::message_pair::ConversationRange;
use crate::store::redb::writer::transaction::Transaction;

/// Conversations of one transaction.
const SWEEP_CONVERSATIONS: usize = 1_000;
/// Jobs that one transaction deletes.
const SWEEP_JOBS: usize = 200;

impl Transaction<'_> {
    /// Leaves the jobs of a conversation from this number on to the sweeper. Later jobs stay.
    pub(crate) fn remove_later(&mut self, range: ConversationRange<'_>, from: u64) -> Result<(), StoreError> {
        let last = self.counters.accept;
        self.tables.removed_conversations.insert(&range.key(last), from)?;
        self.mark_dirty();
        Ok(())
    }

    /// Deletes some jobs of removed conversations. Returns whether more work is left now.
    pub(crate) fn clear_removed_conversations(&mut self) -> Result<bool, StoreError> {
        let removed_rows = self.tables.removed_conversations.iter()?.take(SWEEP_CONVERSATIONS);
        let removed_rows: Vec<_> = removed_rows
            .map(|entry| entry.map(|(key, from)| (*key.value(), from.value())))
            .collect::<Result<_, _>>()?;
        let mut jobs = SWEEP_JOBS;
        for (key, first) in removed_rows {
            let Some((user, id, last)) = key_parts(&key) else {
                self.tables.removed_conversations.remove(&key)?;
                continue;
            };
            let range = ConversationRange { user, id: &id, floor: 0 };
            let (mut is_clear, mut from) = (true, first);
            while jobs > 0 {
                let Some(accept) = self.pairs_from(range, from, 1)?.pop().filter(|at| *at <= last) else {
                    break;
                };
                // An unfinished job stays and does not block the others.
                let is_gone = self.clear_pair(range, accept)?;
                is_clear &= is_gone;
                jobs = jobs.saturating_sub(usize::from(is_gone));
                from = accept.saturating_add(1);
            }
            if jobs == 0 {
                return Ok(true);
            }
            is_clear &= self.clear_added(range, (first, last), SWEEP_JOBS)?;
            if is_clear {
                self.mark_dirty();
                self.tables.removed_conversations.remove(&key)?;
            }
        }
        Ok(false)
    }
}
