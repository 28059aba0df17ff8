//! The port [`StoredFiles`] on the store, and its reads.

use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{ContentDigest, StoredFile};
use crate::ports::{StoreError, StoredFileError, StoredFilePage, StoredFileQuery, StoredFiles, Ticket};
use crate::store::redb::codec::keys::accounts::{AccountBytes, account_key};
use crate::store::redb::codec::keys::stored_files::{OwnedFileBytes, OwnedFileKey};
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{FILE_TOTALS, FILES};
use crate::store::redb::codec::values;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::file_totals::FileTotals;
use std::ops::Bound;

pub(crate) mod images;
pub(crate) mod write;

impl FileTotals {
    /// Of a user.
    pub(crate) fn of_user(
        totals: &impl ReadableTable<&'static AccountBytes, RawBytes>,
        user: UserId,
    ) -> Result<Self, StoreError> {
        let found = totals.get(&account_key(user))?;
        Ok(found.map(|bytes| values::decode(bytes.value())).transpose()?.unwrap_or_default())
    }
}

impl StoredFiles for RedbStore {
    fn add_file(&self, file: StoredFile) -> Ticket<StoredFile, StoredFileError> {
        let options = WriteOptions::default().weighing(file.name.len());
        self.offer(options, move |transaction| transaction.add_file(&file))
    }

    fn delete_file(&self, user: UserId, id: FileId) -> Ticket<Option<StoredFile>> {
        self.offer(WriteOptions::default(), move |transaction| transaction.delete_file(user, id))
    }

    fn unused_contents(&self, contents: Vec<ContentDigest>) -> Ticket<Vec<ContentDigest>> {
        // A damaged key may hide a row, so nothing counts as unused.
        if self.shared.damage.count() > 0 {
            return Ticket::resolved(Ok(Vec::new()));
        }
        self.push(WriteOptions::default(), move |transaction| transaction.unused_contents(&contents))
    }

    fn check_room(&self, user: UserId, bytes: u64) -> Result<(), StoredFileError> {
        if let Some(space) = self.shared.medium.space() {
            self.shared.mark.check(space, bytes)?;
        }
        let totals = self.read(|reading| FileTotals::of_user(&FILE_TOTALS.read(reading)?, user))?;
        totals.admit(bytes, &self.shared.bounds)
    }

    fn file(&self, user: UserId, id: FileId) -> Result<Option<StoredFile>, StoreError> {
        self.read(|reading| FILES.read(reading)?.row(&OwnedFileKey { user, id }.encode()))
    }

    fn files(&self, query: &StoredFileQuery) -> Result<StoredFilePage, StoreError> {
        self.read(|reading| page(reading, query))
    }
}

fn page(reading: &ReadTransaction, query: &StoredFileQuery) -> Result<StoredFilePage, StoreError> {
    let StoredFileQuery { user, purpose, after, is_newest_first, limit } = *query;
    let rows = FILES.read(reading)?;
    let (first, last) = OwnedFileKey::ends(user);
    let (first, last) = (first.encode(), last.encode());
    let after = after.map(|id| OwnedFileKey { user, id }.encode());
    let (mut low, mut high) = (Bound::Included(&first), Bound::Included(&last));
    if let Some(after) = &after {
        *(if is_newest_first { &mut high } else { &mut low }) = Bound::Excluded(after);
    }
    let mut range = rows.range::<&OwnedFileBytes>((low, high))?;
    let mut page = StoredFilePage { files: Vec::new(), has_more: false };
    while let Some(entry) = if is_newest_first { range.next_back() } else { range.next() } {
        let (key, bytes) = entry?;
        let id = OwnedFileKey::decode(key.value()).id;
        let file: StoredFile = values::listed(id, values::decode(bytes.value()).map(Some))?;
        if purpose.is_some_and(|purpose| purpose != file.purpose) {
            continue;
        }
        if page.files.len() >= limit {
            page.has_more = true;
            break;
        }
        page.files.push(file);
    }
    Ok(page)
}
