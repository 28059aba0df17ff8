//! How many bytes users keep in the store. A commit adds the changes of its rows to the sums of their users,
//! in its own transaction. A store whose quotas do not hold keeps no sums; the next open with quotas reads
//! all rows once.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::accounts::{AccountBytes, account_key};
use crate::store::redb::codec::keys::batches::OwnedBatchKey;
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::row_bytes::RowOwner;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::META_STORED_BYTES;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::file_totals::FileTotals;
use std::collections::HashMap;

/// All bytes of a user: rows, and contents of uploaded files.
pub(crate) fn with_files(
    sums: &impl ReadableTable<&'static AccountBytes, u64>,
    totals: &impl ReadableTable<&'static AccountBytes, RawBytes>,
    user: UserId,
) -> Result<u64, StoreError> {
    Ok(of_user(sums, user)?.saturating_add(FileTotals::of_user(totals, user)?.all_bytes()))
}

/// The bytes of a user's rows.
fn of_user(sums: &impl ReadableTable<&'static AccountBytes, u64>, user: UserId) -> Result<u64, StoreError> {
    Ok(sums.get(&account_key(user))?.map_or(0, |sum| sum.value()))
}

impl Transaction<'_> {
    /// All bytes of a user; those of rows as before this transaction.
    pub(crate) fn stored_bytes_with_files(&self, user: UserId) -> Result<u64, StoreError> {
        with_files(&self.tables.stored_bytes, &self.tables.file_totals, user)
    }

    /// The bytes of a user's rows before this transaction.
    fn stored_bytes(&self, user: UserId) -> Result<u64, StoreError> {
        of_user(&self.tables.stored_bytes, user)
    }

    /// Remembers the owner of rows, so that [`Transaction::count_stored_bytes`] need not read it.
    pub(crate) fn set_row_owner(&mut self, owner: RowOwner, user: UserId) {
        if self.bounds.has_quotas {
            self.row_owners.insert(owner, user);
        }
    }

    /// Adds the changes of this transaction to the sums of the users.
    pub(crate) fn count_stored_bytes(&mut self) -> Result<(), StoreError> {
        let changes = self.tables.take_byte_changes();
        if !self.bounds.has_quotas {
            return Ok(());
        }
        let mut of_users: HashMap<UserId, i64> = HashMap::new();
        for (owner, change) in changes {
            if let Some(user) = self.user_of(owner)? {
                let sum = of_users.entry(user).or_default();
                *sum = sum.saturating_add(change);
            }
        }
        for (user, change) in of_users.into_iter().filter(|(_, change)| *change != 0) {
            let sum = self.stored_bytes(user)?.saturating_add_signed(change);
            self.tables.stored_bytes.insert(&account_key(user), &sum)?;
        }
        Ok(())
    }

    /// Makes the sums fit: an earlier server may have run without quotas. The first change of a recovery.
    pub(crate) fn prepare_stored_bytes(&mut self) -> Result<(), StoreError> {
        let has_sums = self.tables.meta.get(META_STORED_BYTES)?.is_some();
        if has_sums == self.bounds.has_quotas {
            return Ok(());
        }
        self.mark_dirty();
        self.tables.stored_bytes.retain(|_, _| false)?;
        if has_sums {
            self.tables.meta.remove(META_STORED_BYTES)?;
            return Ok(());
        }
        self.tables.meta.insert(META_STORED_BYTES, [].as_slice())?;
        let began_ms = self.clock.monotonic_ms();
        self.own_batches()?;
        let mut sums: HashMap<UserId, u64> = HashMap::new();
        self.tables.count_bytes(&mut |owner, bytes| {
            if let Some(user) = self.user_of(owner)? {
                let sum = sums.entry(user).or_default();
                *sum = sum.saturating_add(bytes);
            }
            Ok(())
        })?;
        for (user, sum) in &sums {
            self.tables.stored_bytes.insert(&account_key(*user), sum)?;
        }
        if !sums.is_empty() {
            let took_ms = self.clock.monotonic_ms().saturating_sub(began_ms);
            tracing::info!(users = sums.len(), took_ms, "counted the stored bytes of users");
        }
        Ok(())
    }

    /// Writes the missing owners of accepted batches.
    fn own_batches(&mut self) -> Result<(), StoreError> {
        for entry in self.tables.batches_owned.iter()? {
            let OwnedBatchKey { user, batch } = OwnedBatchKey::decode(entry?.0.value());
            self.tables.batch_owners.insert(&batch.to_bytes(), &user.0)?;
        }
        Ok(())
    }

    /// The user that a row belongs to; `None` when nothing readable says so.
    fn user_of(&self, owner: RowOwner) -> Result<Option<UserId>, StoreError> {
        if let Some(user) = self.row_owners.get(&owner) {
            return Ok(Some(*user));
        }
        let found = match owner {
            RowOwner::User(user) => return Ok(Some(user)),
            RowOwner::Batch(batch) => {
                return Ok(self.tables.batch_owners.get(&batch.to_bytes())?.map(|user| UserId(user.value())));
            }
            RowOwner::Job(job) => self.find_row(job).map(|row| row.map(|row| row.job.user)),
            RowOwner::Schedule(id) => self.schedule(id).map(|found| found.map(|schedule| schedule.user)),
        };
        match found {
            Err(StoreError::Corrupt(_)) => Ok(None),
            found => found,
        }
    }
}
