//! Lists the conversations of a user, newest first (P7).

use crate::domain::id::{ProjectId, UserId};
use crate::ports::{ConversationCursor, ConversationPage, ConversationQuery, StoreError};
use crate::store::postgres::conversations::row::{CONVERSATION, read_row};
use crate::store::postgres::conversations::search::ConversationSearch;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::rows::conversation::ConversationRow;
use std::collections::BTreeMap;

/// A page ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// Conversations that one statement reads.
const CHUNK: usize = 64;

/// A page of a user's conversations. The list is read until the page is full or the search has read enough.
pub(crate) async fn conversations(
    session: &SqlSession<'_>,
    query: &ConversationQuery,
) -> Result<ConversationPage, StoreError> {
    let mut page = ConversationPage { conversations: Vec::new(), next: None };
    let mut search = query.search.as_ref().map(|words| ConversationSearch::new(session, words));
    let (mut bytes, mut last_read) = (0_usize, query.before.clone());
    let chunk = if search.is_some() { CHUNK } else { query.limit.saturating_add(1).min(CHUNK) };
    loop {
        let rows = rows(session, query, last_read.as_ref(), chunk).await?;
        let is_last = rows.len() < chunk;
        if let Some(search) = &mut search {
            search.begin(query.user, &rows);
        }
        for row in rows {
            let is_searched = search.as_ref().is_some_and(ConversationSearch::is_spent);
            if page.conversations.len() >= query.limit || bytes >= PAGE_BYTES || is_searched {
                page.next = last_read;
                return Ok(page);
            }
            let found = &row.conversation;
            last_read = Some(ConversationCursor::from(found));
            if let Some(search) = &mut search
                && !search.finds_next(&found.title).await?
            {
                continue;
            }
            bytes =
                bytes.saturating_add(found.title.len()).saturating_add(found.settings.system_prompt.len());
            page.conversations.push(row.conversation);
        }
        if is_last {
            return Ok(page);
        }
    }
}

/// At most `limit` conversations after this position.
async fn rows(
    session: &SqlSession<'_>,
    query: &ConversationQuery,
    before: Option<&ConversationCursor>,
    limit: usize,
) -> Result<Vec<ConversationRow>, StoreError> {
    let sql = format!(
        "SELECT {CONVERSATION} FROM conversations c WHERE c.user_id = $1 AND c.updated_at_ms <= $2 \
         AND (c.updated_at_ms < $2 OR c.id > $3) AND ($4::text IS NULL OR c.project = $4) \
         ORDER BY c.updated_at_ms DESC, c.id LIMIT $5"
    );
    let (updated_at_ms, id) = match before {
        Some(cursor) => (sql_number(cursor.updated_at_ms), cursor.id.to_string()),
        None => (i64::MAX, String::new()),
    };
    let project = query.project.map(|project| project.to_string());
    let params = (sql_user(query.user), sql_number(limit));
    let found = session.rows(&sql, &[&params.0, &updated_at_ms, &id, &project, &params.1]).await?;
    found.iter().map(|row| read_row(row, 0)).collect()
}

/// How many conversations of a user belong to each project.
pub(crate) async fn counts_by_project(
    session: &SqlSession<'_>,
    user: UserId,
) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
    let sql = "SELECT project, count(*) FROM conversations WHERE user_id = $1 AND project IS NOT NULL \
               GROUP BY project";
    let found = session.rows(sql, &[&sql_user(user)]).await?;
    found.iter().map(|row| Ok((row.parsed(0)?, row.number(1)?))).collect()
}
