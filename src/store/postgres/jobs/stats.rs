//! Counts of the store for the operator, over all nodes.

use crate::domain::id::UserId;
use crate::ports::{StatsSource, StoreError, StoreLoad, StoreStats, UserJobCounts};
use crate::store::postgres::accounts::quota_counts::unfinished_counts;
use crate::store::postgres::batches::unstarted::open_batches;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::webhooks::pending_deliveries;

/// Ready jobs of each priority that are searched for the oldest: users take turns in the queue.
const READY_PROBED: i64 = 256;
/// Jobs of a user to count in each state.
const MAX_USER_JOBS: u64 = 10_000;

impl StatsSource for PostgresStore {
    fn stats(&self) -> Result<StoreStats, StoreError> {
        // A store without its writers counts as closed, although reads would work.
        if !self.has_writers() {
            return Err(StoreError::Closed);
        }
        let now_ms = self.shared.now_ms();
        let space = self.shared.shared_dir.get().and_then(|dir| dir.space());
        let counted = self.read(async |session: &SqlSession<'_>| stats(session, now_ms).await)?;
        Ok(StoreStats { disk_free_bytes: space.map(|space| space.free_bytes), ..counted })
    }
}

async fn stats(session: &SqlSession<'_>, now_ms: u64) -> Result<StoreStats, StoreError> {
    // Each count reads an index alone.
    let sql = "SELECT (SELECT count(*) FROM jobs WHERE status IN ('queued', 'running', 'waiting')), \
               (SELECT count(*) FROM jobs WHERE status = 'running'), (SELECT count(*) FROM jobs WHERE status = 'waiting'), \
               (SELECT count(*) FROM jobs WHERE place = 'ready'), (SELECT count(*) FROM jobs WHERE place = 'delayed'), \
               (SELECT min(c.ready_since_ms) FROM generate_series(0, 9) AS p CROSS JOIN LATERAL (SELECT ready_since_ms \
                FROM jobs WHERE place = 'ready' AND priority = p ORDER BY fair, accept LIMIT $1) AS c), \
               (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class \
                WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace)";
    let row = session.one(sql, &[&READY_PROBED]).await?;
    let (running, waiting) = (row.number(1)?, row.number(2)?);
    let queued = row.number(0)?.saturating_sub(running).saturating_sub(waiting);
    let (batches, lines) = open_batches(session).await?;
    Ok(StoreStats {
        queued: queued.saturating_add(lines),
        running,
        waiting,
        ready: row.number(3)?,
        // A job that waits for approval is delayed until that expires.
        delayed: row.number(4)?.saturating_sub(waiting),
        oldest_ready_ms: row.optional_number(5)?.map_or(0, |since_ms| now_ms.saturating_sub(since_ms)),
        batches,
        deliveries: pending_deliveries(session).await?,
        file_bytes: row.number(6)?,
        ..StoreStats::default()
    })
}

impl PostgresStore {
    /// Unfinished jobs of a user, counted up to 10,000 in each state.
    pub fn user_job_counts(&self, user: UserId) -> Result<UserJobCounts, StoreError> {
        let of = |status: &str| {
            format!(
                "(SELECT count(*) FROM (SELECT FROM jobs WHERE user_id = $1 AND status = '{status}' LIMIT $2) AS j)"
            )
        };
        let sql = format!("SELECT {}, {}, {}", of("queued"), of("waiting"), of("running"));
        self.read(async |session: &SqlSession<'_>| {
            let row = session.one(&sql, &[&sql_user(user), &sql_number(MAX_USER_JOBS)]).await?;
            let lines = unfinished_counts(session, user).await?.lines.min(MAX_USER_JOBS);
            let queued = row.number(0)?.saturating_add(lines);
            Ok(UserJobCounts { queued, waiting: row.number(1)?, running: row.number(2)? })
        })
    }

    /// Running and queued jobs of all nodes.
    pub fn load(&self) -> Result<StoreLoad, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM jobs WHERE status = 'running'), \
                   (SELECT count(*) FROM jobs WHERE place = 'ready') + (SELECT count(*) FROM jobs WHERE place = 'delayed')";
        self.read(async |session: &SqlSession<'_>| {
            let row = session.one(sql, &[]).await?;
            Ok(StoreLoad { running: row.number(0)?, queued: row.number(1)? })
        })
    }
}
