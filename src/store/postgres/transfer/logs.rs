//! The logs of a database, byte for byte, and its checkpoints.

use crate::domain::id::JobId;
use crate::domain::log_chain::{LogPublicKey, LogRecord, LogSigningKey, StoredCheckpoint};
use crate::ports::StoreError;
use crate::store::postgres::jobs::chain::{RECORD, read_record};
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::Columns;
use crate::store::postgres::transfer::access::DatabaseError;
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::rows::checkpoint::{CheckpointReport, CheckpointWalk};
use crate::store::rows::log_fold::EachLog;
use std::collections::HashMap;
use tokio_postgres::Row;

/// Jobs whose logs are read at once.
const PAGE_JOBS: usize = 50;

/// The setting with the key that signs what retention notes about logs.
pub(crate) const LOG_KEY_SETTING: &str = "log_key";

impl Snapshot<'_> {
    /// The key of the nodes, if one has set it.
    pub(crate) fn log_public_key(&self) -> Result<Option<LogPublicKey>, DatabaseError> {
        let stored = self.setting(LOG_KEY_SETTING)?;
        let key = stored.and_then(|text| LogSigningKey::from_text(&text));
        Ok(key.map(|key| key.public_key()))
    }

    /// A value that the nodes share.
    pub(crate) fn setting(&self, key: &str) -> Result<Option<String>, DatabaseError> {
        let stored = self.query(&format!("SELECT value FROM settings WHERE key = '{key}'"))?;
        Ok(stored.first().map(|row| row.get(0)))
    }

    /// Calls `each` with all jobs, or with one, and their records.
    pub(crate) fn each_log(&self, only: Option<JobId>, each: &mut EachLog<'_>) -> Result<(), DatabaseError> {
        let mut after = String::new();
        loop {
            // Ids have letters, digits and underscores only.
            let which = only.map_or_else(|| format!("id > '{after}'"), |job| format!("id = '{job}'"));
            let sql = format!("SELECT {ROW}, id FROM jobs WHERE {which} ORDER BY id LIMIT {PAGE_JOBS}");
            let found = self.query(&sql)?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.get(6);
            let mut records = self.records_of(&found)?;
            for row in &found {
                let id: String = row.get(6);
                let of_job = records.remove(&id).unwrap_or_else(|| Ok(Vec::new()));
                let log = read_row(row, 0).and_then(|row| Ok((row, of_job?)));
                // An id that is none cannot be named.
                if let Ok(job) = id.parse::<JobId>() {
                    each(job, log.map_err(|error| error.to_string()));
                }
            }
            if only.is_some() || found.len() < PAGE_JOBS {
                return Ok(());
            }
        }
    }

    /// Verifies all checkpoints.
    pub(crate) fn walk_checkpoints(
        &self,
        mut walk: CheckpointWalk,
    ) -> Result<CheckpointReport, DatabaseError> {
        let mut after = 0_i64;
        loop {
            let sql = format!(
                "SELECT number, checkpoint::text FROM log_checkpoints WHERE number > {after} ORDER BY number LIMIT 1"
            );
            let found = self.query(&sql)?;
            let Some(row) = found.first() else { return Ok(walk.report) };
            after = row.get(0);
            let stored: StoredCheckpoint = row.document(1)?;
            // A checkpoint of jobs that had no chains has no heads, and a list may be empty where IN may not.
            let ids: Vec<String> = stored.heads.iter().map(|(job, _)| format!("'{job}'")).collect();
            let sql = format!("SELECT {ROW} FROM jobs WHERE id = ANY (ARRAY[{}]::text[])", ids.join(", "));
            let mut rows = HashMap::new();
            for row in self.query(&sql)? {
                let row = read_row(&row, 0)?;
                rows.insert(row.id(), row);
            }
            walk.take(stored, &rows);
        }
    }

    /// The records of these jobs, or why they cannot be read.
    fn records_of(
        &self,
        jobs: &[Row],
    ) -> Result<HashMap<String, Result<Vec<LogRecord>, StoreError>>, DatabaseError> {
        let ids: Vec<String> = jobs.iter().map(|row| format!("'{}'", row.get::<_, &str>(6))).collect();
        let ids = ids.join(", ");
        let sql = format!("SELECT job, {RECORD} FROM records WHERE job IN ({ids}) ORDER BY job, seq, sub");
        let mut records: HashMap<String, Result<Vec<LogRecord>, StoreError>> = HashMap::new();
        for row in self.query(&sql)? {
            let of_job = records.entry(row.column(0)?).or_insert_with(|| Ok(Vec::new()));
            match (read_record(&row, 1), of_job) {
                (Ok(record), Ok(of_job)) => of_job.push(record),
                (Err(error), of_job) => *of_job = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        Ok(records)
    }
}
