//! Removes conversations. A few jobs go in the same transaction, the others while the store is idle
//! ([`super::removed_jobs`]); unfinished jobs are cancelled. Usage stays.

use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey, all_of, conversation_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::list::is_of;
use crate::store::redb::conversations::message_pair::ConversationRange;
use crate::store::redb::queue::conversation_queue::unfinished;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::job::JobRow;

/// Jobs that are deleted in the transaction that removes their conversations.
const FORGOTTEN: usize = 100;

impl Transaction<'_> {
    /// Removes a conversation. Returns whether the user had it.
    pub(crate) fn remove_conversation(
        &mut self,
        user: UserId,
        id: &ConversationId,
    ) -> Result<bool, StoreError> {
        let mut forgets = FORGOTTEN;
        self.remove_with_budget(user, id, &mut forgets)
    }
}

impl Transaction<'_> {
    /// Removes all conversations of a project. Returns their number.
    pub(crate) fn remove_conversations_of(
        &mut self,
        user: UserId,
        project: ProjectId,
    ) -> Result<u64, StoreError> {
        let (first, last) = all_of(user);
        let mut ids = Vec::new();
        for entry in self.tables.conversations.range::<&TurnBytes>(&first..=&last)? {
            // A row that cannot be read names no project.
            let Ok(row) = values::decode::<ConversationRow>(entry?.1.value()) else { continue };
            if is_of(&row.conversation, Some(project)) {
                ids.push(row.conversation.id);
            }
        }
        let (mut removed, mut forgets) = (0_u64, FORGOTTEN);
        for id in &ids {
            removed = removed.saturating_add(u64::from(self.remove_with_budget(user, id, &mut forgets)?));
        }
        Ok(removed)
    }

    /// The same; `forgets`: jobs that may still be removed in this transaction.
    fn remove_with_budget(
        &mut self,
        user: UserId,
        id: &ConversationId,
        forgets: &mut usize,
    ) -> Result<bool, StoreError> {
        let floor = match self.find_conversation(user, id) {
            Ok(None) => return Ok(false),
            Ok(Some(row)) => {
                self.tables.conversations_by_time.remove(&row.recent().encode())?;
                row.floor
            }
            Err(StoreError::Corrupt(_)) => 0,
            Err(error) => return Err(error),
        };
        self.mark_dirty();
        let key = conversation_key(user, id);
        let tables = &mut self.tables;
        for table in [&mut tables.conversations, &mut tables.summaries] {
            table.remove(&key)?;
        }
        let (first, last) = TurnKey::conversation_range(&key);
        tables.conversation_usage.retain_in::<&TurnBytes>(&first..=&last, |_, _| false)?;
        self.count_conversations(user, -1)?;
        // Later jobs start another conversation, even a batch line that becomes a job now.
        let last = self.counters.accept;
        self.cancel_all(user, id)?;
        let range = ConversationRange { user, id, floor };
        let is_clear = self.clear_added(range, (0, last), FORGOTTEN)?;
        if !self.forget_ended(range, last, forgets)? || !is_clear {
            self.tables.removed_conversations.insert(&range.key(last), 0)?;
        }
        Ok(true)
    }

    /// Starts with the last job: otherwise each one would become ready before it is cancelled.
    fn cancel_all(&mut self, user: UserId, id: &ConversationId) -> Result<(), StoreError> {
        let key = conversation_key(user, id);
        let background_jobs = self.background_jobs_of(user, id)?;
        for job in unfinished(&self.tables.conversation_queue, &key)?.into_iter().rev().chain(background_jobs)
        {
            match self.row(job) {
                Ok(mut row) => self.cancel_row(&mut row)?,
                // It is quarantined when it reaches the head of its queue.
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(%job, reason, "job of a removed conversation cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes jobs that ended earlier. Returns whether all jobs were deleted. A job that ends in this
    /// transaction stays, so that its readers see the end.
    fn forget_ended(
        &mut self,
        range: ConversationRange<'_>,
        last: u64,
        forgets: &mut usize,
    ) -> Result<bool, StoreError> {
        let mut is_all = true;
        for accept in self.pairs_from(range, 0, forgets.saturating_add(1))? {
            if accept > last {
                break;
            }
            let is_old = match self.message_pair(&range.key(accept))? {
                Some(message_pair) => self.has_ended_before(message_pair.job)?,
                None => true,
            };
            if *forgets == 0 || !is_old {
                is_all = false;
                continue;
            }
            *forgets = forgets.saturating_sub(1);
            is_all &= self.clear_pair(range, accept)?;
        }
        Ok(is_all)
    }

    fn has_ended_before(&self, job: JobId) -> Result<bool, StoreError> {
        let row = self.find_readable_row(job)?;
        Ok(row.is_none_or(|JobRow { job, .. }| {
            let ended_now = job.status == JobStatus::Cancelled && job.finished_at_ms == Some(self.now_ms);
            job.status.is_terminal() && !ended_now
        }))
    }
}
