//! The port [`AuditRows`]: the audit log of all nodes in a table of bounded length. Entries share the commits
//! of jobs.

use crate::domain::id::{JobId, UserId};
use crate::ports::{AuditEntry, AuditPage, AuditRows, StoreError, Urgency};
use crate::store::postgres::session::{Columns, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::{WriteOptions, WriteScope};

impl Act<'_> {
    /// Stores an entry.
    async fn append_audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        let sql = "INSERT INTO audit (time_ms, user_id, job, entry) VALUES ($1, $2, $3, $4::text::json)";
        let job = entry.job.map(|job| job.to_string());
        let params = (sql_number(entry.time_ms), sql_user(entry.user), document(entry)?);
        self.session.send(sql, &[&params.0, &params.1, &job, &params.2]).await
    }

    /// Removes the oldest entries beyond the limit, at most so many. Returns how many it removed.
    pub(crate) async fn sweep_audit(&mut self, most: u32) -> Result<u32, StoreError> {
        let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit \
                   WHERE id <= (SELECT max(id) FROM audit) - $1::bigint ORDER BY id LIMIT $2)";
        let limit = sql_number(self.shared.database.audit_entries);
        let removed = self.session.execute(sql, &[&limit, &i64::from(most)]).await?;
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }
}

impl AuditRows for PostgresStore {
    fn append_entry(&self, entry: AuditEntry) {
        let job = entry.job;
        let options =
            WriteOptions { urgency: Urgency::Soon, scope: WriteScope::Alone, ..WriteOptions::default() };
        let ticket = self.push(options, async move |act: &mut Act<'_>| act.append_audit(&entry).await);
        self.shared.connections.handle().spawn(async move {
            if let Err(error) = ticket.await {
                tracing::error!(%error, ?job, "cannot write a tool call to the audit log");
            }
        });
    }

    fn entries_of_job(&self, user: UserId, job: JobId, max: usize) -> Result<AuditPage, StoreError> {
        let sql = "SELECT entry::text FROM audit WHERE job = $1 AND user_id = $2 ORDER BY id DESC LIMIT $3";
        let limit = sql_number(max.saturating_add(1));
        let rows = self.read(async |session: &SqlSession<'_>| {
            session.rows(sql, &[&job.to_string(), &sql_user(user), &limit]).await
        })?;
        let mut entries: Vec<AuditEntry> =
            rows.iter().take(max).map(|row| row.document(0)).collect::<Result<_, _>>()?;
        entries.reverse();
        Ok(AuditPage { entries, has_more: rows.len() > max })
    }
}
