//! Removes conversations. A few jobs go in the same transaction, the others with the sweeper; unfinished jobs
//! are cancelled. Usage stays. Later jobs, and a later conversation of the same name, are not touched.

use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::ports::StoreError;
use crate::store::postgres::conversations::items::ItemPlaces;
use crate::store::postgres::conversations::row::ConversationRange;
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;

/// Jobs, and added items of each conversation, that are deleted in the transaction that removes their
/// conversations.
const FORGOTTEN: usize = 100;

/// Removed conversations that have a place left: `r` of the table `removed_conversations`.
const IS_LEFT: &str = "(EXISTS (SELECT FROM message_pairs p WHERE p.user_id = r.user_id \
    AND p.conversation = r.conversation AND p.accept BETWEEN r.first_accept AND r.last_accept) \
    OR EXISTS (SELECT FROM conversation_items i WHERE i.user_id = r.user_id AND i.conversation = r.conversation \
    AND i.accept BETWEEN r.first_accept AND r.last_accept AND i.added_at_ms IS NOT NULL))";

impl Act<'_> {
    /// Removes a conversation. Returns whether the user had it.
    pub(crate) async fn remove_conversation(
        &mut self,
        user: UserId,
        id: &ConversationId,
    ) -> Result<bool, StoreError> {
        let mut forgets = FORGOTTEN;
        self.remove_with_budget(user, id, &mut forgets).await
    }

    /// Removes all conversations of a project. Returns their number.
    pub(crate) async fn remove_conversations_of(
        &mut self,
        user: UserId,
        project: ProjectId,
    ) -> Result<u64, StoreError> {
        let sql = "SELECT id FROM conversations WHERE user_id = $1 AND project = $2 ORDER BY id FOR UPDATE";
        let found = self.session.rows(sql, &[&sql_user(user), &project.to_string()]).await?;
        let (mut removed, mut forgets) = (0_u64, FORGOTTEN);
        for row in found {
            let id = conversation_id(row.column(0)?)?;
            let is_removed = self.remove_with_budget(user, &id, &mut forgets).await?;
            removed = removed.saturating_add(u64::from(is_removed));
        }
        Ok(removed)
    }

    /// The same; `forgets`: jobs that may still be removed in this transaction.
    async fn remove_with_budget(
        &mut self,
        user: UserId,
        id: &ConversationId,
        forgets: &mut usize,
    ) -> Result<bool, StoreError> {
        if !self.lock_row(user, id).await? {
            return Ok(false);
        }
        self.flush().await?;
        // Later jobs start another conversation, even a batch line that becomes a job now.
        let sql = "WITH conversation AS (DELETE FROM conversations WHERE user_id = $1 AND id = $2 \
                     RETURNING floor, octet_length(row::text) AS bytes), \
                   summary AS (DELETE FROM summaries WHERE user_id = $1 AND conversation = $2 \
                     RETURNING octet_length(summary::text) AS bytes) \
                   SELECT floor, (bytes + coalesce((SELECT bytes FROM summary), 0))::bigint, \
                     (SELECT last_value FROM accept_numbers) FROM conversation";
        let gone = self.session.one(sql, &[&sql_user(user), &id.to_string()]).await?;
        let range = ConversationRange { user, id, floor: gone.number(0)? };
        let last = gone.number(2)?;
        self.count_bytes(user, gone.column::<i64>(1)?.saturating_neg());
        self.forget_conversation_usage(user, id).await?;
        self.cancel_all(user, id).await?;
        let added = self.added_from(range, (0, last), FORGOTTEN).await?;
        self.forget_added(&added).await?;
        self.forget_ended(range, last, forgets).await?;
        let sql = format!(
            "INSERT INTO removed_conversations (user_id, conversation, first_accept, last_accept) \
             SELECT * FROM (SELECT $1::bigint AS user_id, $2::text AS conversation, 0::bigint AS first_accept, \
             $3::bigint AS last_accept) AS r WHERE {IS_LEFT} \
             ON CONFLICT (user_id, conversation, last_accept) DO UPDATE SET first_accept = 0"
        );
        self.session.send(&sql, &[&sql_user(user), &id.to_string(), &sql_number(last)]).await?;
        Ok(true)
    }

    /// Starts with the last job: otherwise each one would become ready before it is cancelled.
    async fn cancel_all(&mut self, user: UserId, id: &ConversationId) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {ROW} FROM jobs WHERE user_id = $1 AND conversation = $2 \
             AND status IN ('queued', 'running', 'waiting') ORDER BY is_background, accept DESC FOR NO KEY UPDATE"
        );
        for row in self.session.rows(&sql, &[&sql_user(user), &id.to_string()]).await? {
            match read_row(&row, 0) {
                Ok(mut row) => self.cancel_row(&mut row).await?,
                // It is set aside when it reaches the head of its queue.
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(%id, reason, "job of a removed conversation cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes jobs that ended earlier. A job that ends in this transaction stays, so that its readers see
    /// the end.
    async fn forget_ended(
        &mut self,
        range: ConversationRange<'_>,
        last: u64,
        forgets: &mut usize,
    ) -> Result<(), StoreError> {
        let sql = "SELECT p.accept, p.job FROM message_pairs p LEFT JOIN jobs j ON j.id = p.job \
                   WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept BETWEEN $3 AND $4 AND (j.id IS NULL \
                   OR j.status = 'unreadable' OR j.finished_at_ms IS NOT NULL \
                   AND (j.finished_at_ms <> $5 OR j.status <> 'cancelled')) \
                   ORDER BY p.accept LIMIT $6";
        let (user, name, floor) = range.params();
        let params = (sql_number(last), sql_number(self.now_ms), sql_number(*forgets));
        let found = self.session.rows(sql, &[&user, &name, &floor, &params.0, &params.1, &params.2]).await?;
        let pairs: Vec<(u64, JobId)> = found
            .iter()
            .map(|row| Ok((row.number(0)?, row.parsed(1)?)))
            .collect::<Result<_, StoreError>>()?;
        *forgets = forgets.saturating_sub(pairs.len());
        self.clear_pairs((range.user, range.id), &pairs).await?;
        Ok(())
    }

    /// Deletes some ended jobs and added items that removed conversations and replaced answers left behind,
    /// at most `limit`. Returns how many: fewer than `limit` when none is left now. Unfinished jobs stay.
    pub(crate) async fn sweep_removed_conversations(&mut self, limit: u32) -> Result<u32, StoreError> {
        let sql = "SELECT r.user_id, r.conversation, p.accept, p.job FROM removed_conversations r \
                   JOIN message_pairs p ON p.user_id = r.user_id AND p.conversation = r.conversation \
                     AND p.accept BETWEEN r.first_accept AND r.last_accept LEFT JOIN jobs j ON j.id = p.job \
                   WHERE j.id IS NULL OR j.finished_at_ms IS NOT NULL OR j.status = 'unreadable' \
                   ORDER BY r.user_id, r.conversation, p.accept LIMIT $1 FOR UPDATE OF r SKIP LOCKED";
        let found = self.session.rows(sql, &[&i64::from(limit)]).await?;
        let mut gone = 0_u32;
        for row in &found {
            let id = conversation_id(row.column(1)?)?;
            let pair = (row.number(2)?, row.parsed(3)?);
            gone = gone.saturating_add(self.clear_pairs((row.user(0)?, &id), &[pair]).await?);
        }
        let left = i64::from(limit.saturating_sub(gone));
        let sql = "SELECT r.user_id, r.conversation, i.accept FROM removed_conversations r \
                   JOIN conversation_items i ON i.user_id = r.user_id AND i.conversation = r.conversation \
                     AND i.accept BETWEEN r.first_accept AND r.last_accept \
                   WHERE i.added_at_ms IS NOT NULL LIMIT $1 FOR UPDATE OF r SKIP LOCKED";
        let added = ItemPlaces::read(&self.session.rows(sql, &[&left]).await?)?;
        self.forget_added(&added).await?;
        let sql = format!("DELETE FROM removed_conversations r WHERE NOT {IS_LEFT}");
        self.session.send(&sql, &[]).await?;
        Ok(gone.saturating_add(u32::try_from(added.len()).unwrap_or(u32::MAX)))
    }
}

/// The id that a column holds.
fn conversation_id(name: &str) -> Result<ConversationId, StoreError> {
    ConversationId::try_from(name.to_owned())
        .map_err(|_| StoreError::Corrupt(format!("'{name}' is no name of a conversation")))
}
