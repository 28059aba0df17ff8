//! The port [`SpanExports`] on `PostgreSQL`. Nodes take ends with leases, so that one node exports each.

use crate::ports::{SpanExport, SpanExports, StoreError, Ticket};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::JobRow;

/// Ends that node `$1` may take: no live node has a lease of them, or it has them itself.
const FREE: &str = "FROM span_exports e WHERE e.taken_until IS NULL OR e.taken_by_node = $1 \
    OR e.taken_until <= clock_timestamp() OR NOT EXISTS (SELECT FROM nodes n WHERE n.id = e.taken_by_node \
    AND n.lease_until > clock_timestamp())";

impl Act<'_> {
    /// Queues the spans of jobs, in the transaction of their ends.
    pub(crate) async fn queue_span_exports(&self, rows: &[JobRow]) -> Result<(), StoreError> {
        if !self.limits.exports_spans {
            return Ok(());
        }
        let ends: Vec<_> = rows.iter().map(|row| sql_number(row.job.finished_at_ms.unwrap_or(0))).collect();
        let jobs: Vec<_> = rows.iter().map(|row| row.id().to_string()).collect();
        let users: Vec<_> = rows.iter().map(|row| sql_user(row.job.user)).collect();
        let sql = "INSERT INTO span_exports (finished_at_ms, job, user_id) \
                   SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING";
        self.session.send(sql, &[&ends, &jobs, &users]).await
    }

    async fn take_span_exports(&self, max: usize, lease_s: u64) -> Result<Vec<SpanExport>, StoreError> {
        let sql = format!(
            "WITH free AS (SELECT e.finished_at_ms, e.job {FREE} ORDER BY e.finished_at_ms, e.job LIMIT $2 \
             FOR UPDATE SKIP LOCKED) \
             UPDATE span_exports s SET taken_by_node = $1, \
             taken_until = clock_timestamp() + $3::bigint * interval '1 second' \
             FROM free WHERE (s.finished_at_ms, s.job) = (free.finished_at_ms, free.job) \
             RETURNING s.finished_at_ms, s.job, s.user_id"
        );
        let params = (sql_number(max), sql_number(lease_s));
        let rows = self.session.rows(&sql, &[&self.node, &params.0, &params.1]).await?;
        let export = |row: &tokio_postgres::Row| {
            Ok(SpanExport { finished_at_ms: row.number(0)?, job: row.parsed(1)?, user: row.user(2)? })
        };
        let mut taken = rows.iter().map(export).collect::<Result<Vec<_>, StoreError>>()?;
        taken.sort_unstable();
        Ok(taken)
    }

    async fn remove_span_exports(&self, exports: &[SpanExport]) -> Result<(), StoreError> {
        let ends: Vec<_> = exports.iter().map(|export| sql_number(export.finished_at_ms)).collect();
        let jobs: Vec<_> = exports.iter().map(|export| export.job.to_string()).collect();
        let sql = "DELETE FROM span_exports WHERE (finished_at_ms, job) IN \
                   (SELECT * FROM unnest($1::bigint[], $2::text[]))";
        self.session.send(sql, &[&ends, &jobs]).await
    }
}

impl SpanExports for PostgresStore {
    fn take_span_exports(&self, max: usize, lease_s: u64) -> Result<Vec<SpanExport>, StoreError> {
        let node = self.shared.node.id();
        // Spares a node that looks in vain the transaction.
        let sql = format!("SELECT EXISTS (SELECT {FREE})");
        let has_free =
            self.read(async |session: &SqlSession<'_>| session.one(&sql, &[&node]).await?.column::<bool>(0))?;
        if !has_free {
            return Ok(Vec::new());
        }
        self.write(async move |act: &mut Act<'_>| act.take_span_exports(max, lease_s).await).wait()
    }

    fn remove_span_exports(&self, exports: Vec<SpanExport>) -> Ticket<()> {
        self.write(async move |act: &mut Act<'_>| act.remove_span_exports(&exports).await)
    }

    fn waiting_span_exports(&self, limit: usize) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM (SELECT FROM span_exports LIMIT $1) AS waiting";
        let limit = sql_number(limit);
        self.read(async |session: &SqlSession<'_>| session.one(sql, &[&limit]).await?.number(0))
    }
}
