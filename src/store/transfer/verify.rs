//! Verifies the hash chains of the logs of a closed file, or of a database, and the checkpoints over them.

use crate::domain::id::JobId;
use crate::domain::log_chain::{ChainFault, ChainVerdict, LogPublicKey};
use crate::domain::secret::Secret;
use crate::store::postgres::transfer::access::{LayoutUse, connections};
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::redb::ReadTransaction;
use crate::store::redb::transfer::logs::{each_log, read_closed, walk_checkpoints};
use crate::store::rows::checkpoint::{CheckpointReport, CheckpointWalk};
use crate::store::rows::log_fold::ReadLog;
use crate::store::transfer::error::TransferError;
use crate::store::transfer::migrate::StoreLocation;
use std::path::Path;

/// Why a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    /// Its chain has a fault.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The job, or a record, cannot be read.
    #[error("the job cannot be read: {0}")]
    Unreadable(String),
}

/// Gets the verdict about each log.
pub type EachVerdict<'e> = dyn FnMut(JobId, Result<ChainVerdict, LogFault>) + 'e;

/// The key that the nodes of a database share; `None` for a file, and before a node has set it. Blocks.
pub fn shared_log_key(store: &StoreLocation) -> Result<Option<LogPublicKey>, TransferError> {
    match store {
        StoreLocation::File(_) => Ok(None),
        StoreLocation::Database(url) => {
            let connections = connections(url)?;
            Ok(Snapshot::take(&connections, LayoutUse::Read)?.log_public_key()?)
        }
    }
}

/// Verifies the log of one job, or of all. `keys`: those that may have signed. Returns how many jobs there
/// were. Blocks.
pub fn verify_logs(
    store: &StoreLocation,
    only: Option<JobId>,
    keys: &[LogPublicKey],
    each: &mut EachVerdict<'_>,
) -> Result<u64, TransferError> {
    match store {
        StoreLocation::File(path) => verify_file(path, only, keys, each),
        StoreLocation::Database(url) => verify_database(url, only, keys, each),
    }
}

/// Verifies all checkpoints, and that the jobs of each still have its heads. `keys`: as above. Blocks.
pub fn verify_checkpoints(
    store: &StoreLocation,
    keys: &[LogPublicKey],
) -> Result<CheckpointReport, TransferError> {
    let walk = CheckpointWalk::new(keys);
    match store {
        StoreLocation::File(path) => {
            let walked = read_closed(path, |reading: &ReadTransaction| walk_checkpoints(reading, walk))?;
            walked.ok_or_else(|| TransferError::NoFile(path.clone()))
        }
        StoreLocation::Database(url) => {
            let connections = connections(url)?;
            Ok(Snapshot::take(&connections, LayoutUse::Read)?.walk_checkpoints(walk)?)
        }
    }
}

fn verify_file(
    path: &Path,
    only: Option<JobId>,
    keys: &[LogPublicKey],
    each: &mut EachVerdict<'_>,
) -> Result<u64, TransferError> {
    let verified = read_closed(path, |reading: &ReadTransaction| {
        let mut jobs = 0;
        each_log(reading, only, &mut |job, log| pass_on((job, log), keys, &mut jobs, each))?;
        Ok(jobs)
    })?;
    verified.ok_or_else(|| TransferError::NoFile(path.to_owned()))
}

fn verify_database(
    url: &Secret,
    only: Option<JobId>,
    keys: &[LogPublicKey],
    each: &mut EachVerdict<'_>,
) -> Result<u64, TransferError> {
    let connections = connections(url)?;
    let snapshot = Snapshot::take(&connections, LayoutUse::Read)?;
    let mut jobs = 0;
    snapshot.each_log(only, &mut |job, log| pass_on((job, log), keys, &mut jobs, each))?;
    Ok(jobs)
}

/// Counts a log, and passes its verdict on.
fn pass_on((job, log): (JobId, ReadLog), keys: &[LogPublicKey], jobs: &mut u64, each: &mut EachVerdict<'_>) {
    *jobs = jobs.saturating_add(1);
    let verdict = match log {
        Ok((row, records)) => row.log_chain(records).verify(keys).map_err(LogFault::from),
        Err(reason) => Err(LogFault::Unreadable(reason)),
    };
    each(job, verdict);
}
