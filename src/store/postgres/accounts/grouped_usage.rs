//! Usage of a range of days by user, and by conversation.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::GroupUsage;
use crate::ports::{StoreError, TitledConversation, UsageGroups};
use crate::store::postgres::accounts::usage_columns;
use crate::store::postgres::conversations::titles::titles;
use crate::store::postgres::session::{Columns, Params, SqlSession, sql_number, sql_user};
use tokio_postgres::Row;

/// The usage of one user, or of all.
pub(crate) async fn by_user(
    session: &SqlSession<'_>,
    user: Option<UserId>,
    (from, to): (u32, u32),
    limit: usize,
) -> Result<UsageGroups<UserId>, StoreError> {
    let (from, to, wanted) = (sql_number(from), sql_number(to), sql_number(limit.saturating_add(1)));
    let read = |row: &Row| row.user(0);
    if let Some(user) = user {
        let sql = largest("user_id", "usage_daily", "AND user_id = $4");
        return groups(session, (&sql, &[&from, &to, &wanted, &sql_user(user)]), limit, read).await;
    }
    let sql = largest("user_id", "usage_daily", "");
    groups(session, (&sql, &[&from, &to, &wanted]), limit, read).await
}

/// The usage in a user's conversations.
pub(crate) async fn by_conversation(
    session: &SqlSession<'_>,
    user: UserId,
    (from, to): (u32, u32),
    limit: usize,
) -> Result<UsageGroups<TitledConversation>, StoreError> {
    let (from, to, wanted) = (sql_number(from), sql_number(to), sql_number(limit.saturating_add(1)));
    let sql = largest("conversation", "conversation_usage_daily", "AND user_id = $4");
    let params: Params<'_> = &[&from, &to, &wanted, &sql_user(user)];
    let read = |row: &Row| ConversationId::try_from(row.column::<String>(0)?).map_err(StoreError::Corrupt);
    let (groups, is_cut) = groups(session, (&sql, params), limit, read).await?;
    let ids: Vec<ConversationId> = groups.iter().map(|each| each.group.clone()).collect();
    let mut names = titles(session, user, &ids).await?;
    let titled = |GroupUsage { group: id, usage, jobs }| {
        let title = names.remove(&id).unwrap_or_default();
        GroupUsage { group: TitledConversation { id, title }, usage, jobs }
    };
    Ok((groups.into_iter().map(titled).collect(), is_cut))
}

/// Selects the groups of `column` that used most tokens from day `$1` to day `$2`, at most `$3` of them. A
/// group that used nothing is left out.
fn largest(column: &str, table: &str, condition: &str) -> String {
    let (sums, total) = (usage_columns::sums(), usage_columns::sum("total_tokens"));
    let jobs = usage_columns::sum("jobs");
    let has_used = usage_columns::NAMES.map(|name| format!("sum({name}) > 0")).join(" OR ");
    format!(
        "SELECT {column}, {jobs}, {sums} FROM {table} WHERE day BETWEEN $1 AND $2 {condition} GROUP BY {column} \
         HAVING sum(jobs) > 0 OR {has_used} ORDER BY {total} DESC, {column} LIMIT $3"
    )
}

/// Reads the groups of a statement that selects one more than `limit`.
async fn groups<G>(
    session: &SqlSession<'_>,
    (sql, params): (&str, Params<'_>),
    limit: usize,
    group: impl Fn(&Row) -> Result<G, StoreError>,
) -> Result<UsageGroups<G>, StoreError> {
    let found = session.rows(sql, params).await?;
    let is_cut = found.len() > limit;
    let read = |row: &Row| {
        Ok(GroupUsage { group: group(row)?, jobs: row.number(1)?, usage: usage_columns::read(row, 2)? })
    };
    let groups = found.iter().take(limit).map(read).collect::<Result<_, StoreError>>()?;
    Ok((groups, is_cut))
}
