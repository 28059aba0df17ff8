//! Chat completions that a client stored: an index of their jobs.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::ports::{CompletionPage, CompletionQuery, StoreError, StoredCompletions, Ticket};
use crate::store::redb::codec::keys::jobs::{OwnedCompletionBytes, OwnedCompletionKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::COMPLETIONS_OWNED;
use crate::store::redb::codec::values;
use crate::store::redb::jobs::read;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use std::collections::BTreeMap;
use std::ops::Bound;

impl Transaction<'_> {
    /// Lists a new job, if its answer is to be stored as a completion.
    pub(crate) fn list_completion(
        &mut self,
        user: UserId,
        job: JobId,
        spec: &JobSpec,
    ) -> Result<(), StoreError> {
        if spec.is_stored_completion {
            self.tables.completions_owned.insert(&OwnedCompletionKey { user, job }.encode(), ())?;
        }
        Ok(())
    }

    /// Takes a removed job off the list.
    pub(crate) fn unlist_completion(&mut self, user: UserId, job: JobId) -> Result<(), StoreError> {
        self.tables.completions_owned.remove(&OwnedCompletionKey { user, job }.encode())?;
        Ok(())
    }

    fn label_completion(
        &mut self,
        user: UserId,
        job: JobId,
        metadata: BTreeMap<String, String>,
    ) -> Result<Option<Job>, StoreError> {
        let key = OwnedCompletionKey { user, job }.encode();
        if self.tables.completions_owned.get(&key)?.is_none() {
            return Ok(None);
        }
        let Some(mut row) = self.find_own_row(user, job)?.filter(|row| is_complete(&row.job)) else {
            return Ok(None);
        };
        row.job.metadata = metadata;
        self.put_row(&row)?;
        Ok(Some(row.job))
    }
}

impl StoredCompletions for RedbStore {
    fn completion(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        self.read(|reading| {
            let key = OwnedCompletionKey { user, job }.encode();
            if COMPLETIONS_OWNED.read(reading)?.get(&key)?.is_none() {
                return Ok(None);
            }
            Ok(read::row(reading, job)?.map(|row| row.job).filter(is_complete))
        })
    }

    fn completions(&self, query: &CompletionQuery) -> Result<CompletionPage, StoreError> {
        self.read(|reading| page(reading, query))
    }

    fn label_completion(
        &self,
        user: UserId,
        job: JobId,
        metadata: BTreeMap<String, String>,
    ) -> Ticket<Option<Job>> {
        let bytes = metadata.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
        let options = WriteOptions::of(job).weighing(bytes);
        self.offer(options, move |transaction| transaction.label_completion(user, job, metadata.clone()))
    }
}

/// Whether the job has an answer to show.
fn is_complete(job: &Job) -> bool {
    job.status == JobStatus::Succeeded
}

fn page(reading: &ReadTransaction, query: &CompletionQuery) -> Result<CompletionPage, StoreError> {
    let user = query.user;
    let owned = COMPLETIONS_OWNED.read(reading)?;
    let (first, last) = OwnedCompletionKey::ends(user);
    let (first, last) = (first.encode(), last.encode());
    let after = query.after.map(|job| OwnedCompletionKey { user, job }.encode());
    let (mut low, mut high) = (Bound::Included(&first), Bound::Included(&last));
    if let Some(after) = &after {
        *(if query.is_newest_first { &mut high } else { &mut low }) = Bound::Excluded(after);
    }
    let mut range = owned.range::<&OwnedCompletionBytes>((low, high))?;
    let mut page = CompletionPage::default();
    while let Some(entry) = if query.is_newest_first { range.next_back() } else { range.next() } {
        let id = OwnedCompletionKey::decode(entry?.0.value()).job;
        let job = values::listed(id, read::row(reading, id))?.job;
        if !is_complete(&job) || query.model.as_ref().is_some_and(|model| *model != job.model) {
            continue;
        }
        if page.jobs.len() >= query.limit {
            page.has_more = true;
            break;
        }
        page.jobs.push(job);
    }
    Ok(page)
}
