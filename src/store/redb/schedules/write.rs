//! Writes schedules. An occurrence becomes a job and the schedule advances in one transaction, so that a
//! crash neither loses nor doubles it.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::Job;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{FiredSchedules, NewWork, ScheduleError, StoreError};
use crate::store::redb::codec::keys::schedules::{ScheduleDueKey, ScheduleOwnerBytes, ScheduleOwnerKey};
use crate::store::redb::codec::row_bytes::RowOwner;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::schedule::{ScheduleAdmission, count_last_job, scheduled_job, token_day};
use crate::store::rows::weight::{image_bytes, spec_bytes};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

impl Transaction<'_> {
    /// Stores a new schedule.
    pub(crate) fn add_schedule(
        &mut self,
        schedule: &Schedule,
        order: &ScheduledRequest,
        limit: u64,
    ) -> Result<Schedule, ScheduleError> {
        self.refuse_low_disk()?;
        let (id, user) = (schedule.id, schedule.user);
        let (first, last) = ScheduleOwnerKey::ends(user);
        let tables = &mut self.tables;
        let mut count = 0_u64;
        for entry in tables.schedules_owned.range::<&ScheduleOwnerBytes>(&first.encode()..=&last.encode())? {
            entry?;
            count = count.saturating_add(1);
        }
        if count >= limit {
            return Err(ScheduleError::SchedulesFull { limit });
        }
        if schedule.model_tokens.is_some() {
            let limit = self.bounds.model_schedules;
            let of_models = u64::try_from(self.model_schedules(user)?.len()).unwrap_or(u64::MAX);
            if of_models >= limit {
                return Err(ScheduleError::ModelSchedulesFull { limit });
            }
        }
        let tables = &mut self.tables;
        if tables.scheduled_requests.put_row(&id.to_bytes(), order)? {
            return Err(StoreError::Corrupt(format!("{id} was stored before")).into());
        }
        tables.schedules_owned.insert(&ScheduleOwnerKey { user, id }.encode(), ())?;
        self.keep_images(user, id.into(), &order.spec.input)?;
        self.put_schedule(schedule, None)?;
        Ok(schedule.clone())
    }
}

impl Transaction<'_> {
    /// Removes a schedule of a user.
    pub(crate) fn remove_schedule(&mut self, user: UserId, id: ScheduleId) -> Result<bool, StoreError> {
        // An unreadable schedule is removed as well; firing removes its due entry later.
        let due = match self.schedule(id) {
            Ok(schedule) => schedule.and_then(|schedule| schedule.next_run_ms),
            Err(StoreError::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        let tables = &mut self.tables;
        if tables.schedules_owned.remove(&ScheduleOwnerKey { user, id }.encode())?.is_none() {
            return Ok(false);
        }
        if let Some(due_ms) = due {
            tables.schedules_due.remove(&ScheduleDueKey { due_ms, id }.encode())?;
        }
        tables.schedules.remove(&id.to_bytes())?;
        tables.scheduled_requests.remove(&id.to_bytes())?;
        self.release_images(user, id.into())?;
        self.set_row_owner(RowOwner::Schedule(id), user);
        self.mark_dirty();
        Ok(true)
    }
}

impl Transaction<'_> {
    /// The schedule, if it is this user's (P7).
    fn find_own_schedule(&self, user: UserId, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        Ok(self.schedule(id)?.filter(|found| found.user == user))
    }

    /// Pauses a schedule of a user, or lets it go on.
    pub(crate) fn pause_schedule(
        &mut self,
        user: UserId,
        id: ScheduleId,
        is_paused: bool,
    ) -> Result<bool, StoreError> {
        let Some(mut schedule) = self.find_own_schedule(user, id)? else { return Ok(false) };
        let due = schedule.next_run_ms.map(|due_ms| ScheduleDueKey { due_ms, id });
        if schedule.set_paused(is_paused, self.now_ms) {
            self.put_schedule(&schedule, due)?;
        }
        Ok(true)
    }

    /// Creates a job of a schedule with this id now. Its next occurrence stays as it is.
    pub(crate) fn run_schedule(
        &mut self,
        user: UserId,
        id: ScheduleId,
        fresh: JobId,
    ) -> Result<Option<Job>, ScheduleError> {
        let Some(mut schedule) = self.find_own_schedule(user, id)? else { return Ok(None) };
        let Some(order) = self.scheduled_request(id)? else {
            return Err(StoreError::Corrupt(format!("{id} asks for nothing")).into());
        };
        let ScheduleAdmission::Allowed { remaining_tokens } = self.admit_model_schedule(&mut schedule)?
        else {
            return Err(ScheduleError::ModelScheduleHeld);
        };
        let new = scheduled_job(fresh, &schedule, order, (remaining_tokens, self.now_ms));
        let job = self.submit_jobs(std::slice::from_ref(&new))?.pop();
        let due = schedule.next_run_ms.map(|due_ms| ScheduleDueKey { due_ms, id });
        schedule.run_now(fresh, self.now_ms);
        self.put_schedule(&schedule, due)?;
        Ok(job)
    }
}

impl Transaction<'_> {
    /// Creates jobs with these ids for due schedules.
    pub(crate) fn fire_due_schedules(&mut self, fresh_ids: &[JobId]) -> Result<FiredSchedules, StoreError> {
        let mut fired = FiredSchedules::default();
        let mut quotas = HashMap::new();
        for fresh in fresh_ids {
            let Some((key, mut schedule, order)) = self.next_due_schedule()? else { break };
            if self.check_queue_limit(1, |_| StoreError::Full).is_err() {
                fired.is_blocked = true;
                break;
            }
            let created_at_ms = self.now_ms;
            if self.tables.is_disabled(schedule.user, created_at_ms)? {
                schedule.pass(key.due_ms, created_at_ms);
                self.put_schedule(&schedule, Some(key))?;
                continue;
            }
            let quota = match quotas.entry(schedule.user) {
                Entry::Occupied(counted) => counted.into_mut(),
                Entry::Vacant(place) => place.insert(self.work_quota(schedule.user)?),
            };
            let new = NewWork::job(spec_bytes(&order.spec).saturating_add(image_bytes(&order.spec.input)));
            if let Err(refusal) = quota.admit(new, created_at_ms) {
                if schedule.skip(key.due_ms, refusal.kind(), created_at_ms) {
                    fired.over_quota.push((schedule.id, refusal));
                }
                self.put_schedule(&schedule, Some(key))?;
                continue;
            }
            let ScheduleAdmission::Allowed { remaining_tokens } = self.admit_model_schedule(&mut schedule)?
            else {
                schedule.pass(key.due_ms, created_at_ms);
                self.put_schedule(&schedule, Some(key))?;
                fired.skipped.push(schedule.id);
                continue;
            };
            self.accept(&scheduled_job(*fresh, &schedule, order, (remaining_tokens, created_at_ms)))?;
            quota.add(new);
            schedule.fire(key.due_ms, *fresh, created_at_ms);
            self.put_schedule(&schedule, Some(key))?;
            fired.jobs.push((schedule.id, *fresh));
        }
        Ok(fired)
    }
}

impl Transaction<'_> {
    /// The readable schedules of a user that models have made.
    fn model_schedules(&self, user: UserId) -> Result<Vec<Schedule>, StoreError> {
        let (first, last) = ScheduleOwnerKey::ends(user);
        let (first, last) = (first.encode(), last.encode());
        let mut found = Vec::new();
        for entry in self.tables.schedules_owned.range::<&ScheduleOwnerBytes>(&first..=&last)? {
            let id = ScheduleOwnerKey::decode(entry?.0.value()).id;
            match self.schedule(id) {
                Ok(schedule) => found.extend(schedule.filter(|schedule| schedule.model_tokens.is_some())),
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// A schedule of a model runs neither beside its last job nor when its user's daily tokens for such jobs
    /// are spent.
    fn admit_model_schedule(&self, schedule: &mut Schedule) -> Result<ScheduleAdmission, StoreError> {
        if schedule.model_tokens.is_none() {
            return Ok(ScheduleAdmission::UNLIMITED);
        }
        if let Some(last) = schedule.last_job {
            let row = self.find_readable_row(last)?;
            if !count_last_job(schedule, row.as_ref(), self.now_ms) {
                return Ok(ScheduleAdmission::Skipped);
            }
        }
        let limit = self.bounds.model_schedule_tokens;
        if limit == 0 {
            return Ok(ScheduleAdmission::UNLIMITED);
        }
        let day = token_day(self.now_ms);
        let others = self.model_schedules(schedule.user)?.into_iter().filter(|other| other.id != schedule.id);
        let all = others.filter_map(|other| other.model_tokens).chain(schedule.model_tokens);
        let spent = all.fold(0, |spent: u64, tokens| spent.saturating_add(tokens.on(day)));
        Ok(ScheduleAdmission::within(limit, spent))
    }

    pub(crate) fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        self.tables.schedules.row(&id.to_bytes())
    }

    fn scheduled_request(&self, id: ScheduleId) -> Result<Option<ScheduledRequest>, StoreError> {
        self.tables.scheduled_requests.row(&id.to_bytes())
    }

    /// Writes a schedule and updates its entry among the due schedules.
    fn put_schedule(&mut self, schedule: &Schedule, last: Option<ScheduleDueKey>) -> Result<(), StoreError> {
        let tables = &mut self.tables;
        if let Some(last) = last {
            tables.schedules_due.remove(&last.encode())?;
        }
        if let Some(due_ms) = schedule.next_run_ms {
            tables.schedules_due.insert(&ScheduleDueKey { due_ms, id: schedule.id }.encode(), ())?;
        }
        tables.schedules.put_row(&schedule.id.to_bytes(), schedule)?;
        self.mark_dirty();
        Ok(())
    }

    /// The first due schedule. An unreadable one never fires again, so that it does not block the others.
    fn next_due_schedule(
        &mut self,
    ) -> Result<Option<(ScheduleDueKey, Schedule, ScheduledRequest)>, StoreError> {
        loop {
            let first = self.tables.schedules_due.first()?;
            let Some(key) = first.map(|(key, _)| ScheduleDueKey::decode(key.value())) else {
                return Ok(None);
            };
            if key.due_ms > self.now_ms {
                return Ok(None);
            }
            let read =
                self.schedule(key.id).and_then(|schedule| Ok((schedule, self.scheduled_request(key.id)?)));
            match read {
                Ok((Some(schedule), Some(order))) => return Ok(Some((key, schedule, order))),
                Ok(_) => {
                    tracing::error!(schedule = %key.id, "due schedule is missing; it never fires");
                }
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(schedule = %key.id, reason, "schedule cannot be read; it never fires again");
                }
                Err(error) => return Err(error),
            }
            self.tables.schedules_due.remove(&key.encode())?;
            self.mark_dirty();
        }
    }
}

/// Recomputes the next runs after the wall clock went back.
pub(crate) fn rearm_schedules(transaction: &mut Transaction<'_>) -> Result<u64, StoreError> {
    let due = transaction.tables.schedules_due.iter()?;
    let keys: Vec<_> = due
        .map(|entry| entry.map(|(key, _)| ScheduleDueKey::decode(key.value())))
        .collect::<Result<_, _>>()?;
    let mut count = 0_u64;
    for key in keys {
        // An unreadable schedule is dropped when it is due.
        let Ok(Some(mut schedule)) = transaction.schedule(key.id) else { continue };
        if schedule.rearm(transaction.now_ms) {
            transaction.put_schedule(&schedule, Some(key))?;
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}
