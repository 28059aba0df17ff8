//! The port [`Schedules`] on the store, and its reads.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::Job;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{
    FiredSchedules, ScheduleError, SchedulePage, ScheduleQuery, ScheduleStatus, Schedules, StoreError, Ticket,
};
use crate::store::redb::codec::keys::schedules::{ScheduleDueKey, ScheduleOwnerBytes, ScheduleOwnerKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::{ReadableTable, TypedTable};
use crate::store::redb::codec::tables::{SCHEDULED_REQUESTS, SCHEDULES, SCHEDULES_DUE, SCHEDULES_OWNED};
use crate::store::redb::codec::values;
use crate::store::redb::jobs::read;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::weight::spec_bytes;
use serde::de::DeserializeOwned;
use std::ops::Bound;

pub(crate) mod write;

impl Schedules for RedbStore {
    fn put(
        &self,
        schedule: Schedule,
        order: ScheduledRequest,
        limit: u64,
    ) -> Ticket<Schedule, ScheduleError> {
        // The request is stored twice: as validated and as given.
        let options = WriteOptions::default().weighing(spec_bytes(&order.spec).saturating_mul(2));
        self.offer(options, move |transaction| transaction.add_schedule(&schedule, &order, limit))
    }

    fn remove(&self, user: UserId, id: ScheduleId) -> Ticket<bool> {
        self.offer(WriteOptions::default(), move |transaction| transaction.remove_schedule(user, id))
    }

    fn set_paused(&self, user: UserId, id: ScheduleId, is_paused: bool) -> Ticket<bool> {
        self.offer(WriteOptions::default(), move |transaction| {
            transaction.pause_schedule(user, id, is_paused)
        })
    }

    fn run_now(&self, user: UserId, id: ScheduleId, fresh_id: JobId) -> Ticket<Option<Job>, ScheduleError> {
        self.offer(WriteOptions::of(fresh_id), move |transaction| {
            transaction.run_schedule(user, id, fresh_id)
        })
    }

    fn fire_due(&self, fresh_ids: Vec<JobId>) -> Ticket<FiredSchedules> {
        let options = WriteOptions { jobs: fresh_ids.clone(), ..WriteOptions::default() };
        self.push(options, move |transaction| transaction.fire_due_schedules(&fresh_ids))
    }

    fn rearm(&self) -> Ticket<u64> {
        self.push(WriteOptions::default(), write::rearm_schedules)
    }

    fn schedule(
        &self,
        user: UserId,
        id: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError> {
        self.read(|reading| {
            let Some(schedule) = get::<Schedule>(reading, SCHEDULES, id)?.filter(|found| found.user == user)
            else {
                return Ok(None);
            };
            let order = get(reading, SCHEDULED_REQUESTS, id)?;
            let order = order.ok_or_else(|| StoreError::Corrupt(format!("{id} asks for nothing")))?;
            Ok(Some((with_last_status(reading, schedule)?, order)))
        })
    }

    fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
        self.read(|reading| page(reading, query))
    }

    fn next_run_ms(&self) -> Result<Option<u64>, StoreError> {
        self.read(|reading| {
            let due = SCHEDULES_DUE.read(reading)?.skipping_damaged();
            Ok(due.first()?.map(|(key, _)| ScheduleDueKey::decode(key.value()).due_ms))
        })
    }
}

fn page(reading: &ReadTransaction, query: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
    let mut page = SchedulePage { schedules: Vec::new(), has_more: false };
    let owned = SCHEDULES_OWNED.read(reading)?;
    let (first, last) = ScheduleOwnerKey::ends(query.user);
    let (first, last) = (first.encode(), last.encode());
    let before = query.before.map(|id| ScheduleOwnerKey { user: query.user, id }.encode());
    let end = before.as_ref().map_or(Bound::Included(&last), Bound::Excluded);
    for entry in owned.range::<&ScheduleOwnerBytes>((Bound::Included(&first), end))?.rev() {
        if page.schedules.len() >= query.limit {
            page.has_more = true;
            break;
        }
        let key = entry.map(|(key, _)| ScheduleOwnerKey::decode(key.value()))?;
        let schedule = values::listed(key.id, get(reading, SCHEDULES, key.id))?;
        page.schedules.push(with_last_status(reading, schedule)?);
    }
    Ok(page)
}

fn with_last_status(reading: &ReadTransaction, schedule: Schedule) -> Result<ScheduleStatus, StoreError> {
    let last_status = match schedule.last_job {
        Some(job) => read::row(reading, job)?.map(|row| row.job.status),
        None => None,
    };
    Ok(ScheduleStatus { schedule, last_status })
}

fn get<T: DeserializeOwned>(
    reading: &ReadTransaction,
    table: TypedTable<&'static [u8; 16], &'static [u8]>,
    id: ScheduleId,
) -> Result<Option<T>, StoreError> {
    table.read(reading)?.row(&id.to_bytes())
}
