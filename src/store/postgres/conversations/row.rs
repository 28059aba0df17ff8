//! The rows of conversations: locks, limits, and the writes that change nothing else (P7). A conversation has
//! a first acceptance number; earlier jobs belong to a removed one of the same name.

use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, UserId};
use crate::ports::{ConversationError, NewJob, StoreError};
use crate::store::postgres::session::{Columns, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::job::JobRow;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// The columns that [`read_row`] reads, of the table `conversations` under the name `c`.
pub(crate) const CONVERSATION: &str =
    "c.row::text, c.floor, c.edited_through, c.updated_at_ms, c.message_count";

/// A conversation of a user, with its first acceptance number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConversationRange<'a> {
    pub(crate) user: UserId,
    pub(crate) id: &'a ConversationId,
    pub(crate) floor: u64,
}

impl<'a> ConversationRange<'a> {
    /// The range of this conversation.
    pub(crate) fn of(row: &'a ConversationRow) -> Self {
        let Conversation { user, id, .. } = &row.conversation;
        Self { user: *user, id, floor: row.floor }
    }

    /// User, id and first number as parameters.
    pub(crate) fn params(self) -> (i64, String, i64) {
        (sql_user(self.user), self.id.to_string(), sql_number(self.floor))
    }
}

/// Reads the columns [`CONVERSATION`], which begin at this one.
pub(crate) fn read_row(row: &Row, first: usize) -> Result<ConversationRow, StoreError> {
    let at = |offset: usize| first.saturating_add(offset);
    let mut found: ConversationRow = row.document(first)?;
    found.floor = row.number(at(1))?;
    found.edited_through = row.number(at(2))?;
    found.conversation.updated_at_ms = row.number(at(3))?;
    found.conversation.message_count = row.number(at(4))?;
    Ok(found)
}

/// The document of a row, without what the columns hold: an unchanged row has the same text always.
pub(crate) fn row_text(row: &ConversationRow) -> Result<String, StoreError> {
    let conversation = Conversation { updated_at_ms: 0, message_count: 0, ..row.conversation.clone() };
    document(&ConversationRow { conversation, floor: 0, edited_through: 0 })
}

/// The project of a row as its column has it.
pub(crate) fn project_text(row: &ConversationRow) -> Option<String> {
    row.conversation.settings.project_id.map(|project| project.to_string())
}

/// The row of a conversation, as committed.
pub(crate) async fn find(
    session: &SqlSession<'_>,
    user: UserId,
    id: &ConversationId,
) -> Result<Option<ConversationRow>, StoreError> {
    let sql = format!("SELECT {CONVERSATION} FROM conversations c WHERE c.user_id = $1 AND c.id = $2");
    let found = session.row(&sql, &[&sql_user(user), &id.to_string()]).await?;
    found.map(|row| read_row(&row, 0)).transpose()
}

/// The first acceptance number of a conversation, if the user has it.
pub(crate) async fn find_floor(
    session: &SqlSession<'_>,
    user: UserId,
    id: &ConversationId,
) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT floor FROM conversations WHERE user_id = $1 AND id = $2";
    let found = session.row(sql, &[&sql_user(user), &id.to_string()]).await?;
    found.map(|row| row.number(0)).transpose()
}

impl Act<'_> {
    /// Locks a conversation until the end of the transaction: its jobs enter and leave the queue one after
    /// the other. If there is none, its name is locked, so that no two transactions create it.
    pub(crate) async fn lock_conversation(
        &mut self,
        user: UserId,
        id: Option<&ConversationId>,
    ) -> Result<(), StoreError> {
        let Some(id) = id else { return Ok(()) };
        if self.lock_row(user, id).await? {
            return Ok(());
        }
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 3))";
        self.session.send(sql, &[&format!("conversation {} {id}", user.0)]).await?;
        // Another transaction may have created it in the meantime.
        self.lock_row(user, id).await?;
        Ok(())
    }

    /// Locks the row of a conversation. Returns whether there is one.
    pub(crate) async fn lock_row(&mut self, user: UserId, id: &ConversationId) -> Result<bool, StoreError> {
        let sql = "SELECT FROM conversations WHERE user_id = $1 AND id = $2 FOR UPDATE";
        Ok(self.session.row(sql, &[&sql_user(user), &id.to_string()]).await?.is_some())
    }

    /// The row of a conversation, locked until the end of the transaction.
    pub(crate) async fn find_conversation(
        &self,
        user: UserId,
        id: &ConversationId,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let sql = format!(
            "SELECT {CONVERSATION} FROM conversations c WHERE c.user_id = $1 AND c.id = $2 FOR UPDATE"
        );
        let found = self.session.row(&sql, &[&sql_user(user), &id.to_string()]).await?;
        found.map(|row| read_row(&row, 0)).transpose()
    }

    /// The conversation that a job is part of; `None` as well when it was removed since the job was accepted,
    /// even if there is another one of its name now.
    pub(crate) async fn conversation_of(
        &mut self,
        row: &JobRow,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let Some(id) = &row.job.conversation_id else { return Ok(None) };
        match self.find_conversation(row.job.user, id).await {
            // An unreadable row must not keep jobs from ending (P4).
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "conversation of the job cannot be read");
                Ok(None)
            }
            found => Ok(found?.filter(|found| found.floor <= row.accept)),
        }
    }

    /// Whether a conversation that must exist is missing. Those that exist stay until the end of the
    /// transaction.
    pub(crate) async fn is_conversation_missing(&mut self, jobs: &[NewJob]) -> Result<bool, StoreError> {
        let named = named(jobs.iter().filter(|job| job.in_existing));
        if named.is_empty() {
            return Ok(false);
        }
        let (users, ids) = columns(&named);
        let sql = "SELECT FROM conversations c JOIN unnest($1::bigint[], $2::text[]) AS u(user_id, id) \
                   ON c.user_id = u.user_id AND c.id = u.id ORDER BY c.user_id, c.id FOR UPDATE OF c";
        Ok(self.session.rows(sql, &[&users, &ids]).await?.len() < named.len())
    }

    /// Whether the users' limits allow the conversations that these jobs create. Those that must exist are
    /// known to exist.
    pub(crate) async fn has_room_for_conversations(&mut self, jobs: &[NewJob]) -> Result<bool, StoreError> {
        let named = named(jobs.iter().filter(|job| !job.in_existing));
        if named.is_empty() {
            return Ok(true);
        }
        let missing = self.count_missing(&named).await?;
        if missing.is_empty() {
            return Ok(true);
        }
        let users: Vec<UserId> = missing.into_keys().collect();
        let counts = self.count_conversations(&users).await?;
        // Counted again under the lock: others may have created some of them.
        let missing = self.count_missing(&named).await?;
        let limit = self.limits.conversations;
        Ok(missing
            .iter()
            .all(|(user, more)| counts.get(user).copied().unwrap_or_default().saturating_add(*more) <= limit))
    }

    /// How many of these conversations each user does not have.
    async fn count_missing(
        &self,
        named: &BTreeSet<(UserId, &ConversationId)>,
    ) -> Result<BTreeMap<UserId, u64>, StoreError> {
        let (users, ids) = columns(named);
        let sql = "SELECT u.user_id, count(*) FROM unnest($1::bigint[], $2::text[]) AS u(user_id, id) \
                   WHERE NOT EXISTS (SELECT FROM conversations c WHERE c.user_id = u.user_id AND c.id = u.id) \
                   GROUP BY u.user_id";
        let found = self.session.rows(sql, &[&users, &ids]).await?;
        found.iter().map(|row| Ok((row.user(0)?, row.number(1)?))).collect()
    }

    /// How many conversations each of these users has. No other transaction creates one of theirs before the
    /// end of this one.
    async fn count_conversations(&self, users: &[UserId]) -> Result<BTreeMap<UserId, u64>, StoreError> {
        let users: Vec<i64> = users.iter().map(|user| sql_user(*user)).collect();
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended('conversations of ' || u, 3)) \
                   FROM unnest($1::bigint[]) AS u";
        self.session.send(sql, &[&users]).await?;
        let sql = "SELECT user_id, sum(conversations)::bigint FROM quota_counts WHERE user_id = ANY($1) \
                   GROUP BY user_id";
        let found = self.session.rows(sql, &[&users]).await?;
        found.iter().map(|row| Ok((row.user(0)?, row.number(1)?))).collect()
    }

    /// Stores a new conversation.
    pub(crate) async fn create_conversation(
        &mut self,
        conversation: &Conversation,
        limit: u64,
    ) -> Result<Conversation, ConversationError> {
        let Conversation { user, id, .. } = conversation;
        let counts = self.count_conversations(&[*user]).await?;
        self.lock_conversation(*user, Some(id)).await?;
        if find_floor(&self.session, *user, id).await?.is_some() {
            return Err(ConversationError::NameTaken);
        }
        if counts.get(user).copied().unwrap_or_default() >= limit {
            return Err(ConversationError::ConversationsFull { limit });
        }
        let row = ConversationRow { conversation: conversation.clone(), floor: 0, edited_through: 0 };
        let text = row_text(&row)?;
        let sql = "INSERT INTO conversations (user_id, id, floor, created_at_ms, updated_at_ms, message_count, \
                   project, row) VALUES ($1, $2, nextval('accept_numbers'), $3, $4, $5, $6, $7::text::json)";
        self.session
            .send(
                sql,
                &[
                    &sql_user(*user),
                    &id.to_string(),
                    &sql_number(conversation.created_at_ms),
                    &sql_number(conversation.updated_at_ms),
                    &sql_number(conversation.message_count),
                    &project_text(&row),
                    &text,
                ],
            )
            .await?;
        self.count_bytes(*user, sql_number(text.len()));
        Ok(row.conversation)
    }

    /// Changes a conversation of a user.
    pub(crate) async fn change_conversation(
        &mut self,
        user: UserId,
        id: &ConversationId,
        change: &ConversationChange,
    ) -> Result<Option<Conversation>, StoreError> {
        let Some(mut row) = self.find_conversation(user, id).await? else { return Ok(None) };
        let before = row_text(&row)?;
        row.conversation.update(change.clone());
        row.conversation.updated_at_ms = self.now_ms;
        self.put_conversation(&row, before.len()).await?;
        Ok(Some(row.conversation))
    }

    /// Writes the settings of a conversation that has changed now. `bytes_before`: the length of its row.
    pub(crate) async fn put_conversation(
        &mut self,
        row: &ConversationRow,
        bytes_before: usize,
    ) -> Result<(), StoreError> {
        let Conversation { user, id, .. } = &row.conversation;
        let text = row_text(row)?;
        let sql = "UPDATE conversations SET updated_at_ms = $3, project = $4, row = $5::text::json \
                   WHERE user_id = $1 AND id = $2";
        let params = (sql_user(*user), id.to_string(), sql_number(self.now_ms), project_text(row));
        self.session.send(sql, &[&params.0, &params.1, &params.2, &params.3, &text]).await?;
        self.count_bytes(*user, sql_number(text.len()).saturating_sub(sql_number(bytes_before)));
        Ok(())
    }

    /// Records that messages were deleted now, so many of those that users see: summaries of jobs that may
    /// have read them are not kept.
    pub(crate) async fn note_edit(
        &mut self,
        range: ConversationRange<'_>,
        deleted: u64,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE conversations SET message_count = greatest(message_count - $3::bigint, 0), \
                   edited_through = (SELECT last_value FROM accept_numbers), updated_at_ms = $4 \
                   WHERE user_id = $1 AND id = $2";
        let (user, id, _) = range.params();
        self.session.send(sql, &[&user, &id, &sql_number(deleted), &sql_number(self.now_ms)]).await
    }
}

/// The conversations that jobs name.
fn named<'j>(jobs: impl Iterator<Item = &'j NewJob>) -> BTreeSet<(UserId, &'j ConversationId)> {
    jobs.filter_map(|job| Some((job.user, job.spec.conversation_id.as_ref()?))).collect()
}

/// Users and names as parameters.
fn columns(named: &BTreeSet<(UserId, &ConversationId)>) -> (Vec<i64>, Vec<String>) {
    named.iter().map(|(user, id)| (sql_user(*user), id.to_string())).unzip()
}
