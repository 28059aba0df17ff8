//! Reads a whole database, and compares what repeats other rows with these.

use crate::ports::StoreError;
use crate::store::postgres::accounts::stored_bytes::COUNTED;
use crate::store::postgres::transfer::access::DatabaseError;
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::rows::transfer::TransferTable;
use crate::store::rows::transfer::text_row::TextRow;

/// Columns that are not compared with what a document says: the document itself, where columns are the truth
/// of a part, and what may say more than is there.
const NOT_COMPARED: &[&str] =
    &["row", "spec", "bytes", "has_images", "due_ms", "has_dependents", "ends_at_ms"];

/// Queries that return what contradicts other rows: a table, the key of a row, and a reason.
const CONTRADICTIONS: &[&str] = &[
    "SELECT 'records', j.id, 'the log has a gap: ' || r.events || ' events up to number ' || r.last FROM jobs j \
     JOIN (SELECT job, count(*) AS events, max(seq) AS last FROM records WHERE sub = 0 GROUP BY job) r ON r.job = j.id \
     WHERE j.retention = 0 AND r.events <> r.last AND position('\"retried_at_ms\"' IN j.row::text) = 0",
    "SELECT 'records', j.id, 'the job has no log' FROM jobs j \
     WHERE j.retention < 3 AND NOT EXISTS (SELECT FROM records r WHERE r.job = j.id)",
    "SELECT DISTINCT 'records', r.job, 'there is no such job' FROM records r \
     WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = r.job)",
    "SELECT 'jobs', id, 'it is ready, and has no fair time' FROM jobs \
     WHERE place = 'ready' AND (fair IS NULL OR ready_since_ms IS NULL)",
    "SELECT 'jobs', id, 'it is delayed without a time' FROM jobs WHERE place = 'delayed' AND due_ms IS NULL",
    "SELECT 'jobs', id, 'it runs on no node' FROM jobs j WHERE status = 'running' \
     AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = j.lease_node)",
    "SELECT 'jobs', id, 'its number is above the newest one' FROM jobs \
     WHERE accept > (SELECT last_value FROM accept_numbers)",
    "SELECT 'batches', b.id, 'it counts ' || b.active || ' active lines of ' || l.active FROM batches b \
     JOIN LATERAL (SELECT count(*) FILTER (WHERE is_active) AS active FROM batch_lines WHERE batch = b.id) l ON true \
     WHERE b.active <> l.active",
    "SELECT 'batch_lines', l.batch, 'there is no such batch' FROM (SELECT DISTINCT batch FROM batch_lines) l \
     WHERE NOT EXISTS (SELECT FROM batches b WHERE b.id = l.batch) \
     AND NOT EXISTS (SELECT FROM removed_batches b WHERE b.batch = l.batch) \
     AND NOT EXISTS (SELECT FROM unaccepted_batches b WHERE b.batch = l.batch)",
    "SELECT 'file_totals', coalesce(t.user_id, c.user_id)::text, 'files and images are counted wrongly' \
     FROM (SELECT * FROM file_totals WHERE files > 0 OR bytes > 0 OR image_bytes > 0) t FULL JOIN \
     (SELECT user_id, sum(files) AS files, sum(bytes) AS bytes, sum(image_bytes) AS image_bytes FROM \
       (SELECT user_id, 1 AS files, bytes, 0 AS image_bytes FROM files UNION ALL \
        SELECT user_id, 0, 0, bytes FROM images) AS one GROUP BY user_id) c ON c.user_id = t.user_id \
     WHERE (t.files, t.bytes, t.image_bytes) IS DISTINCT FROM (c.files, c.bytes, c.image_bytes)",
    "SELECT 'quota_counts', user_id::text, 'jobs, lines or conversations are counted wrongly: ' || sum(jobs) || ', ' || \
       sum(lines) || ' and ' || sum(conversations) || ' too few' FROM \
       (SELECT user_id, -jobs AS jobs, -lines AS lines, -conversations AS conversations FROM quota_counts UNION ALL \
        SELECT user_id, 1, 0, 0 FROM jobs WHERE is_unfinished(status) UNION ALL \
        SELECT user_id, 0, waiting_lines(batches), 0 FROM batches UNION ALL \
        SELECT user_id, 0, 0, 1 FROM conversations) AS one GROUP BY user_id \
     HAVING (sum(jobs), sum(lines), sum(conversations)) <> (0, 0, 0)",
];

/// What a check finds.
pub(crate) trait CheckReport {
    /// A row was read.
    fn count_row(&mut self, table: &TransferTable, row: &TextRow);
    /// Something is wrong.
    fn add(&mut self, place: String);
}

impl Snapshot<'_> {
    /// Reads every row with its type, and looks for contradictions.
    pub(crate) fn check(
        &self,
        tables: &[TransferTable],
        report: &mut dyn CheckReport,
    ) -> Result<(), DatabaseError> {
        for table in tables {
            self.each_row(table, &mut |row| {
                report.count_row(table, &row);
                contradiction(table, &row)?.into_iter().for_each(|place| report.add(place));
                Ok(())
            })?;
        }
        for query in CONTRADICTIONS {
            self.add_contradictions(query, report)?;
        }
        self.check_stored_bytes(report)
    }

    fn add_contradictions(&self, query: &str, report: &mut dyn CheckReport) -> Result<(), DatabaseError> {
        for row in self.query(query)? {
            let [table, key, reason]: [String; 3] = [row.get(0), row.get(1), row.get(2)];
            report.add(format!("{table} {key} ({reason})"));
        }
        Ok(())
    }

    /// Compares the bytes of users' rows, if they are counted.
    fn check_stored_bytes(&self, report: &mut dyn CheckReport) -> Result<(), DatabaseError> {
        if self.query("SELECT FROM settings WHERE key = 'stored_bytes'")?.is_empty() {
            return Ok(());
        }
        let query = format!(
            "SELECT 'stored_bytes', coalesce(s.user_id, c.user_id)::text, s.bytes || ' bytes are counted of ' || c.bytes \
             FROM stored_bytes s FULL JOIN (SELECT user_id, sum(bytes)::bigint AS bytes FROM ({}) \
             AS counted (user_id, bytes) GROUP BY user_id) c ON c.user_id = s.user_id \
             WHERE coalesce(s.bytes, 0) <> coalesce(c.bytes, 0)",
            COUNTED.join(" UNION ALL ")
        );
        self.add_contradictions(&query, report)
    }
}

/// Why a row is no row of its table, or the first column that says something else than its document.
fn contradiction(table: &TransferTable, row: &TextRow) -> Result<Option<String>, StoreError> {
    let normal = match table.normal(row) {
        Err(StoreError::Corrupt(reason)) => return Ok(Some(reason)),
        normal => normal?,
    };
    let cells = table.columns.iter().zip(row.0.iter().zip(&normal.0));
    let mut compared = cells.filter(|(column, _)| !NOT_COMPARED.contains(column));
    let found = compared.find(|(_, (found, said))| found != said);
    Ok(found.map(|(column, (found, said))| {
        let (found, said) = (found.as_deref().unwrap_or("NULL"), said.as_deref().unwrap_or("NULL"));
        format!("{} {} ({column} is {found}, its document says {said})", table.name, row.key(table.key))
    }))
}
