//! Rows of schedules. The document is the truth; columns repeat what queries ask about.

use crate::domain::id::ScheduleId;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::StoreError;
use crate::store::postgres::session::{SqlSession, document, sql_number, sql_user};

/// Inserts a schedule. Returns the bytes of its request, or `None` if its id is stored already.
pub(crate) async fn insert(
    session: &SqlSession<'_>,
    schedule: &Schedule,
    order: &ScheduledRequest,
) -> Result<Option<usize>, StoreError> {
    let request = document(order)?;
    let sql = "INSERT INTO schedules (id, user_id, next_run_ms, armed_at_ms, is_paused, runs, last_job, model_day, \
               model_tokens, schedule, request) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::json, $11::text::json) \
               ON CONFLICT (id) DO NOTHING";
    let tokens = schedule.model_tokens;
    let inserted = session
        .execute(
            sql,
            &[
                &schedule.id.to_string(),
                &sql_user(schedule.user),
                &schedule.next_run_ms.map(sql_number),
                &sql_number(schedule.armed_at_ms),
                &schedule.is_paused,
                &sql_number(schedule.runs),
                &schedule.last_job.map(|job| job.to_string()),
                &tokens.map(|tokens| sql_number(tokens.day)),
                &tokens.map(|tokens| sql_number(tokens.tokens)),
                &document(schedule)?,
                &request,
            ],
        )
        .await?;
    Ok((inserted > 0).then_some(request.len()))
}

/// The columns that an update sets, one vector for each.
#[derive(Default)]
struct ScheduleColumns {
    id: Vec<String>,
    next_run_ms: Vec<Option<i64>>,
    armed_at_ms: Vec<i64>,
    is_paused: Vec<bool>,
    runs: Vec<i64>,
    last_job: Vec<Option<String>>,
    model_day: Vec<Option<i64>>,
    model_tokens: Vec<Option<i64>>,
    schedule: Vec<String>,
}

impl ScheduleColumns {
    fn add(&mut self, schedule: &Schedule) -> Result<(), StoreError> {
        let tokens = schedule.model_tokens;
        self.id.push(schedule.id.to_string());
        self.next_run_ms.push(schedule.next_run_ms.map(sql_number));
        self.armed_at_ms.push(sql_number(schedule.armed_at_ms));
        self.is_paused.push(schedule.is_paused);
        self.runs.push(sql_number(schedule.runs));
        self.last_job.push(schedule.last_job.map(|job| job.to_string()));
        self.model_day.push(tokens.map(|tokens| sql_number(tokens.day)));
        self.model_tokens.push(tokens.map(|tokens| sql_number(tokens.tokens)));
        self.schedule.push(document(schedule)?);
        Ok(())
    }
}

/// Writes changed schedules, whose rows are locked.
pub(crate) async fn update(session: &SqlSession<'_>, schedules: &[Schedule]) -> Result<(), StoreError> {
    if schedules.is_empty() {
        return Ok(());
    }
    let mut columns = ScheduleColumns::default();
    for schedule in schedules {
        columns.add(schedule)?;
    }
    let sql = "UPDATE schedules SET next_run_ms = u.next_run_ms, armed_at_ms = u.armed_at_ms, \
               is_paused = u.is_paused, runs = u.runs, last_job = u.last_job, model_day = u.model_day, \
               model_tokens = u.model_tokens, schedule = u.schedule::json \
               FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[], $6::text[], \
               $7::bigint[], $8::bigint[], $9::text[]) AS u(id, next_run_ms, armed_at_ms, is_paused, runs, \
               last_job, model_day, model_tokens, schedule) WHERE schedules.id = u.id";
    session
        .send(
            sql,
            &[
                &columns.id,
                &columns.next_run_ms,
                &columns.armed_at_ms,
                &columns.is_paused,
                &columns.runs,
                &columns.last_job,
                &columns.model_day,
                &columns.model_tokens,
                &columns.schedule,
            ],
        )
        .await
}

/// Takes schedules that cannot be read off the due ones, so that they do not block the others.
pub(crate) async fn disarm(session: &SqlSession<'_>, unreadable: &[ScheduleId]) -> Result<(), StoreError> {
    if unreadable.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
    session.send("UPDATE schedules SET next_run_ms = NULL WHERE id = ANY($1)", &[&ids]).await
}
