//! Writes files: the row, its place in the lists by expiry and by content, and the totals of its owner.

use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{ContentDigest, StoredFile};
use crate::ports::{NewWork, StoreError, StoredFileError};
use crate::store::redb::codec::keys::accounts::account_key;
use crate::store::redb::codec::keys::stored_files::{
    FileContentBytes, FileExpiryBytes, FileExpiryKey, OwnedFileKey, content_ends, content_key,
};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::file_totals::FileTotals;

/// Expired files that one transaction removes.
const SWEEP_FILES: usize = 200;

impl Transaction<'_> {
    /// Stores a new file.
    pub(crate) fn add_file(&mut self, file: &StoredFile) -> Result<StoredFile, StoredFileError> {
        self.refuse_low_disk()?;
        self.file_totals(file.user)?.admit(file.bytes, &self.bounds)?;
        self.admit_work::<StoredFileError>(file.user, NewWork { jobs: 0, bytes: file.bytes })?;
        Ok(self.put_file(file)?)
    }

    /// Stores a new file that the server itself made; no limit refuses it.
    pub(crate) fn put_file(&mut self, file: &StoredFile) -> Result<StoredFile, StoreError> {
        let (user, totals) = (file.user, self.file_totals(file.user)?);
        let at_most_ms = self.bounds.files_ms.map(|age_ms| file.created_at_ms.saturating_add(age_ms));
        let expires_at_ms = file.expires_at_ms.into_iter().chain(at_most_ms).min();
        let file = StoredFile { expires_at_ms, ..file.clone() };
        self.put_file_totals(
            user,
            FileTotals {
                files: totals.files.saturating_add(1),
                bytes: totals.bytes.saturating_add(file.bytes),
                ..totals
            },
        )?;
        let tables = &mut self.tables;
        tables.files.put_row(&OwnedFileKey { user, id: file.id }.encode(), &file)?;
        tables.file_contents.insert(&key_of_content(&file), [].as_slice())?;
        if let Some(at_ms) = expires_at_ms {
            tables.files_expiring.insert(&FileExpiryKey { at_ms, user, id: file.id }.encode(), ())?;
        }
        self.mark_dirty();
        Ok(file)
    }

    /// Deletes a file, if the user has it.
    pub(crate) fn delete_file(&mut self, user: UserId, id: FileId) -> Result<Option<StoredFile>, StoreError> {
        let found: Option<StoredFile> = self.tables.files.row(&OwnedFileKey { user, id }.encode())?;
        if let Some(file) = &found {
            self.remove_file(file)?;
        }
        Ok(found)
    }

    /// Those of the contents that no file has.
    pub(crate) fn unused_contents(
        &mut self,
        contents: &[ContentDigest],
    ) -> Result<Vec<ContentDigest>, StoreError> {
        let mut unused = Vec::new();
        for content in contents {
            let (first, last) = content_ends(*content);
            let mut files = self.tables.file_contents.range::<&FileContentBytes>(&first..=&last)?;
            if files.next().transpose()?.is_none() {
                unused.push(*content);
            }
        }
        Ok(unused)
    }

    /// Removes some files that have expired. Returns whether there may be more.
    pub(crate) fn forget_expired_files(&mut self, now_ms: u64) -> Result<bool, StoreError> {
        let before = FileExpiryKey { at_ms: now_ms, user: UserId(0), id: FileId::from_bits(0) }.encode();
        let mut due = Vec::new();
        for entry in self.tables.files_expiring.range::<&FileExpiryBytes>(..&before)?.take(SWEEP_FILES) {
            due.push(FileExpiryKey::decode(entry?.0.value()));
        }
        for key in &due {
            let FileExpiryKey { user, id, .. } = *key;
            self.tables.files_expiring.remove(&key.encode())?;
            self.mark_dirty();
            match self.delete_file(user, id) {
                // It stays, and does not block the others.
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(file = %id, reason, "expired file cannot be read; retention skips it");
                }
                deleted => drop(deleted?),
            }
        }
        Ok(due.len() >= SWEEP_FILES)
    }

    fn remove_file(&mut self, file: &StoredFile) -> Result<(), StoreError> {
        let (user, id) = (file.user, file.id);
        let totals = self.file_totals(user)?;
        self.put_file_totals(
            user,
            FileTotals {
                files: totals.files.saturating_sub(1),
                bytes: totals.bytes.saturating_sub(file.bytes),
                ..totals
            },
        )?;
        let tables = &mut self.tables;
        if let Some(at_ms) = file.expires_at_ms {
            tables.files_expiring.remove(&FileExpiryKey { at_ms, user, id }.encode())?;
        }
        tables.file_contents.remove(&key_of_content(file))?;
        tables.files.remove(&OwnedFileKey { user, id }.encode())?;
        self.mark_dirty();
        Ok(())
    }

    pub(crate) fn file_totals(&self, user: UserId) -> Result<FileTotals, StoreError> {
        FileTotals::of_user(&self.tables.file_totals, user)
    }

    pub(crate) fn put_file_totals(&mut self, user: UserId, totals: FileTotals) -> Result<(), StoreError> {
        self.tables.file_totals.put_row(&account_key(user), &totals)?;
        Ok(())
    }
}

fn key_of_content(file: &StoredFile) -> FileContentBytes {
    content_key(file.content, file.user, file.id)
}
