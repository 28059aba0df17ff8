//! Whole results of tools, read out of the logs in which the engine left them. Refuses other users' jobs (P7).

use super::RedbStore;
use super::keys::{LogBytes, LogKey};
use super::read;
use super::schema::LOG;
use super::value;
use crate::domain::event::EngineMark;
use crate::domain::handle::ResultHandle;
use crate::domain::id::UserId;
use crate::ports::{Results, StoreError};
use redb::ReadTransaction;

impl Results for RedbStore {
    fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
        self.shared.handle.read(|reading| match read::row(reading, handle.job)? {
            Some(row) if row.job.user == user => find(reading, handle),
            _ => Ok(None),
        })
    }
}

fn find(reading: &ReadTransaction, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
    let (first, last) = (LogKey { job: handle.job, seq: 0, sub: 0 }, LogKey::last(handle.job));
    let wanted = handle.to_string();
    let log = LOG.read(reading)?;
    for entry in log.range::<&LogBytes>(&first.encode()..=&last.encode())? {
        let (key, bytes) = entry?;
        // Events have no sub-number; only marks are read.
        if LogKey::decode(key.value()).sub == 0 {
            continue;
        }
        match value::decode(bytes.value())? {
            EngineMark::ToolWhole { handle, content } if handle == wanted => return Ok(Some(content)),
            _ => {}
        }
    }
    Ok(None)
}
