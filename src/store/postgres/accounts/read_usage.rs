//! Reads usage by day, by hour, and of a conversation.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::UsageByModel;
use crate::ports::{DayUsage, HourUsage, StoreError};
use crate::store::postgres::accounts::usage_columns;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use tokio_postgres::Row;

/// A user's usage of the days from one to another, both included, sorted by day and model.
pub(crate) async fn daily_usage(
    session: &SqlSession<'_>,
    user: UserId,
    (from, to): (u32, u32),
) -> Result<Vec<DayUsage>, StoreError> {
    let sql = format!(
        "SELECT day, model::text, jobs, {} FROM usage_daily WHERE user_id = $1 AND day BETWEEN $2 AND $3",
        usage_columns::LIST
    );
    let found = session.rows(&sql, &[&sql_user(user), &sql_number(from), &sql_number(to)]).await?;
    let day = |row: &Row| {
        let usage = usage_columns::read(row, 3)?;
        Ok(DayUsage { day: time(row, 0)?, model: row.document(1)?, usage, jobs: row.number(2)? })
    };
    let mut days: Vec<DayUsage> = found.iter().map(day).collect::<Result<_, StoreError>>()?;
    days.sort_by(|a, b| (a.day, &a.model).cmp(&(b.day, &b.model)));
    Ok(days)
}

/// The usage of the hours from one to another, both included, of one user or of all together, sorted by hour
/// and model.
pub(crate) async fn hourly_usage(
    session: &SqlSession<'_>,
    user: Option<UserId>,
    (from, to): (u32, u32),
) -> Result<Vec<HourUsage>, StoreError> {
    let (from, to) = (sql_number(from), sql_number(to));
    let sums = usage_columns::sums();
    // Rows of the same digest have the same model.
    let select =
        format!("SELECT hour, min(model::text), {sums} FROM usage_hourly WHERE hour BETWEEN $1 AND $2");
    let grouped = "GROUP BY hour, model_digest";
    let found = match user {
        Some(user) => {
            let sql = format!("{select} AND user_id = $3 {grouped}");
            session.rows(&sql, &[&from, &to, &sql_user(user)]).await?
        }
        None => session.rows(&format!("{select} {grouped}"), &[&from, &to]).await?,
    };
    let hour = |row: &Row| {
        Ok(HourUsage { hour: time(row, 0)?, model: row.document(1)?, usage: usage_columns::read(row, 2)? })
    };
    let mut hours: Vec<HourUsage> = found.iter().map(hour).collect::<Result<_, StoreError>>()?;
    hours.sort_by(|a, b| (a.hour, &a.model).cmp(&(b.hour, &b.model)));
    Ok(hours)
}

/// The usage of a conversation as a whole.
pub(crate) async fn conversation_usage(
    session: &SqlSession<'_>,
    user: UserId,
    conversation: &ConversationId,
) -> Result<UsageByModel, StoreError> {
    let sql = format!(
        "SELECT model::text, {} FROM conversation_usage WHERE user_id = $1 AND conversation = $2",
        usage_columns::LIST
    );
    let mut usage = UsageByModel::default();
    for row in session.rows(&sql, &[&sql_user(user), &conversation.as_str()]).await? {
        let model: String = row.document(0)?;
        usage.add(&model, usage_columns::read(&row, 1)?);
    }
    Ok(usage)
}

/// A day or an hour.
fn time(row: &Row, index: usize) -> Result<u32, StoreError> {
    let number = row.number(index)?;
    u32::try_from(number).map_err(|_| StoreError::Corrupt(format!("{number} is no day and no hour")))
}
