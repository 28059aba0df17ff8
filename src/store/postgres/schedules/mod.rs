//! The port [`Schedules`] on the store, and its reads.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{
    FiredSchedules, ScheduleError, SchedulePage, ScheduleQuery, ScheduleStatus, Schedules, StoreError, Ticket,
};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NameError;
use tokio_postgres::Row;

pub(crate) mod fire;
pub(crate) mod row;
pub(crate) mod write;

impl Schedules for PostgresStore {
    fn put(
        &self,
        schedule: Schedule,
        order: ScheduledRequest,
        limit: u64,
    ) -> Ticket<Schedule, ScheduleError> {
        self.write(async move |act: &mut Act<'_>| act.add_schedule(&schedule, &order, limit).await)
    }

    fn remove(&self, user: UserId, id: ScheduleId) -> Ticket<bool> {
        self.write(async move |act: &mut Act<'_>| act.remove_schedule(user, id).await)
    }

    fn set_paused(&self, user: UserId, id: ScheduleId, is_paused: bool) -> Ticket<bool> {
        self.write(async move |act: &mut Act<'_>| act.pause_schedule(user, id, is_paused).await)
    }

    fn run_now(&self, user: UserId, id: ScheduleId, fresh_id: JobId) -> Ticket<Option<Job>, ScheduleError> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.run_schedule(user, id, fresh_id).await
        })
    }

    fn fire_due(&self, fresh_ids: Vec<JobId>) -> Ticket<FiredSchedules> {
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.fire_due_schedules(&fresh_ids).await
        })
    }

    fn rearm(&self) -> Ticket<u64> {
        self.write(async move |act: &mut Act<'_>| act.rearm_schedules().await)
    }

    fn schedule(
        &self,
        user: UserId,
        id: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            let sql = "SELECT s.schedule::text, j.status, s.request::text FROM schedules s \
                       LEFT JOIN jobs j ON j.id = s.last_job WHERE s.id = $1 AND s.user_id = $2";
            let found = session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
            found.map(|row| Ok((with_last_status(&row)?, row.document(2)?))).transpose()
        })
    }

    fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, query).await)
    }

    fn next_run_ms(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT min(next_run_ms) FROM schedules";
        let due_ms = self.next_due(&self.shared.due_schedules, sql)?;
        Ok(due_ms.map(|due_ms| self.shared.node_time_ms(due_ms)))
    }
}

async fn page(session: &SqlSession<'_>, query: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
    // '~' sorts after every id.
    let before = query.before.map_or_else(|| "~".to_owned(), |id| id.to_string());
    let sql = "SELECT s.schedule::text, j.status FROM schedules s LEFT JOIN jobs j ON j.id = s.last_job \
               WHERE s.user_id = $1 AND s.id < $2 ORDER BY s.id DESC LIMIT $3";
    let limit = sql_number(query.limit.saturating_add(1));
    let rows = session.rows(sql, &[&sql_user(query.user), &before, &limit]).await?;
    let has_more = rows.len() > query.limit;
    let schedules = rows.iter().take(query.limit).map(with_last_status).collect::<Result<_, _>>()?;
    Ok(SchedulePage { schedules, has_more })
}

/// Reads a schedule and the status of its last job.
fn with_last_status(row: &Row) -> Result<ScheduleStatus, StoreError> {
    let status: Option<&str> = row.column(1)?;
    let last_status = status.map(|name| JobStatus::deserialize(name.into_deserializer())).transpose();
    let last_status = last_status.map_err(|error: NameError| StoreError::Corrupt(error.to_string()))?;
    Ok(ScheduleStatus { schedule: row.document(0)?, last_status })
}
