//! Reads the logs of jobs with their links, byte for byte.

use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::{
    LogChain, LogCheckpoint, LogPublicKey, LogRecord, LogSignature, LogSigningKey, RecordPlace,
    StoredCheckpoint,
};
use crate::ports::{LogChains, StoreError, Ticket};
use crate::store::postgres::jobs::row::{ROW, read_link, read_row};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use tokio_postgres::Row;

/// The columns that [`read_record`] reads.
pub(crate) const RECORD: &str = "seq, sub, body::text, link";

/// The record in the columns [`RECORD`], which begin at this one.
pub(crate) fn read_record(row: &Row, first: usize) -> Result<LogRecord, StoreError> {
    let at = |offset: usize| first.saturating_add(offset);
    let sub = u32::try_from(row.column::<i32>(at(1))?).unwrap_or_default();
    let place = RecordPlace { seq: row.number(first)?, sub };
    Ok(LogRecord { place, body: row.column(at(2))?, link: read_link(row, at(3))? })
}

impl LogChains for PostgresStore {
    fn log_chain(&self, user: UserId, job: JobId) -> Result<Option<LogChain>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            // One statement sees one state.
            let sql = format!(
                "SELECT {ROW}, r.seq, r.sub, r.body::text, r.link FROM jobs LEFT JOIN records r ON r.job = jobs.id \
                 WHERE jobs.id = $1 AND jobs.user_id IS NOT DISTINCT FROM $2 ORDER BY r.seq, r.sub"
            );
            let found = session.rows(&sql, &[&job.to_string(), &sql_user(user)]).await?;
            let Some(first) = found.first() else { return Ok(None) };
            let records = found.iter().filter(|row| !matches!(row.column::<Option<i64>>(6), Ok(None)));
            let records = records.map(|row| read_record(row, 6)).collect::<Result<_, _>>()?;
            Ok(Some(read_row(first, 0)?.log_chain(records)))
        })
    }

    fn log_public_key(&self) -> Option<LogPublicKey> {
        self.shared.log_key.get().map(LogSigningKey::public_key)
    }

    fn sign(&self, message: &[u8]) -> Option<(LogPublicKey, LogSignature)> {
        self.shared.log_key.get().map(|key| (key.public_key(), key.sign(message)))
    }

    fn make_checkpoint(&self) -> Ticket<Option<LogCheckpoint>> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| act.make_checkpoint().await)
    }

    fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<StoredCheckpoint>, StoreError> {
        let sql = "SELECT checkpoint::text FROM log_checkpoints WHERE number > $1 ORDER BY number LIMIT $2";
        let params = (sql_number(after), sql_number(limit));
        let found =
            self.read(async |session: &SqlSession<'_>| session.rows(sql, &[&params.0, &params.1]).await)?;
        found.iter().map(|row| row.document(0)).collect()
    }
}
