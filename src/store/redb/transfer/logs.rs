//! The logs of a closed file, byte for byte, and its checkpoints.

use crate::domain::id::JobId;
use crate::domain::log_chain::StoredCheckpoint;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable as _;
use crate::store::redb::codec::tables::{JOBS, LOG, LOG_CHECKPOINTS};
use crate::store::redb::codec::values;
pub(crate) use crate::store::redb::file::check::read_closed;
use crate::store::redb::jobs::chain;
use crate::store::rows::checkpoint::{CheckpointReport, CheckpointWalk};
use crate::store::rows::job::JobRow;
use crate::store::rows::log_fold::EachLog;
use std::collections::HashMap;

/// Calls `each` with all jobs, or with one.
pub(crate) fn each_log(
    reading: &ReadTransaction,
    only: Option<JobId>,
    each: &mut EachLog<'_>,
) -> Result<(), StoreError> {
    let (jobs, log) = (JOBS.read(reading)?, LOG.read(reading)?);
    let first = only.map_or([0; 16], JobId::to_bytes);
    let last = only.map_or([u8::MAX; 16], JobId::to_bytes);
    for entry in jobs.range::<&JobBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        let job = JobId::from_bytes(*key.value());
        let row = values::decode::<JobRow>(bytes.value());
        let found = row.and_then(|row| Ok((row, chain::records(&log, job)?)));
        each(job, found.map_err(|error| error.to_string()));
    }
    Ok(())
}

/// Verifies all checkpoints.
pub(crate) fn walk_checkpoints(
    reading: &ReadTransaction,
    mut walk: CheckpointWalk,
) -> Result<CheckpointReport, StoreError> {
    let (jobs, checkpoints) = (JOBS.read(reading)?, LOG_CHECKPOINTS.read(reading)?);
    for entry in checkpoints.iter()? {
        let stored: StoredCheckpoint = values::decode(entry?.1.value())?;
        let mut rows = HashMap::new();
        for (job, _) in stored.heads.iter() {
            let row: Option<JobRow> = jobs.row(&job.to_bytes())?;
            rows.extend(row.map(|row| (job, row)));
        }
        walk.take(stored, &rows);
    }
    Ok(walk.report)
}
