//! How many bytes users keep in the store. A commit adds the changes of its rows to the sums of their users
//! ([`Act::count_bytes`]). A cluster whose quotas do not hold keeps no sums; the next start with quotas reads
//! all rows once.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, sql_user};
use crate::store::postgres::stored_files::totals;
use crate::store::postgres::writer::act::Act;

/// All bytes of a user: rows, and contents of uploaded files.
pub(crate) async fn with_files(session: &SqlSession<'_>, user: UserId) -> Result<u64, StoreError> {
    let sql = "SELECT bytes FROM stored_bytes WHERE user_id = $1";
    let rows = match session.row(sql, &[&sql_user(user)]).await? {
        Some(row) => row.number(0)?,
        None => 0,
    };
    Ok(rows.saturating_add(totals(session, user).await?.all_bytes()))
}

/// The rows that count, as users and bytes: the same as writes count. The row of a job counts as
/// `ROW_BYTES` of `jobs/insert.rs`.
pub(crate) const COUNTED: &[&str] = &[
    "SELECT user_id, 1024 + octet_length(spec::text) + coalesce(octet_length(output::text), 0) FROM jobs",
    "SELECT user_id, octet_length(body::text) FROM records JOIN jobs ON jobs.id = records.job",
    "SELECT user_id, octet_length(row::text) FROM conversations",
    "SELECT user_id, octet_length(messages::text) FROM turns",
    "SELECT user_id, octet_length(summary::text) FROM summaries",
    "SELECT user_id, octet_length(items::text) FROM conversation_items",
    "SELECT o.user_id, l.bytes FROM batch_lines l JOIN (SELECT id, user_id FROM batches \
     UNION SELECT batch, user_id FROM unaccepted_batches UNION SELECT batch, user_id FROM removed_batches) o \
     ON o.id = l.batch",
    "SELECT user_id, octet_length(request::text) FROM schedules",
    "SELECT user_id, octet_length(file::text) FROM files",
];

/// The setting that says that the sums are counted.
const IS_COUNTED: &str = "stored_bytes";

impl Act<'_> {
    /// Makes the sums fit: the cluster may have run without quotas. The first change of a start.
    pub(crate) async fn prepare_stored_bytes(&mut self) -> Result<(), StoreError> {
        let lock = "SELECT pg_advisory_xact_lock(hashtext('stored_bytes'), hashtext(current_schema()))";
        self.session.send(lock, &[]).await?;
        let found = self.session.row("SELECT FROM settings WHERE key = $1", &[&IS_COUNTED]).await?;
        if found.is_some() == self.limits.has_quotas {
            return Ok(());
        }
        self.session.send("DELETE FROM stored_bytes", &[]).await?;
        if found.is_some() {
            self.session.send("DELETE FROM settings WHERE key = $1", &[&IS_COUNTED]).await?;
            return Ok(());
        }
        self.session.send("INSERT INTO settings VALUES ($1, '')", &[&IS_COUNTED]).await?;
        let began_ms = self.shared.clock.monotonic_ms();
        let sql = format!(
            "INSERT INTO stored_bytes (user_id, bytes) \
             SELECT user_id, sum(bytes) FROM ({}) AS counted (user_id, bytes) GROUP BY user_id \
             ON CONFLICT (user_id) DO UPDATE SET bytes = excluded.bytes",
            COUNTED.join(" UNION ALL ")
        );
        let users = self.session.execute(&sql, &[]).await?;
        if users > 0 {
            let took_ms = self.shared.clock.monotonic_ms().saturating_sub(began_ms);
            tracing::info!(users, took_ms, "counted the stored bytes of users");
        }
        Ok(())
    }
}
