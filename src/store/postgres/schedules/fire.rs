//! Makes jobs of due schedules. Several nodes do so at once: a node locks the due schedules that it takes and
//! skips those that others have locked, and an occurrence becomes a job in the transaction that moves its
//! schedule on.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::schedule::{CLOCK_SLACK_MS, Schedule, ScheduledRequest};
use crate::ports::{FiredSchedules, NewWork, StoreError, WorkQuota};
use crate::store::postgres::accounts::quota::UnfinishedWork;
use crate::store::postgres::jobs::row::find;
use crate::store::postgres::schedules::row;
use crate::store::postgres::session::{Columns, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::schedule::{ScheduleAdmission, count_last_job, scheduled_job, token_day};
use crate::store::rows::weight::{image_bytes, spec_bytes};
use std::collections::HashMap;
use std::mem;
use tokio_postgres::Row;

/// A due schedule whose row is locked.
struct DueSchedule {
    schedule: Schedule,
    order: ScheduledRequest,
    due_ms: u64,
}

/// Whether the schedules of a user may fire.
#[derive(Clone, Copy)]
enum ScheduleOwner {
    Disabled,
    /// Another node fires schedules of this user, whose jobs are limited: they stay due.
    CountedElsewhere,
    /// With what is used of the quota, jobs of this transaction included.
    Active(WorkQuota),
}

/// What one transaction has fired so far.
#[derive(Default)]
struct FiringRound {
    fired: FiredSchedules,
    owners: HashMap<UserId, ScheduleOwner>,
    /// Schedules that have moved on and are not written yet.
    moved: Vec<Schedule>,
}

impl Act<'_> {
    /// Creates jobs with these ids for due schedules.
    pub(crate) async fn fire_due_schedules(
        &mut self,
        fresh_ids: &[JobId],
    ) -> Result<FiredSchedules, StoreError> {
        let mut round = FiringRound::default();
        let due = self.lock_due_schedules(fresh_ids.len()).await?;
        for (fresh, due) in fresh_ids.iter().zip(due) {
            match self.check_queue_limit(1, |_| StoreError::Full).await {
                Ok(()) => self.fire_schedule(&mut round, due, *fresh).await?,
                Err(StoreError::Full) => {
                    round.fired.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.effects.has_changed_schedule = true;
        row::update(&self.session, &round.moved).await?;
        Ok(round.fired)
    }

    /// The first due schedules that no other node has locked. Unreadable ones never fire again, so that they
    /// do not block the others.
    async fn lock_due_schedules(&mut self, max: usize) -> Result<Vec<DueSchedule>, StoreError> {
        let sql = "SELECT id, next_run_ms, schedule::text, request::text FROM schedules WHERE next_run_ms <= $1 \
                   ORDER BY next_run_ms, id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED";
        let rows = self.session.rows(sql, &[&sql_number(self.now_ms), &sql_number(max)]).await?;
        let (mut due, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let id: ScheduleId = row.parsed(0)?;
            match read_due(&row) {
                Ok(found) => due.push(found),
                Err(error) => {
                    tracing::error!(schedule = %id, %error, "schedule cannot be read; it never fires again");
                    unreadable.push(id);
                }
            }
        }
        row::disarm(&self.session, &unreadable).await?;
        Ok(due)
    }

    /// Makes a job of one due schedule, or skips its occurrence.
    async fn fire_schedule(
        &mut self,
        round: &mut FiringRound,
        due: DueSchedule,
        fresh: JobId,
    ) -> Result<(), StoreError> {
        let DueSchedule { mut schedule, order, due_ms } = due;
        let (id, user, now_ms) = (schedule.id, schedule.user, self.now_ms);
        let mut quota = match self.schedule_owner(round, user).await? {
            ScheduleOwner::CountedElsewhere => return Ok(()),
            ScheduleOwner::Disabled => {
                schedule.pass(due_ms, now_ms);
                round.moved.push(schedule);
                return Ok(());
            }
            ScheduleOwner::Active(quota) => quota,
        };
        let new = NewWork::job(spec_bytes(&order.spec).saturating_add(image_bytes(&order.spec.input)));
        if let Err(refusal) = quota.admit(new, now_ms) {
            if schedule.skip(due_ms, refusal.kind(), now_ms) {
                round.fired.over_quota.push((id, refusal));
            }
            round.moved.push(schedule);
            return Ok(());
        }
        if schedule.model_tokens.is_some() {
            // The sum of the day reads what the schedules before have counted.
            self.effects.has_changed_schedule = true;
            row::update(&self.session, &mem::take(&mut round.moved)).await?;
        }
        let ScheduleAdmission::Allowed { remaining_tokens } =
            self.admit_model_schedule(&mut schedule).await?
        else {
            schedule.pass(due_ms, now_ms);
            round.moved.push(schedule);
            round.fired.skipped.push(id);
            return Ok(());
        };
        self.accept(&scheduled_job(fresh, &schedule, order, (remaining_tokens, now_ms))).await?;
        quota.add(new);
        round.owners.insert(user, ScheduleOwner::Active(quota));
        schedule.fire(due_ms, fresh, now_ms);
        round.moved.push(schedule);
        round.fired.jobs.push((id, fresh));
        Ok(())
    }

    /// Whether the schedules of a user may fire. Asks the database once for each user and round.
    async fn schedule_owner(
        &mut self,
        round: &mut FiringRound,
        user: UserId,
    ) -> Result<ScheduleOwner, StoreError> {
        if let Some(owner) = round.owners.get(&user) {
            return Ok(*owner);
        }
        let owner = self.find_schedule_owner(user).await?;
        round.owners.insert(user, owner);
        Ok(owner)
    }

    async fn find_schedule_owner(&mut self, user: UserId) -> Result<ScheduleOwner, StoreError> {
        if self.is_disabled(user).await? {
            return Ok(ScheduleOwner::Disabled);
        }
        let quota = self.quota_of(user, UnfinishedWork::JobsAndLines).await?;
        if quota.quota.unfinished_jobs.is_none() && quota.quota.stored_bytes.is_none() {
            return Ok(ScheduleOwner::Active(quota));
        }
        // Two nodes that count at once would both find room. Nobody waits here: this transaction may hold
        // what the other one needs.
        if !self.try_lock_of_user("quota", user).await? {
            return Ok(ScheduleOwner::CountedElsewhere);
        }
        Ok(ScheduleOwner::Active(self.quota_of(user, UnfinishedWork::JobsAndLines).await?))
    }

    /// A schedule of a model runs neither beside its last job nor when its user's daily tokens for such jobs
    /// are spent.
    pub(crate) async fn admit_model_schedule(
        &mut self,
        schedule: &mut Schedule,
    ) -> Result<ScheduleAdmission, StoreError> {
        if schedule.model_tokens.is_none() {
            return Ok(ScheduleAdmission::UNLIMITED);
        }
        if let Some(last) = schedule.last_job {
            let row = match find(&self.session, last).await {
                Err(StoreError::Corrupt(_)) => None,
                row => row?,
            };
            if !count_last_job(schedule, row.as_ref(), self.now_ms) {
                return Ok(ScheduleAdmission::Skipped);
            }
        }
        let limit = self.limits.model_schedule_tokens;
        if limit == 0 {
            return Ok(ScheduleAdmission::UNLIMITED);
        }
        let day = token_day(self.now_ms);
        let sql = "SELECT least(coalesce(sum(model_tokens), 0), 9223372036854775807)::bigint FROM schedules \
                   WHERE user_id = $1 AND id <> $2 AND model_day = $3";
        let params = (sql_user(schedule.user), schedule.id.to_string(), sql_number(day));
        let others = self.session.one(sql, &[&params.0, &params.1, &params.2]).await?.number(0)?;
        let own = schedule.model_tokens.map_or(0, |tokens| tokens.on(day));
        Ok(ScheduleAdmission::within(limit, others.saturating_add(own)))
    }

    /// Recomputes the next runs that were computed while the clock was ahead. All others stay as they are:
    /// another node may have moved them on a moment ago.
    pub(crate) async fn rearm_schedules(&mut self) -> Result<u64, StoreError> {
        let sql = "SELECT schedule::text FROM schedules WHERE next_run_ms IS NOT NULL AND armed_at_ms > $1 \
                   ORDER BY id FOR NO KEY UPDATE";
        let until_ms = sql_number(self.now_ms.saturating_add(CLOCK_SLACK_MS));
        let mut rearmed = Vec::new();
        for row in self.session.rows(sql, &[&until_ms]).await? {
            // An unreadable schedule is dropped when it is due.
            let Ok(mut schedule) = row.document::<Schedule>(0) else { continue };
            if schedule.rearm(self.now_ms) {
                rearmed.push(schedule);
            }
        }
        self.effects.has_changed_schedule = true;
        row::update(&self.session, &rearmed).await?;
        Ok(u64::try_from(rearmed.len()).unwrap_or(u64::MAX))
    }
}

fn read_due(row: &Row) -> Result<DueSchedule, StoreError> {
    let schedule: Schedule = row.document(2)?;
    let due_ms = schedule.next_run_ms.unwrap_or(row.number(1)?);
    Ok(DueSchedule { schedule, order: row.document(3)?, due_ms })
}
