//! Reads the logs of jobs with their links, byte for byte.

use crate::domain::id::JobId;
use crate::domain::log_chain::{LogRecord, RecordPlace};
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
) -> Result<Vec<LogRecord>, StoreError> {
    records_after(log, job, RecordPlace::BEFORE_FIRST, usize::MAX)
}

/// The records behind a place, in order: at least one if there is any, and then as many as fit.
pub(crate) fn records_after(
    log: &impl ReadableTable<&'static LogBytes, RawBytes>,
    job: JobId,
    RecordPlace { seq, sub }: RecordPlace,
    max_bytes: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let first = LogKey { job, seq, sub: sub.saturating_add(1) }.encode();
    let (mut records, mut bytes) = (Vec::new(), 0_usize);
    for entry in log.range::<&LogBytes>(&first..=&LogKey::last(job).encode())? {
        let (key, stored) = entry?;
        bytes = bytes.saturating_add(stored.value().len());
        if bytes > max_bytes && !records.is_empty() {
            break;
        }
        records.push(record(key.value(), stored.value())?);
    }
    Ok(records)
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

fn record(key: &LogBytes, bytes: &[u8]) -> Result<LogRecord, StoreError> {
    let LogKey { seq, sub, .. } = LogKey::decode(key);
    let (body, link) = (values::decode_text(bytes)?, values::link(bytes));
    Ok(LogRecord { place: RecordPlace { seq, sub }, body, link })
}
