//! Writes schedules for their users.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::Job;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{ScheduleError, StoreError};
use crate::store::postgres::schedules::row;
use crate::store::postgres::session::{Columns, sql_number, sql_user};
use crate::store::postgres::stored_files::ImageHolder;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::schedule::{ScheduleAdmission, scheduled_job};
use std::slice;

impl Act<'_> {
    /// Stores a new schedule.
    pub(crate) async fn add_schedule(
        &mut self,
        schedule: &Schedule,
        order: &ScheduledRequest,
        limit: u64,
    ) -> Result<Schedule, ScheduleError> {
        let (id, user) = (schedule.id, schedule.user);
        // Two nodes that count at once would both find room.
        self.lock_of_user("schedules", user).await?;
        let sql = "SELECT count(*), count(model_day) FROM schedules WHERE user_id = $1";
        let counted = self.session.one(sql, &[&sql_user(user)]).await?;
        if counted.number(0)? >= limit {
            return Err(ScheduleError::SchedulesFull { limit });
        }
        let limit = self.limits.model_schedules;
        if schedule.model_tokens.is_some() && counted.number(1)? >= limit {
            return Err(ScheduleError::ModelSchedulesFull { limit });
        }
        self.effects.has_changed_schedule = true;
        let Some(bytes) = row::insert(&self.session, schedule, order).await? else {
            return Err(StoreError::Corrupt(format!("{id} was stored before")).into());
        };
        self.count_bytes(user, sql_number(bytes));
        self.keep_images(user, ImageHolder(id.to_string()), &order.spec.input).await?;
        Ok(schedule.clone())
    }

    /// Removes a schedule of a user, readable or not.
    pub(crate) async fn remove_schedule(&mut self, user: UserId, id: ScheduleId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM schedules WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 RETURNING octet_length(request::text)::bigint";
        let removed = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(removed) = removed else { return Ok(false) };
        let bytes: i64 = removed.column(0)?;
        self.count_bytes(user, bytes.saturating_neg());
        self.release_images(user, ImageHolder(id.to_string())).await?;
        Ok(true)
    }

    /// Pauses a schedule of a user, or lets it go on.
    pub(crate) async fn pause_schedule(
        &mut self,
        user: UserId,
        id: ScheduleId,
        is_paused: bool,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT schedule::text FROM schedules WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 FOR NO KEY UPDATE";
        let found = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(found) = found else { return Ok(false) };
        let mut schedule: Schedule = found.document(0)?;
        if schedule.set_paused(is_paused, self.now_ms) {
            self.effects.has_changed_schedule = true;
            row::update(&self.session, slice::from_ref(&schedule)).await?;
        }
        Ok(true)
    }

    /// Creates a job of a schedule with this id now. Its next occurrence stays as it is.
    pub(crate) async fn run_schedule(
        &mut self,
        user: UserId,
        id: ScheduleId,
        fresh: JobId,
    ) -> Result<Option<Job>, ScheduleError> {
        let sql = "SELECT schedule::text, request::text FROM schedules WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 \
                   FOR NO KEY UPDATE";
        let found = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(found) = found else { return Ok(None) };
        let (mut schedule, order): (Schedule, ScheduledRequest) = (found.document(0)?, found.document(1)?);
        let ScheduleAdmission::Allowed { remaining_tokens } =
            self.admit_model_schedule(&mut schedule).await?
        else {
            return Err(ScheduleError::ModelScheduleHeld);
        };
        let new = scheduled_job(fresh, &schedule, order, (remaining_tokens, self.now_ms));
        let job = self.submit_jobs(slice::from_ref(&new)).await?.pop();
        schedule.run_now(fresh, self.now_ms);
        self.effects.has_changed_schedule = true;
        row::update(&self.session, slice::from_ref(&schedule)).await?;
        Ok(job)
    }
}
