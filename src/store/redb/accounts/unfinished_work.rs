//! How much unfinished work users have: jobs, and lines of batches that have no job yet. Each commit adds the
//! changes of its rows to the counts of their users. A user without a count (the file is of an older layout,
//! or the row was damaged) is counted by reading, once.

use crate::domain::id::{BatchId, UserId};
use crate::ports::StoreError;
use crate::store::redb::batches;
use crate::store::redb::batches::read::unstarted_lines;
use crate::store::redb::codec::keys::accounts::{UnfinishedWork, account_key};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::row_bytes::RowOwner;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{BATCH_ACTIVE, OWNED, UNFINISHED_WORK, WAITING_BATCHES};
use crate::store::redb::jobs::read::unfinished_count;
use crate::store::redb::writer::transaction::Transaction;
use std::collections::BTreeSet;

/// The unfinished work of a user, as committed.
pub(crate) fn unfinished_work(reading: &ReadTransaction, user: UserId) -> Result<UnfinishedWork, StoreError> {
    if let Some(stored) = UNFINISHED_WORK.read(reading)?.get(&account_key(user))? {
        return Ok(UnfinishedWork::decode(stored.value()));
    }
    let batches = (&BATCH_ACTIVE.read(reading)?, &WAITING_BATCHES.read(reading)?);
    let find = |batch: BatchId| batches::read::row(reading, batch);
    Ok(UnfinishedWork {
        jobs: unfinished_count(&OWNED.read(reading)?, user)?,
        lines: unstarted_lines(batches, find, user)?,
    })
}

impl Transaction<'_> {
    /// The unfinished work of a user, with the changes of this transaction so far.
    pub(crate) fn unfinished_work(&self, user: UserId) -> Result<UnfinishedWork, StoreError> {
        let tables = &self.tables;
        let owner = RowOwner::User(user);
        if let Some(stored) = tables.unfinished_work.get(&account_key(user))? {
            let UnfinishedWork { jobs, lines } = UnfinishedWork::decode(stored.value());
            return Ok(UnfinishedWork {
                jobs: jobs.saturating_add_signed(tables.job_changes.of(owner)),
                lines: lines.saturating_add_signed(self.waiting_lines.of(owner)),
            });
        }
        let batches = (&tables.batch_active, &tables.waiting_batches);
        Ok(UnfinishedWork {
            jobs: unfinished_count(&tables.owned, user)?,
            lines: unstarted_lines(batches, |batch| self.find_batch(batch), user)?,
        })
    }

    /// Adds the changes of this transaction to the counts of the users.
    pub(crate) fn count_unfinished_work(&mut self) -> Result<(), StoreError> {
        let (jobs, lines) = (self.tables.job_changes.so_far(), self.waiting_lines.so_far());
        let changed: BTreeSet<UserId> = jobs
            .into_iter()
            .chain(lines)
            .filter_map(|(owner, change)| match owner {
                RowOwner::User(user) if change != 0 => Some(user),
                _ => None,
            })
            .collect();
        let counts: Vec<_> = changed
            .into_iter()
            .map(|user| Ok((user, self.unfinished_work(user)?)))
            .collect::<Result<_, StoreError>>()?;
        for (user, work) in counts {
            self.tables.unfinished_work.insert(&account_key(user), &work.encode())?;
        }
        self.tables.job_changes.take();
        self.waiting_lines.take();
        Ok(())
    }
}
