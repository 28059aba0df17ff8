//! Counts of users, which triggers of the database keep as changes (`schema/0019_quota_counts.sql`). A reader
//! adds the changes up; a write that finds many joins them.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;

/// Rows of a user above which a write joins them.
const JOINED_ROWS: u64 = 256;
/// Maximum rows that one transaction joins.
const MAX_JOINED: u64 = 10_000;

/// Joins rows that no other transaction joins at this moment.
const JOIN: &str = "WITH taken AS (DELETE FROM quota_counts WHERE ctid = ANY (ARRAY( \
                      SELECT ctid FROM quota_counts WHERE user_id = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED)) \
                      RETURNING user_id, jobs, lines, conversations), \
                    joined AS (INSERT INTO quota_counts (user_id, jobs, lines, conversations) \
                      SELECT user_id, sum(jobs), sum(lines), sum(conversations) FROM taken GROUP BY user_id \
                      HAVING (sum(jobs), sum(lines), sum(conversations)) <> (0, 0, 0)) \
                    SELECT count(*) FROM taken";

/// The unfinished work of a user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnfinishedCounts {
    /// Jobs that have not ended.
    pub(crate) jobs: u64,
    /// Lines of open batches that have no job yet.
    pub(crate) lines: u64,
    /// Rows that the counts are the sums of.
    rows: u64,
}

impl UnfinishedCounts {
    /// Jobs and lines.
    pub(crate) fn all(self) -> u64 {
        self.jobs.saturating_add(self.lines)
    }
}

/// The unfinished work of a user.
pub(crate) async fn unfinished_counts(
    session: &SqlSession<'_>,
    user: UserId,
) -> Result<UnfinishedCounts, StoreError> {
    let sql = "SELECT coalesce(sum(jobs), 0)::bigint, coalesce(sum(lines), 0)::bigint, count(*) \
               FROM quota_counts WHERE user_id = $1";
    let row = session.one(sql, &[&sql_user(user)]).await?;
    Ok(UnfinishedCounts { jobs: row.number(0)?, lines: row.number(1)?, rows: row.number(2)? })
}

impl Act<'_> {
    /// The unfinished work of a user, with that of this transaction.
    pub(crate) async fn unfinished_counts(&mut self, user: UserId) -> Result<UnfinishedCounts, StoreError> {
        self.insert_jobs().await?;
        let counts = unfinished_counts(&self.session, user).await?;
        if counts.rows > JOINED_ROWS {
            self.session.send(JOIN, &[&vec![sql_user(user)], &sql_number(MAX_JOINED)]).await?;
        }
        Ok(counts)
    }

    /// Joins some rows of all users. Returns whether there may be more.
    pub(crate) async fn join_quota_counts(&mut self) -> Result<bool, StoreError> {
        let sql = "SELECT user_id FROM quota_counts GROUP BY user_id HAVING count(*) > 1 LIMIT 1000";
        let found = self.session.rows(sql, &[]).await?;
        let users: Vec<i64> = found.iter().map(|row| row.column(0)).collect::<Result<_, _>>()?;
        let joined = self.session.one(JOIN, &[&users, &sql_number(MAX_JOINED)]).await?.number(0)?;
        Ok(joined >= MAX_JOINED)
    }
}
