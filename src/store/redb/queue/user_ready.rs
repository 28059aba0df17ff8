//! The order of ready jobs when users share the workers: the user with the fewest running jobs goes first.
//! The table `ready_by_user` repeats the ready queue user by user, so that a claim passes a long queue of a
//! user who may not run more. A store whose workers are not shared leaves the table empty.

use crate::domain::fair_share::{FairShare, Holdings};
use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{ReadyEntry, ReadyKey, UserReadyBytes, UserReadyKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::queue::ready::RankedJob;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::JobRow;

impl Transaction<'_> {
    /// Enters a ready job under its user.
    pub(crate) fn add_user_ready(
        &mut self,
        row: &JobRow,
        key: ReadyKey,
        entry: ReadyEntry,
    ) -> Result<(), StoreError> {
        if self.bounds.share.is_some() {
            let key = UserReadyKey::of(row.job.user, key);
            self.tables.ready_by_user.insert(&key.encode(), &entry.encode())?;
        }
        Ok(())
    }

    /// Removes a job that left the ready queue.
    pub(crate) fn remove_user_ready(&mut self, row: &JobRow, key: ReadyKey) -> Result<(), StoreError> {
        if self.bounds.share.is_some() {
            self.tables.ready_by_user.remove(&UserReadyKey::of(row.job.user, key).encode())?;
        }
        Ok(())
    }

    /// The next job under this share: of the users with the fewest running jobs, the first in rank. `None`:
    /// no waiting user may run another job now.
    pub(crate) fn next_by_share(&mut self, share: FairShare) -> Result<Option<RankedJob>, StoreError> {
        let Some(first) = self.first_in_rank()? else { return Ok(None) };
        let owner = match self.row(first.entry.job) {
            Ok(row) => row.job.user,
            // The claim finds the same fault and sets the job aside.
            Err(StoreError::Corrupt(_)) => return Ok(Some(first)),
            Err(error) => return Err(error),
        };
        let running = self.running_jobs.take().unwrap_or_else(|| self.count_running_jobs());
        let next = match running.of(owner) {
            // Nobody runs fewer.
            0 => Some((owner, first)),
            _ => self.next_of_fewest(&running)?,
        };
        let (user, next) = next.unwrap_or((owner, first));
        let is_admitted = share.admits(running.of(user), running.total());
        self.running_jobs = Some(running);
        if !is_admitted {
            return Ok(None);
        }
        self.tables.ready_by_user.remove(&UserReadyKey::of(user, next.key).encode())?;
        Ok(Some(next))
    }

    /// Of the users with the fewest running jobs, the first job in rank.
    fn next_of_fewest(
        &mut self,
        running: &Holdings<UserId>,
    ) -> Result<Option<(UserId, RankedJob)>, StoreError> {
        while let Some((user, next)) = self.least_of_users(running)? {
            if self.tables.ready.get(&next.key.encode())?.is_some() {
                return Ok(Some((user, next)));
            }
            // A job that could not be read was set aside, and its user was unknown.
            self.tables.ready_by_user.remove(&UserReadyKey::of(user, next.key).encode())?;
        }
        Ok(None)
    }

    /// Looks at the first job of each user and priority.
    fn least_of_users(&self, running: &Holdings<UserId>) -> Result<Option<(UserId, RankedJob)>, StoreError> {
        let mut best: Option<(usize, RankedJob, UserId)> = None;
        let mut from: UserReadyBytes = [0; 21];
        while let Some((key, entry)) =
            self.tables.ready_by_user.range::<&UserReadyBytes>(&from..)?.next().transpose()?
        {
            let key = UserReadyKey::decode(key.value());
            let ranked = self.ranked(key.ready(), ReadyEntry::decode(entry.value()));
            let candidate = (running.of(key.user), ranked, key.user);
            if best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
            let Some(next) = key.next_priority() else { break };
            from = next.encode();
        }
        Ok(best.map(|(_, ranked, user)| (user, ranked)))
    }

    /// Makes `ready_by_user` fit the ready queue: an earlier server may have run without shares.
    pub(crate) fn index_ready_jobs(&mut self) -> Result<(), StoreError> {
        let is_shared = self.bounds.share.is_some();
        let wanted = if is_shared { self.tables.ready.len()? } else { 0 };
        if self.tables.ready_by_user.len()? == wanted {
            return Ok(());
        }
        self.mark_dirty();
        self.tables.ready_by_user.retain(|_, _| false)?;
        if !is_shared {
            return Ok(());
        }
        let ready: Vec<_> = self
            .tables
            .ready
            .iter()?
            .map(|entry| {
                entry.map(|(key, job)| (ReadyKey::decode(key.value()), ReadyEntry::decode(job.value())))
            })
            .collect::<Result<_, _>>()?;
        for (key, entry) in ready {
            match self.row(entry.job) {
                Ok(row) => self.add_user_ready(&row, key, entry)?,
                // The claim sets it aside.
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
