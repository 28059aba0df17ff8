//! The question and the answer of a job in its conversation, each of which may be deleted. Pairs are ordered
//! by acceptance. Users read the text from the job; models get the text from `turns`.

use crate::domain::conversation::TITLE_CHARS;
use crate::domain::event::Event;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{JobOutcome, JobSpec};
use crate::ports::{MessageRef, StoreError};
use crate::store::postgres::conversations::row::{
    CONVERSATION, ConversationRange, project_text, read_row, row_text,
};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::{ConversationRow, MessagePair};
use crate::store::rows::job::JobRow;
use tokio_postgres::Row;

/// The columns that [`read_pair`] reads, of the table `message_pairs` under the name `p`.
pub(crate) const PAIR: &str = "p.accept, p.job, p.ask, p.ask_created_at_ms, p.shows_question, p.shows_answer";

/// Reads the columns [`PAIR`], the first ones of this row, with the number.
pub(crate) fn read_pair(row: &Row) -> Result<(u64, MessagePair), StoreError> {
    let pair = MessagePair {
        job: row.parsed(1)?,
        ask: row.parsed::<JobId>(2)?.ask_id(),
        ask_created_at_ms: row.number(3)?,
        shows_question: row.column(4)?,
        shows_answer: row.column(5)?,
    };
    Ok((row.number(0)?, pair))
}

/// Finds a message of a conversation, deleted or not.
pub(crate) async fn find_message(
    session: &SqlSession<'_>,
    range: ConversationRange<'_>,
    message: MessageRef,
) -> Result<Option<(u64, MessagePair)>, StoreError> {
    let (user, id, floor) = range.params();
    let (job, sql) = match message {
        MessageRef::Ask(ask) => (
            ask.job(),
            format!(
                "SELECT {PAIR} FROM message_pairs p WHERE p.ask = $4 AND p.user_id = $1 AND p.conversation = $2 \
                 AND p.accept >= $3 ORDER BY p.accept LIMIT 1"
            ),
        ),
        MessageRef::Answer(answer) => (
            answer.job(),
            format!(
                "SELECT {PAIR} FROM jobs j JOIN message_pairs p ON p.user_id = j.user_id \
                 AND p.conversation = j.conversation AND p.accept = j.accept AND p.job = j.id \
                 WHERE j.id = $4 AND p.user_id = $1 AND p.conversation = $2 AND p.accept >= $3"
            ),
        ),
    };
    let found = session.row(&sql, &[&user, &id, &floor, &job.to_string()]).await?;
    found.map(|row| read_pair(&row)).transpose()
}

/// User, conversation and number of a job, as parameters; `None` without a conversation.
pub(crate) fn place(row: &JobRow) -> Option<(i64, String, i64)> {
    let id = row.job.conversation_id.as_ref()?;
    Some((sql_user(row.job.user), id.to_string(), sql_number(row.accept)))
}

impl Act<'_> {
    /// Adds a new job to its conversation; creates a missing conversation.
    pub(crate) async fn enter_conversation(
        &mut self,
        row: &JobRow,
        spec: &JobSpec,
        pair: &MessagePair,
    ) -> Result<(), StoreError> {
        let Some(id) = &row.job.conversation_id else { return Ok(()) };
        let fresh = ConversationRow::of_job(&row.job, id, spec, row.accept);
        let text = row_text(&fresh)?;
        let sql = "WITH pair AS (INSERT INTO message_pairs VALUES ($1, $2, $3, $4, $5, $6, $7, $8)) \
                   INSERT INTO conversations AS c (user_id, id, floor, created_at_ms, updated_at_ms, message_count, \
                     project, row) VALUES ($1, $2, $3, $9, $10, $11, $12, $13::text::json) \
                   ON CONFLICT (user_id, id) DO UPDATE SET message_count = c.message_count + $11, \
                     updated_at_ms = $10 RETURNING xmax = 0";
        let found = self
            .session
            .one(
                sql,
                &[
                    &sql_user(row.job.user),
                    &id.to_string(),
                    &sql_number(row.accept),
                    &pair.job.to_string(),
                    &pair.ask.job().to_string(),
                    &sql_number(pair.ask_created_at_ms),
                    &pair.shows_question,
                    &pair.shows_answer,
                    &sql_number(row.job.created_at_ms),
                    &sql_number(self.now_ms),
                    &sql_number(pair.count(false)),
                    &project_text(&fresh),
                    &text,
                ],
            )
            .await?;
        if found.column(0)? {
            self.count_bytes(row.job.user, sql_number(text.len()));
        }
        Ok(())
    }

    /// Counts the answer of an ended job, and sets the title that it suggests.
    pub(crate) async fn count_answer(&mut self, row: &JobRow, ending: &JobOutcome) -> Result<(), StoreError> {
        let Some((user, id, accept)) = place(row) else { return Ok(()) };
        let title = match &ending.event {
            Event::Done { suggested_title, .. } => suggested_title.as_ref(),
            _ => None,
        };
        let returned = if title.is_some() { CONVERSATION } else { "" };
        let sql = format!(
            "UPDATE conversations c SET updated_at_ms = $4, message_count = message_count + \
               (SELECT count(*) FROM message_pairs p WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept = $3 \
               AND p.shows_answer) WHERE c.user_id = $1 AND c.id = $2 AND c.floor <= $3{}{returned}",
            if title.is_some() { " RETURNING " } else { "" }
        );
        let found = self.session.row(&sql, &[&user, &id, &accept, &sql_number(self.now_ms)]).await?;
        let (Some(found), Some(title)) = (found, title) else { return Ok(()) };
        let mut found = match read_row(&found, 0) {
            // An unreadable row must not keep the job from ending (P4).
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "conversation of the job cannot be read");
                return Ok(());
            }
            found => found?,
        };
        if found.conversation.wants_title() {
            let before = row_text(&found)?;
            found.conversation.title = title.chars().take(TITLE_CHARS).collect();
            self.put_conversation(&found, before.len()).await?;
        }
        Ok(())
    }

    /// Moves the pair of a retried job to the end of its conversation. The row has its new number already.
    pub(crate) async fn reenter_conversation(
        &mut self,
        row: &JobRow,
        old_accept: u64,
    ) -> Result<(), StoreError> {
        let Some((user, id, accept)) = place(row) else { return Ok(()) };
        // The answer counts again once the job has ended.
        let sql = "WITH found AS (SELECT FROM conversations WHERE user_id = $1 AND id = $2 AND floor <= $3), \
                   pair AS (UPDATE message_pairs p SET accept = $3, shows_answer = true FROM found, message_pairs old \
                     WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept = $4 AND old.user_id = p.user_id \
                     AND old.conversation = p.conversation AND old.accept = p.accept RETURNING old.shows_answer) \
                   UPDATE conversations SET updated_at_ms = $5, \
                     message_count = greatest(message_count - (SELECT shows_answer::int FROM pair), 0) \
                   FROM pair WHERE user_id = $1 AND id = $2";
        let params = (sql_number(old_accept), sql_number(self.now_ms));
        self.session.send(sql, &[&user, &id, &accept, &params.0, &params.1]).await
    }

    /// Removes an ended job from its conversation.
    pub(crate) async fn leave_conversation(&mut self, row: &JobRow) -> Result<(), StoreError> {
        let Some(id) = &row.job.conversation_id else { return Ok(()) };
        self.clear_place((row.job.user, id), row.accept).await
    }

    /// Removes a pair with its turn and its items, and the summary with the last turn, because it contains
    /// their text.
    async fn clear_place(
        &mut self,
        (user, id): (UserId, &ConversationId),
        accept: u64,
    ) -> Result<(), StoreError> {
        self.lock_row(user, id).await?;
        let sql = "WITH pair AS (DELETE FROM message_pairs WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                     RETURNING shows_question::int + shows_answer::int AS shown), \
                   turn AS (DELETE FROM turns WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                     RETURNING octet_length(messages::text) AS bytes), \
                   item AS (DELETE FROM conversation_items WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                     RETURNING octet_length(items::text) AS bytes), \
                   counted AS (UPDATE conversations c SET message_count = greatest(c.message_count - pair.shown, 0) \
                     FROM pair WHERE c.user_id = $1 AND c.id = $2 AND c.floor <= $3), \
                   summary AS (DELETE FROM summaries WHERE user_id = $1 AND conversation = $2 AND NOT EXISTS \
                     (SELECT FROM turns t WHERE t.user_id = $1 AND t.conversation = $2 AND t.accept <> $3 \
                     AND t.accept >= coalesce((SELECT c.floor FROM conversations c WHERE c.user_id = $1 AND c.id = $2), 0)) \
                     RETURNING octet_length(summary::text) AS bytes) \
                   SELECT coalesce(sum(bytes), 0)::bigint FROM (SELECT bytes FROM turn UNION ALL SELECT bytes FROM item \
                     UNION ALL SELECT bytes FROM summary) AS freed";
        let params = (sql_user(user), id.to_string(), sql_number(accept));
        let freed: i64 = self.session.one(sql, &[&params.0, &params.1, &params.2]).await?.column(0)?;
        self.count_bytes(user, freed.saturating_neg());
        Ok(())
    }

    /// Whether another answer has replaced that of the job: its pair shows neither question nor answer.
    pub(crate) async fn is_replaced(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        let Some((user, id, accept)) = place(row) else { return Ok(false) };
        let sql = "SELECT EXISTS (SELECT FROM message_pairs WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                   AND NOT shows_question AND NOT shows_answer)";
        self.session.one(sql, &[&user, &id, &accept]).await?.column(0)
    }

    /// A retried job asks its whole input again: removes its turn and its deleted items.
    pub(crate) async fn forget_turn(&mut self, row: &JobRow) -> Result<(), StoreError> {
        let Some((user, id, accept)) = place(row) else { return Ok(()) };
        let sql = "WITH turn AS (DELETE FROM turns WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                     RETURNING octet_length(messages::text) AS bytes), \
                   item AS (DELETE FROM conversation_items WHERE user_id = $1 AND conversation = $2 AND accept = $3 \
                     RETURNING octet_length(items::text) AS bytes) \
                   SELECT coalesce(sum(bytes), 0)::bigint FROM (SELECT bytes FROM turn UNION ALL SELECT bytes FROM item) \
                     AS freed";
        let freed: i64 = self.session.one(sql, &[&user, &id, &accept]).await?.column(0)?;
        self.count_bytes(row.job.user, freed.saturating_neg());
        Ok(())
    }

    /// Removes the jobs of these pairs with their pairs. Returns how many pairs are gone: that of an
    /// unfinished job stays.
    pub(crate) async fn clear_pairs(
        &mut self,
        (user, id): (UserId, &ConversationId),
        pairs: &[(u64, JobId)],
    ) -> Result<u32, StoreError> {
        let (mut gone, mut left) = (0_u32, Vec::new());
        for (accept, job) in pairs {
            match self.forget(*job).await {
                Ok(true) => gone = gone.saturating_add(1),
                Ok(false) => left.push(sql_number(*accept)),
                // Its row stays for the operator, its messages do not.
                Err(StoreError::Corrupt(_)) => {
                    self.clear_place((user, id), *accept).await?;
                    gone = gone.saturating_add(1);
                }
                Err(error) => return Err(error),
            }
        }
        if left.is_empty() {
            return Ok(gone);
        }
        let sql = "SELECT accept FROM message_pairs p WHERE user_id = $1 AND conversation = $2 AND accept = ANY($3) \
                   AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = p.job AND j.status <> 'unreadable')";
        for row in self.session.rows(sql, &[&sql_user(user), &id.to_string(), &left]).await? {
            self.clear_place((user, id), row.number(0)?).await?;
            gone = gone.saturating_add(1);
        }
        Ok(gone)
    }
}
