//! The messages that a conversation passes to its next job: its summary, and the turns after it, as many as
//! fit ([`crate::store::rows::history`]).

use crate::domain::id::JobId;
use crate::domain::job::{ConversationSummary, ConversationTurn, History};
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::postgres::conversations::row::{CONVERSATION, read_row};
use crate::store::postgres::session::{Columns, SqlSession, read_document, sql_number};
use crate::store::rows::history::is_users;

pub(crate) use crate::store::rows::history::HistoryBudget;

/// The newest turns, as many as a budget may take: the sums are those of the turns after each.
const TURNS: &str = "SELECT t.accept, t.messages::text, EXISTS (SELECT FROM conversation_items i \
    WHERE i.user_id = $1 AND i.conversation = $2 AND i.accept = t.accept AND i.added_at_ms IS NOT NULL) \
    FROM (SELECT accept, messages, \
        sum(message_count) OVER newer - message_count AS newer_messages, \
        sum(message_bytes) OVER newer - message_bytes AS newer_bytes \
      FROM (SELECT accept, messages, message_count, message_bytes FROM turns \
        WHERE user_id = $1 AND conversation = $2 AND accept >= $3 AND accept < $4 AND message_count > 0 \
        ORDER BY accept DESC LIMIT $5) AS newest \
      WINDOW newer AS (ORDER BY accept DESC ROWS UNBOUNDED PRECEDING)) AS t \
    WHERE t.newer_messages < $5 AND t.newer_bytes <= $6 ORDER BY t.accept DESC";

/// The newest messages of the conversation before the job that fit, oldest first.
pub(crate) async fn history(
    session: &SqlSession<'_>,
    job: JobId,
    mut budget: HistoryBudget,
) -> Result<History, StoreError> {
    // A background job gets its task only. A conversation that was removed since the job was accepted has no
    // messages.
    let sql = format!(
        "SELECT {CONVERSATION}, j.user_id, j.conversation, j.accept, s.summary::text FROM jobs j \
         JOIN conversations c ON c.user_id = j.user_id AND c.id = j.conversation AND c.floor <= j.accept \
         LEFT JOIN summaries s ON s.user_id = c.user_id AND s.conversation = c.id AND s.through < j.accept \
         WHERE j.id = $1 AND NOT j.is_background"
    );
    let Some(found) = session.row(&sql, &[&job.to_string()]).await? else { return Ok(History::default()) };
    let wants_title = match read_row(&found, 0) {
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(%job, reason, "conversation of the job cannot be read");
            false
        }
        row => row?.conversation.wants_title(),
    };
    let summary = found.column::<Option<&str>>(8)?.and_then(read_summary);
    let first = summary.as_ref().map_or(0, |summary| summary.through.saturating_add(1));
    let first = first.max(found.number(1)?);
    let (user, id, accept): (i64, &str, i64) = (found.column(5)?, found.column(6)?, found.column(7)?);
    let bounds = (sql_number(first), sql_number(budget.messages), sql_number(budget.bytes));
    let turns = session.rows(TURNS, &[&user, &id, &bounds.0, &accept, &bounds.1, &bounds.2]).await?;
    let (mut newest_first, mut added) = (Vec::new(), Vec::new());
    for turn in turns {
        let messages: Vec<Message> = turn.document(1)?;
        let number = turn.number(0)?;
        if turn.column(2)? {
            added.push(number);
        }
        if budget.messages == 0 || !budget.add(ConversationTurn { number, messages }, &mut newest_first) {
            break;
        }
    }
    newest_first.reverse();
    newest_first.retain(|turn| !turn.messages.is_empty());
    if summary.is_none() {
        // Providers require a user message first, so an answer without its question cannot be the first.
        // Added items are as their client wants them.
        let is_answer =
            |turn: &&ConversationTurn| !turn.messages.iter().any(is_users) && !added.contains(&turn.number);
        let leading_answers = newest_first.iter().take_while(is_answer).count();
        newest_first.drain(..leading_answers);
    }
    Ok(History { summary: summary.map(|summary| summary.content), turns: newest_first, wants_title })
}

/// An unreadable summary counts as none: the turns still exist.
fn read_summary(text: &str) -> Option<ConversationSummary> {
    read_document(text)
        .inspect_err(|error| tracing::error!(%error, "conversation summary cannot be read"))
        .ok()
}
