//! Reads the logs of jobs with their links, byte for byte.

use crate::domain::id::JobId;
use crate::domain::log_chain::{ChainRecord, RecordPlace};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::rows::log_fold::LogEnd;

/// The records of a log, in order.
pub(crate) fn records(
    log: &impl ReadableTable<&'static LogBytes, RawBytes>,
    job: JobId,
) -> Result<Vec<ChainRecord>, StoreError> {
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let entries = log.range::<&LogBytes>(&first..=&last)?;
    entries.map(|entry| entry.and_then(|(key, bytes)| record(key.value(), bytes.value()))).collect()
}

/// The newest records of the log of an ended job.
pub(crate) fn end(
    log: &impl ReadableTable<&'static LogBytes, RawBytes>,
    job: JobId,
) -> Result<LogEnd, StoreError> {
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let mut newest = log.range::<&LogBytes>(&first..=&last)?.rev();
    let mut next = || match newest.next().transpose()? {
        Some((key, bytes)) => record(key.value(), bytes.value()).map(Some),
        None => Ok(None),
    };
    let terminal = next()?.ok_or_else(|| StoreError::Corrupt("it has no log".to_owned()))?;
    let before = next()?.map(|before| (before.place, before.link));
    Ok(LogEnd { terminal, before })
}

fn record(key: &LogBytes, bytes: &[u8]) -> Result<ChainRecord, StoreError> {
    let LogKey { seq, sub, .. } = LogKey::decode(key);
    let (body, link) = (values::decode_text(bytes)?, values::link(bytes));
    Ok(ChainRecord { place: RecordPlace { seq, sub }, body, link })
}
