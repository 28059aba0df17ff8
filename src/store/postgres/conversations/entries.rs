//! Reads the entries of conversations: jobs that have run and ended, and added items.

use crate::domain::conversation::StoredItems;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::message::Message;
use crate::ports::{ConversationEntry, EntryJob, EntryPage, EntryQuery, EntryRef, StoreError};
use crate::store::postgres::session::{Columns, SqlSession, document, read_document, sql_number, sql_user};
use serde_json::Value;
use tokio_postgres::Row;

/// Rows that one statement reads to find an item or a call.
const FOUND_ROWS: i64 = 16;
/// A page of entries ends after so many bytes of items; the last ones may exceed it.
const PAGE_BYTES: usize = 1024 * 1024;

/// The columns that [`read_entry`] reads, of the numbers `n`, the pairs `p` and the items `i`.
const ENTRY: &str = "n.accept, p.job, p.shows_question, p.shows_answer, i.items::text";

/// Pairs and items at the numbers `n` of a conversation.
const AT_NUMBERS: &str = "LEFT JOIN message_pairs p ON p.user_id = $1 AND p.conversation = $2 AND p.accept = n.accept \
    LEFT JOIN conversation_items i ON i.user_id = $1 AND i.conversation = $2 AND i.accept = n.accept";

/// Reads the columns [`ENTRY`], the first ones of this row.
fn read_entry(row: &Row) -> Result<ConversationEntry, StoreError> {
    let job = match row.column::<Option<&str>>(1)? {
        Some(_) => Some(EntryJob {
            id: row.parsed(1)?,
            shows_question: row.column(2)?,
            shows_answer: row.column(3)?,
        }),
        None => None,
    };
    let items = row.column::<Option<&str>>(4)?.map(read_document::<StoredItems>).transpose()?;
    Ok(ConversationEntry { number: row.number(0)?, job, items: items.unwrap_or_default() })
}

/// A page of a conversation's entries.
pub(crate) async fn entries(
    session: &SqlSession<'_>,
    (user, id): (UserId, &ConversationId),
    query: EntryQuery,
) -> Result<EntryPage, StoreError> {
    let order = if query.is_newest_first { "DESC" } else { "ASC" };
    let (first, last) = match query.from {
        Some(from) if query.is_newest_first => (0, sql_number(from)),
        Some(from) => (sql_number(from), i64::MAX),
        None => (0, i64::MAX),
    };
    let numbers = |table: &str| {
        format!(
            "(SELECT t.accept FROM {table} t WHERE t.user_id = $1 AND t.conversation = $2 AND t.accept BETWEEN $3 AND $4 \
             AND t.accept >= (SELECT floor FROM conversations WHERE user_id = $1 AND id = $2) \
             ORDER BY t.accept {order} LIMIT $5)"
        )
    };
    let (pairs, items) = (numbers("message_pairs"), numbers("conversation_items"));
    // A job without a turn has not ended, or never ran.
    let sql = format!(
        "SELECT {ENTRY}, EXISTS (SELECT FROM turns t WHERE t.user_id = $1 AND t.conversation = $2 \
           AND t.accept = n.accept), n.following FROM (SELECT accept, lead(accept) OVER numbers AS following, \
             sum(bytes) OVER numbers - bytes AS before, row_number() OVER numbers AS nth FROM \
             (SELECT u.accept, coalesce((SELECT octet_length(i.items::text) FROM conversation_items i WHERE i.user_id = $1 \
               AND i.conversation = $2 AND i.accept = u.accept), 0) AS bytes FROM ({pairs} UNION {items}) AS u \
              ORDER BY u.accept {order} LIMIT $5) AS sized WINDOW numbers AS (ORDER BY accept {order})) AS n {AT_NUMBERS} \
         WHERE n.before < $6 AND n.nth < $5 ORDER BY n.accept {order}"
    );
    let params = (sql_user(user), id.to_string(), sql_number(query.limit.saturating_add(1)));
    let found = session
        .rows(&sql, &[&params.0, &params.1, &first, &last, &params.2, &sql_number(PAGE_BYTES)])
        .await?;
    let mut page = EntryPage::default();
    for row in &found {
        page.next = row.optional_number(6)?;
        if row.column(5)? {
            page.entries.push(read_entry(row)?);
        }
    }
    Ok(page)
}

/// One entry of a conversation.
pub(crate) async fn entry(
    session: &SqlSession<'_>,
    (user, id): (UserId, &ConversationId),
    wanted: EntryRef<'_>,
) -> Result<Option<ConversationEntry>, StoreError> {
    let (user, id) = (sql_user(user), id.to_string());
    let number = match wanted {
        EntryRef::Job(job) => {
            let sql = "SELECT j.accept FROM jobs j JOIN conversations c ON c.user_id = j.user_id \
                       AND c.id = j.conversation AND c.floor <= j.accept \
                       WHERE j.id = $3 AND j.user_id = $1 AND j.conversation = $2";
            let found = session.row(sql, &[&user, &id, &job.to_string()]).await?;
            found.map(|row| row.column::<i64>(0)).transpose()?
        }
        EntryRef::Added(item) => added_number(session, (user, &id), item).await?,
    };
    let Some(number) = number else { return Ok(None) };
    let sql = format!(
        "SELECT {ENTRY} FROM (SELECT accept FROM turns WHERE user_id = $1 AND conversation = $2 AND accept = $3) AS n \
         {AT_NUMBERS}"
    );
    let found = session.row(&sql, &[&user, &id, &number]).await?;
    found.map(|row| read_entry(&row)).transpose()
}

/// The newest rows of a table with a document that contains this text, below a number. `$5`: how many.
fn containing(table: &str, column: &str) -> String {
    format!(
        "SELECT t.accept, t.{column}::text FROM conversations c JOIN {table} t ON t.user_id = c.user_id \
         AND t.conversation = c.id AND t.accept >= c.floor WHERE c.user_id = $1 AND c.id = $2 AND t.accept < $3 \
         AND strpos(t.{column}::text, $4) > 0 ORDER BY t.accept DESC LIMIT $5"
    )
}

/// Where an added item is: the newest ones are looked at first.
async fn added_number(
    session: &SqlSession<'_>,
    (user, id): (i64, &str),
    item: &str,
) -> Result<Option<i64>, StoreError> {
    let (sql, text) = (containing("conversation_items", "items"), document(&item)?);
    let mut below = i64::MAX;
    loop {
        let found = session.rows(&sql, &[&user, &id, &below, &text, &FOUND_ROWS]).await?;
        for row in &found {
            below = row.column(0)?;
            let stored: StoredItems = row.document(1)?;
            if stored.added.iter().any(|added| added.get("id").and_then(Value::as_str) == Some(item)) {
                return Ok(Some(below));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
    }
}

/// What models read at a place of a conversation.
pub(crate) async fn turn(
    session: &SqlSession<'_>,
    (user, id): (UserId, &ConversationId),
    number: u64,
) -> Result<Vec<Message>, StoreError> {
    let sql = "SELECT messages::text FROM turns WHERE user_id = $1 AND conversation = $2 AND accept = $3";
    let found = session.row(sql, &[&sql_user(user), &id.to_string(), &sql_number(number)]).await?;
    Ok(found.map(|row| row.document(0)).transpose()?.unwrap_or_default())
}

/// The name of the tool that the newest call of this id named.
pub(crate) async fn called_tool(
    session: &SqlSession<'_>,
    (user, id): (UserId, &ConversationId),
    call: &str,
) -> Result<Option<String>, StoreError> {
    let (sql, text) = (containing("turns", "messages"), document(&call)?);
    let (user, id, mut below) = (sql_user(user), id.to_string(), i64::MAX);
    loop {
        let found = session.rows(&sql, &[&user, &id, &below, &text, &FOUND_ROWS]).await?;
        for row in &found {
            below = row.column(0)?;
            let messages: Vec<Message> = row.document(1)?;
            if let Some(name) = named_tool(&messages, call) {
                return Ok(Some(name));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
    }
}

/// The name of the tool that the newest call with this id among the messages named.
fn named_tool(messages: &[Message], call: &str) -> Option<String> {
    let calls = messages.iter().rev().filter_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    calls.flatten().find(|found| found.id_ref == call).map(|found| found.name.clone())
}
