//! Titles of conversations, for lists of their usage.

use crate::domain::id::{ConversationId, UserId};
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, sql_user};
use crate::store::rows::conversation::ConversationRow;
use std::collections::HashMap;

/// Titles of a user's conversations. A conversation without a readable row is left out.
pub(crate) async fn titles(
    session: &SqlSession<'_>,
    user: UserId,
    ids: &[ConversationId],
) -> Result<HashMap<ConversationId, String>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let wanted: Vec<&str> = ids.iter().map(ConversationId::as_str).collect();
    let sql = "SELECT row::text FROM conversations WHERE user_id = $1 AND id = ANY($2)";
    let found = session.rows(sql, &[&sql_user(user), &wanted]).await?;
    let read = found.iter().filter_map(|row| row.document::<ConversationRow>(0).ok());
    Ok(read.map(|row| (row.conversation.id, row.conversation.title)).collect())
}
