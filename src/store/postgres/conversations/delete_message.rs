//! Deletes one message: no user and no model can read it any more. The output and the log of a deleted
//! answer go at once, except the terminal event. When both messages of a job are deleted, the job is.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::{ConversationError, MessageRef, StoreError};
use crate::store::postgres::conversations::message_pair::find_message;
use crate::store::postgres::conversations::row::ConversationRange;
use crate::store::postgres::conversations::turn::TurnColumns;
use crate::store::postgres::session::{Columns, read_document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::JobRow;

impl Act<'_> {
    /// Deletes a message of a conversation.
    pub(crate) async fn delete_message(
        &mut self,
        user: UserId,
        id: &ConversationId,
        message: MessageRef,
    ) -> Result<bool, ConversationError> {
        let Some(found) = self.find_conversation(user, id).await? else { return Ok(false) };
        let range = ConversationRange::of(&found);
        let Some((accept, before)) = find_message(&self.session, range, message).await? else {
            return Ok(false);
        };
        let after = match message {
            MessageRef::Ask(_) => MessagePair { shows_question: false, ..before },
            MessageRef::Answer(_) => MessagePair { shows_answer: false, ..before },
        };
        if after == before {
            return Ok(false);
        }
        let row = match self.find_row(before.job).await {
            // The message of an unreadable job can be deleted, too.
            Err(StoreError::Corrupt(_)) => None,
            row => row?,
        };
        if let Some(row) = row.as_ref().filter(|row| !row.job.status.is_terminal()) {
            return Err(ConversationError::WrongState { status: row.job.status });
        }
        self.flush().await?;
        self.drop_summary(range, accept).await?;
        if after.is_shown() {
            self.hide_message(range, accept, &after).await?;
            self.erase_message(before.job, row, &after).await?;
            self.note_edit(range, 1).await?;
        } else {
            self.clear_pairs((user, id), &[(accept, before.job)]).await?;
            self.note_edit(range, 0).await?;
        }
        Ok(true)
    }

    /// Removes a deleted message from its pair, and from the turn that models read.
    async fn hide_message(
        &mut self,
        range: ConversationRange<'_>,
        accept: u64,
        after: &MessagePair,
    ) -> Result<(), StoreError> {
        let sql = "WITH pair AS (UPDATE message_pairs SET shows_question = $4, shows_answer = $5 \
                     WHERE user_id = $1 AND conversation = $2 AND accept = $3) \
                   SELECT t.messages::text, i.question, j.spec::text FROM turns t JOIN jobs j ON j.id = $6 \
                   LEFT JOIN conversation_items i ON i.user_id = t.user_id AND i.conversation = t.conversation \
                     AND i.accept = t.accept \
                   WHERE t.user_id = $1 AND t.conversation = $2 AND t.accept = $3";
        let (user, id, _) = range.params();
        let (accept, job) = (sql_number(accept), after.job.to_string());
        let params = (&after.shows_question, &after.shows_answer);
        let found = self.session.row(sql, &[&user, &id, &accept, params.0, params.1, &job]).await?;
        let Some(found) = found else { return Ok(()) };
        let text: &str = found.column(0)?;
        let left = match left_of(text, found.column(1)?, found.column(2)?, after) {
            // The end of the question is unknown, so the complete turn is removed: deleted text must not
            // stay.
            Err(StoreError::Corrupt(_)) => Vec::new(),
            left => left?,
        };
        let left = TurnColumns::of(&left.iter().collect::<Vec<_>>())?;
        let sql = "UPDATE turns SET message_count = $4, message_bytes = $5, messages = $6::text::json \
                   WHERE user_id = $1 AND conversation = $2 AND accept = $3";
        let params = (&left.message_count, &left.message_bytes, &left.text);
        self.session.send(sql, &[&user, &id, &accept, params.0, params.1, params.2]).await?;
        self.count_bytes(range.user, sql_number(left.text.len()).saturating_sub(sql_number(text.len())));
        Ok(())
    }

    /// Removes the text of a deleted message from its job. The job object shows no input any more after its
    /// question was deleted; of a deleted answer, the terminal event stays.
    async fn erase_message(
        &mut self,
        job: JobId,
        mut row: Option<JobRow>,
        after: &MessagePair,
    ) -> Result<(), StoreError> {
        let mut has_fold = false;
        if !after.shows_answer {
            if let Some(row) = &mut row {
                let fold = self.note_of_cut(row).await?;
                has_fold = fold != row.fold;
                row.fold = fold;
            }
            let sql = "WITH erased AS (UPDATE jobs j SET output = NULL, retention = 2 FROM jobs old \
                         WHERE j.id = $1 AND old.id = j.id RETURNING octet_length(old.output::text) AS bytes), \
                       cut AS (DELETE FROM records r WHERE r.job = $1 AND (r.seq, r.sub) < \
                         (SELECT e.seq, e.sub FROM records e WHERE e.job = $1 ORDER BY e.seq DESC, e.sub DESC LIMIT 1) \
                         RETURNING octet_length(r.body::text) AS bytes) \
                       SELECT coalesce(sum(bytes), 0)::bigint FROM (SELECT bytes FROM erased UNION ALL \
                         SELECT bytes FROM cut) AS freed";
            let found = self.session.one(sql, &[&job.to_string()]).await?;
            if let Some(row) = &row {
                self.count_bytes(row.job.user, found.column::<i64>(0)?.saturating_neg());
            }
        }
        let Some(mut row) = row else { return Ok(()) };
        let has_input = row.job.input.is_some() && !after.shows_question;
        let has_output = row.has_output && !after.shows_answer;
        if has_input || has_output || has_fold {
            row.job.input = row.job.input.filter(|_| after.shows_question);
            row.has_output &= after.shows_answer;
            self.put_row(&row).await?;
        }
        Ok(())
    }
}

/// The messages of a turn that are not deleted. `question`: how many are the question, if fewer than the
/// input has, because items were deleted.
fn left_of(
    turn: &str,
    question: Option<i32>,
    spec: &str,
    after: &MessagePair,
) -> Result<Vec<Message>, StoreError> {
    let mut turn: Vec<Message> = read_document(turn)?;
    let question = match question {
        Some(question) => usize::try_from(question).unwrap_or_default(),
        None => read_document::<JobSpec>(spec)?.input.len(),
    };
    let answer = turn.split_off(question.min(turn.len()));
    Ok(if after.shows_question { turn } else { answer })
}
