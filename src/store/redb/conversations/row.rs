//! The stored row of a conversation and its position in the list of its user. A conversation has a first
//! acceptance number; earlier jobs belong to a removed one of the same name.

use crate::domain::conversation::Conversation;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::job::JobSpec;
use crate::ports::{NewJob, StoreError};
use crate::store::redb::codec::keys::conversations::{RecentConversationKey, conversation_key, count_key};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::CONVERSATIONS;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::job::JobRow;
use std::collections::BTreeSet;

impl ConversationRow {
    /// Its key in the list.
    pub(crate) fn recent(&self) -> RecentConversationKey<'_> {
        let Conversation { user, updated_at_ms, id, .. } = &self.conversation;
        RecentConversationKey { user: *user, updated_at_ms: *updated_at_ms, conversation: id }
    }
}

/// The row of a conversation, as committed.
pub(crate) fn read(
    reading: &ReadTransaction,
    user: UserId,
    id: &ConversationId,
) -> Result<Option<ConversationRow>, StoreError> {
    CONVERSATIONS.read(reading)?.row(&conversation_key(user, id))
}

impl Transaction<'_> {
    /// The row of a conversation, if the user has it.
    pub(crate) fn find_conversation(
        &self,
        user: UserId,
        id: &ConversationId,
    ) -> Result<Option<ConversationRow>, StoreError> {
        self.tables.conversations.row(&conversation_key(user, id))
    }

    /// The conversation that a job is part of; `None` as well when it was removed since the job was accepted,
    /// even if there is another one of its name now. An unreadable row must not keep jobs from ending
    /// (P4).
    pub(crate) fn conversation_of(&self, row: &JobRow) -> Result<Option<ConversationRow>, StoreError> {
        let Some(key) = row.turn_key() else { return Ok(None) };
        match self.find_conversation(key.user, key.conversation) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "conversation of the job cannot be read");
                Ok(None)
            }
            found => Ok(found?.filter(|found| found.floor <= row.accept)),
        }
    }

    /// Writes a new one, and counts it.
    pub(crate) fn add_conversation(&mut self, row: &ConversationRow) -> Result<(), StoreError> {
        self.count_conversations(row.conversation.user, 1)?;
        self.put_conversation(row)
    }

    /// Writes a row whose position in the list does not change.
    pub(crate) fn put_conversation(&mut self, row: &ConversationRow) -> Result<(), StoreError> {
        self.mark_dirty();
        let key = conversation_key(row.conversation.user, &row.conversation.id);
        self.tables.conversations.put_row(&key, row)?;
        self.tables.conversations_by_time.insert(&row.recent().encode(), ())?;
        Ok(())
    }

    /// Writes a row that has changed now: it comes first in the list.
    pub(crate) fn update_conversation(&mut self, row: &mut ConversationRow) -> Result<(), StoreError> {
        self.tables.conversations_by_time.remove(&row.recent().encode())?;
        row.conversation.updated_at_ms = self.now_ms;
        self.put_conversation(row)
    }

    /// Whether a conversation that must exist is missing. An unreadable one exists.
    pub(crate) fn is_conversation_missing(&self, jobs: &[NewJob]) -> Result<bool, StoreError> {
        for job in jobs.iter().filter(|job| job.in_existing) {
            let Some(id) = &job.spec.conversation_id else { continue };
            if self.tables.conversations.get(&conversation_key(job.user, id))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the users' limits allow the conversations that these jobs create.
    pub(crate) fn has_room_for_conversations<'s>(
        &self,
        jobs: impl IntoIterator<Item = (UserId, &'s JobSpec)>,
    ) -> Result<bool, StoreError> {
        let named = jobs.into_iter().filter_map(|(user, spec)| Some((user, spec.conversation_id.as_ref()?)));
        let mut fresh = BTreeSet::new();
        for (user, id) in named {
            if self.tables.conversations.get(&conversation_key(user, id))?.is_none() {
                fresh.insert((user, id));
            }
        }
        let users: BTreeSet<UserId> = fresh.iter().map(|(user, _)| *user).collect();
        for user in users {
            let more = fresh.iter().filter(|(of, _)| *of == user).count();
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            if self.exceeds_conversations(user, more, self.bounds.conversations)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a user would have more than `limit` conversations after so many more.
    pub(crate) fn exceeds_conversations(
        &self,
        user: UserId,
        more: u64,
        limit: u64,
    ) -> Result<bool, StoreError> {
        let count = self.tables.conversation_counts.get(&count_key(user))?.map_or(0, |count| count.value());
        Ok(count.saturating_add(more) > limit)
    }

    /// Counts a user's conversations.
    pub(crate) fn count_conversations(&mut self, user: UserId, change: i64) -> Result<(), StoreError> {
        let key = count_key(user);
        let there = self.tables.conversation_counts.get(&key)?.map_or(0, |count| count.value());
        self.tables.conversation_counts.insert(&key, there.saturating_add_signed(change))?;
        Ok(())
    }
}
