//! What models read of a conversation: a turn for each ended job, and the summary that replaces the oldest
//! turns. A summary never replaces one that covers more.

use crate::domain::job::{ConversationSummary, JobOutcome, JobSpec};
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::postgres::conversations::message_pair::place;
use crate::store::postgres::conversations::row::ConversationRange;
use crate::store::postgres::session::{Columns, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::JobRow;

/// A turn as its columns have it.
#[derive(Debug)]
pub(crate) struct TurnColumns {
    pub(crate) message_count: i32,
    pub(crate) message_bytes: i32,
    pub(crate) text: String,
}

impl TurnColumns {
    /// The columns of a turn with these messages.
    pub(crate) fn of(messages: &[&Message]) -> Result<Self, StoreError> {
        let bytes: usize = messages.iter().map(|message| message.bytes()).sum();
        Ok(Self {
            message_count: i32::try_from(messages.len()).unwrap_or(i32::MAX),
            message_bytes: i32::try_from(bytes).unwrap_or(i32::MAX),
            text: document(&messages)?,
        })
    }
}

impl Act<'_> {
    /// Adds question and answer to the conversation, unless it was removed. A deleted question does not come
    /// back, nor does a summary of deleted messages.
    pub(crate) async fn write_turn(
        &mut self,
        row: &JobRow,
        spec: &JobSpec,
        ending: &JobOutcome,
    ) -> Result<(), StoreError> {
        let Some((user, id, accept)) = place(row) else { return Ok(()) };
        let messages: Vec<_> = spec.input.iter().chain(&ending.messages).collect();
        let turn = TurnColumns::of(&messages)?;
        // Only a retried job can have a deleted question.
        let sql = "WITH found AS (SELECT c.edited_through, coalesce(p.shows_question, true) AS shows_question \
                     FROM conversations c LEFT JOIN message_pairs p ON p.user_id = c.user_id AND p.conversation = c.id \
                     AND p.accept = $3 WHERE c.user_id = $1 AND c.id = $2 AND c.floor <= $3), \
                   turn AS (INSERT INTO turns SELECT $1, $2, $3, $4, $5, $6::text::json FROM found WHERE shows_question \
                     ON CONFLICT (user_id, conversation, accept) DO UPDATE SET message_count = $4, message_bytes = $5, \
                     messages = $6::text::json) \
                   SELECT edited_through, shows_question FROM found";
        let TurnColumns { message_count, message_bytes, text } = &turn;
        let found = self.session.row(sql, &[&user, &id, &accept, message_count, message_bytes, text]).await?;
        let Some(found) = found else { return Ok(()) };
        if found.column(1)? {
            self.count_bytes(row.job.user, sql_number(text.len()));
        } else {
            let answer = TurnColumns::of(&ending.messages.iter().collect::<Vec<_>>())?;
            self.insert_turn((user, &id, accept), &answer).await?;
            self.count_bytes(row.job.user, sql_number(answer.text.len()));
        }
        let is_outdated = row.first_accept.unwrap_or(row.accept) <= found.number(0)?;
        // A background job has not read the conversation.
        let is_outdated = is_outdated || row.job.origin.parent().is_some();
        match ending.summary.as_ref().filter(|_| !is_outdated) {
            Some(summary) => self.write_summary(row, summary).await,
            None => Ok(()),
        }
    }

    /// Inserts the turn of a job that has none.
    async fn insert_turn(
        &mut self,
        (user, id, accept): (i64, &str, i64),
        turn: &TurnColumns,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO turns VALUES ($1, $2, $3, $4, $5, $6::text::json)";
        let TurnColumns { message_count, message_bytes, text } = turn;
        self.session.send(sql, &[&user, &id, &accept, message_count, message_bytes, text]).await
    }

    /// Stores the summary of the conversation of a job.
    async fn write_summary(&mut self, row: &JobRow, summary: &ConversationSummary) -> Result<(), StoreError> {
        let Some((user, id, _)) = place(row) else { return Ok(()) };
        let text = document(summary)?;
        let sql = "WITH old AS (SELECT octet_length(summary::text) AS bytes FROM summaries \
                     WHERE user_id = $1 AND conversation = $2), \
                   stored AS (INSERT INTO summaries AS s VALUES ($1, $2, $3, $4::text::json) \
                     ON CONFLICT (user_id, conversation) DO UPDATE SET through = $3, summary = $4::text::json \
                     WHERE s.through <= $3 RETURNING octet_length($4::text) AS bytes) \
                   SELECT coalesce((SELECT stored.bytes - coalesce((SELECT bytes FROM old), 0) FROM stored), 0)::bigint";
        let more: i64 =
            self.session.one(sql, &[&user, &id, &sql_number(summary.through), &text]).await?.column(0)?;
        self.count_bytes(row.job.user, more);
        Ok(())
    }

    /// Drops a summary that replaces the turn with this number or a later one.
    pub(crate) async fn drop_summary(
        &mut self,
        range: ConversationRange<'_>,
        accept: u64,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM summaries WHERE user_id = $1 AND conversation = $2 AND through >= $3 \
                   RETURNING octet_length(summary::text)::bigint";
        let (user, id, _) = range.params();
        if let Some(dropped) = self.session.row(sql, &[&user, &id, &sql_number(accept)]).await? {
            self.count_bytes(range.user, dropped.column::<i64>(0)?.saturating_neg());
        }
        Ok(())
    }

    /// A background job that has run and is in no queue is about to end. If a summary covers its position
    /// by now, no model would read its answer, so the job moves to the end of the conversation. The caller
    /// writes its row.
    pub(crate) async fn move_behind_summary(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if row.job.origin.parent().is_none() {
            return Ok(());
        }
        let Some((user, id, old)) = place(row) else { return Ok(()) };
        let sql = "WITH number AS (SELECT nextval('accept_numbers') AS accept FROM conversations c \
                     JOIN summaries s ON s.user_id = c.user_id AND s.conversation = c.id \
                     WHERE c.user_id = $1 AND c.id = $2 AND c.floor <= $3 AND s.through >= $3), \
                   moved AS (UPDATE message_pairs p SET accept = number.accept FROM number \
                     WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept = $3 RETURNING p.accept) \
                   SELECT accept, EXISTS (SELECT FROM moved) FROM number";
        let Some(found) = self.session.row(sql, &[&user, &id, &old]).await? else { return Ok(()) };
        let old = row.accept;
        row.accept = found.number(0)?;
        row.first_accept.get_or_insert(old);
        if found.column(1)? {
            return Ok(());
        }
        let pair = MessagePair::of(&row.job);
        let sql = "INSERT INTO message_pairs VALUES ($1, $2, $3, $4, $4, $5, true, true)";
        let (accept, asked_at_ms) = (sql_number(row.accept), sql_number(pair.ask_created_at_ms));
        let params = (sql_user(row.job.user), pair.job.to_string());
        self.session.send(sql, &[&params.0, &id, &accept, &params.1, &asked_at_ms]).await
    }
}
