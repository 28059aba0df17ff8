//! Compares the counts of users with the rows that they count. A quota reads the counts only.

use crate::domain::id::UserId;
use crate::domain::stored_file::StoredFile;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::accounts::{UnfinishedWork, account_of};
use crate::store::redb::codec::keys::conversations::{count_key, key_parts};
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
use crate::store::redb::codec::keys::stored_files::{HeldImageKey, content_parts};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{
    BATCHES, CONVERSATION_COUNTS, CONVERSATIONS, FILE_CONTENTS, FILE_TOTALS, FILES, JOB_IMAGES, OWNED,
    UNFINISHED_WORK,
};
use crate::store::redb::codec::values;
use crate::store::rows::batch::BatchRow;
use crate::store::rows::file_totals::FileTotals;
use std::collections::BTreeMap;

/// Calls `add` with each count that does not fit. The rows are intact.
pub(crate) fn check_counts(reading: &ReadTransaction, add: &mut dyn FnMut(String)) -> Result<(), StoreError> {
    check_unfinished_work(reading, add)?;
    check_conversations(reading, add)?;
    check_files(reading, add)
}

fn check_unfinished_work(reading: &ReadTransaction, add: &mut dyn FnMut(String)) -> Result<(), StoreError> {
    let mut counted: BTreeMap<UserId, UnfinishedWork> = BTreeMap::new();
    let none = UnfinishedWork { jobs: 0, lines: 0 };
    for entry in OWNED.read(reading)?.iter()? {
        let (key, _) = entry?;
        if JobOwnerKey::is_unfinished(key.value()) {
            let work = counted.entry(JobOwnerKey::user(key.value())).or_insert(none);
            work.jobs = work.jobs.saturating_add(1);
        }
    }
    for entry in BATCHES.read(reading)?.iter()? {
        let row: BatchRow = values::decode(entry?.1.value())?;
        let work = counted.entry(row.batch.user).or_insert(none);
        work.lines = work.lines.saturating_add(u64::from(row.waiting_lines()));
    }
    // A user without a count is counted by the next change.
    for entry in UNFINISHED_WORK.read(reading)?.iter()? {
        let (key, stored) = entry?;
        let (user, stored) = (account_of(key.value()), UnfinishedWork::decode(stored.value()));
        let counted = counted.get(&user).copied().unwrap_or(none);
        if stored != counted {
            add(format!("unfinished_work of user {} ({stored:?} of {counted:?})", user.0));
        }
    }
    Ok(())
}

fn check_conversations(reading: &ReadTransaction, add: &mut dyn FnMut(String)) -> Result<(), StoreError> {
    let mut counted: BTreeMap<UserId, u64> = BTreeMap::new();
    for entry in CONVERSATIONS.read(reading)?.iter()? {
        if let Some((user, ..)) = key_parts(entry?.0.value()) {
            let count = counted.entry(user).or_default();
            *count = count.saturating_add(1);
        }
    }
    let counts = CONVERSATION_COUNTS.read(reading)?;
    for (user, counted) in counted {
        let stored = counts.get(&count_key(user))?.map_or(0, |count| count.value());
        if stored != counted {
            add(format!("conversation_counts of user {} ({stored} of {counted})", user.0));
        }
    }
    Ok(())
}

fn check_files(reading: &ReadTransaction, add: &mut dyn FnMut(String)) -> Result<(), StoreError> {
    let mut counted: BTreeMap<UserId, FileTotals> = BTreeMap::new();
    for entry in FILES.read(reading)?.iter()? {
        let file: StoredFile = values::decode(entry?.1.value())?;
        let totals = counted.entry(file.user).or_default();
        totals.files = totals.files.saturating_add(1);
        totals.bytes = totals.bytes.saturating_add(file.bytes);
    }
    let images = JOB_IMAGES.read(reading)?;
    for entry in FILE_CONTENTS.read(reading)?.iter()? {
        let (content, user, holder) = content_parts(entry?.0.value());
        if let Some(bytes) = images.get(&HeldImageKey::of(holder, content).encode())? {
            let totals = counted.entry(user).or_default();
            totals.image_bytes = totals.image_bytes.saturating_add(bytes.value());
        }
    }
    let totals = FILE_TOTALS.read(reading)?;
    for (user, counted) in counted {
        let stored = FileTotals::of_user(&totals, user)?;
        if stored != counted {
            add(format!("file_totals of user {} ({stored:?} of {counted:?})", user.0));
        }
    }
    Ok(())
}
