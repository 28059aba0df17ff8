//! `/v1/schedules`: jobs that run again and again (DESIGN §3). A schedule of another user does not exist
//! (P7).

mod images;
pub(crate) mod request;
pub(crate) mod view;

use crate::domain::id::ScheduleId;
use crate::domain::job_object::JobObject;
use crate::domain::message::Message;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::{body as request_body, json};
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::images as job_images;
use crate::http::v1::page::{self, ListResponse};
use crate::http::v1::{idempotency, jobs};
use crate::ports::{NewWork, ScheduleQuery, ScheduleStatus};
use hyper::StatusCode;
use hyper::header::LOCATION;
use request::{PreviewRequest, ScheduleChange, ScheduleRequest, ValidSchedule};
use serde::Serialize;
use std::sync::Arc;
use view::ScheduleResponse;

/// The metadata key under which a job names its schedule.
const LABEL: &str = "schedule_id";

const NO_KEY: &str = "schedules remember none: leave it out, give the schedule a 'name', and look for that in GET /v1/schedules \
                      before you send it again";

const NO_RUN_KEY: &str = "runs of schedules remember none: leave it out, and look at 'last_run' of the schedule before you \
                          send it again";

/// Runs that a preview shows.
const PREVIEWED_RUNS: usize = 10;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeletedScheduleResponse {
    id: ScheduleId,
    object: &'static str,
    deleted: bool,
}

/// `POST /v1/schedules`. An answer means that the schedule is on the disk (P1). An `Idempotency-Key` is an
/// error, because schedules do not remember keys.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    idempotency::refuse(&request.headers, NO_KEY)?;
    let body = request_body::read(context, &request.headers, body).await?;
    let (user, role) = (request.user, request.caller.role);
    drop(request); // frees the headers while the job runs
    quota::check(context, user, None, NewWork::job(body.bytes.len())).await?;
    let check = move |request: ScheduleRequest, app: &AppDependencies| request.check(app, user, role);
    let ValidSchedule { name, timing, mut spec, given } =
        json::read_large(context, user, body, check).await?;
    // Until the schedule names them.
    let _pins = job_images::store(context, user, &mut spec.input).await?;
    let now_ms = context.app.clock.now_ms();
    let id = ScheduleId::from_bits(context.app.mint.mint(now_ms, context.app.entropy.random()));
    let mut order = ScheduledRequest { spec, given: given.clone() };
    images::name_all(&mut order.given, &order.spec.input);
    label(&mut order, id, context.app.limits.metadata_pairs);
    let schedule = Schedule::new(id, user, name, timing, now_ms);
    let stored = context.app.schedules.put(schedule, order, context.app.limits.schedules).await?;
    let view = ScheduleResponse::whole(ScheduleStatus { schedule: stored, last_status: None }, given);
    let mut reply = response::json(StatusCode::CREATED, &view);
    response::set(&mut reply, LOCATION, &format!("/v1/schedules/{id}"));
    Ok(reply)
}

/// `GET /v1/schedules`: newest first, page by page, without the job requests.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let limits = &context.app.limits;
    let query = &request.query;
    let wanted = ScheduleQuery {
        user: request.user,
        before: page::cursor(query)?,
        limit: page::limit(query, limits)?,
    };
    let schedules = Arc::clone(&context.app.schedules);
    let page = context.read(request.user, move |_| schedules.schedules(&wanted)).await?;
    let next_cursor = page.schedules.last().filter(|_| page.has_more).map(|found| found.schedule.id);
    let data = page.schedules.into_iter().map(ScheduleResponse::brief).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::new(data, next_cursor)))
}

/// `GET /v1/schedules/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: ScheduleId = request.id("schedule")?;
    let (user, schedules) = (request.user, Arc::clone(&context.app.schedules));
    let found = context.read(user, move |_| schedules.schedule(user, id)).await?;
    let (standing, mut order) = found.ok_or(ApiError::NotFound("schedule"))?;
    if Message::have_images(&order.spec.input) {
        let contents = Arc::clone(&context.app.contents);
        let put_back = move || images::put_back(&mut order.given, &*contents).map(|()| order);
        order = context.app.blocking(user, put_back).await??;
    }
    Ok(response::json(StatusCode::OK, &ScheduleResponse::whole(standing, order.given)))
}

/// `PATCH /v1/schedules/{id}`: pauses the schedule, or lets it go on with the first occurrence from now.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let id: ScheduleId = request.id("schedule")?;
    let ScheduleChange { paused } = json::read(context, &request, body).await?;
    if !context.app.schedules.set_paused(request.user, id, paused).await? {
        return Err(ApiError::NotFound("schedule"));
    }
    show(context, &request).await
}

/// `POST /v1/schedules/{id}/run`: a job of the schedule now. Its next occurrence stays.
pub(crate) async fn run(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    idempotency::refuse(&request.headers, NO_RUN_KEY)?;
    let id: ScheduleId = request.id("schedule")?;
    let (user, schedules) = (request.user, Arc::clone(&context.app.schedules));
    let found = context.read(user, move |_| schedules.schedule(user, id)).await?;
    let (_, order) = found.ok_or(ApiError::NotFound("schedule"))?;
    let bytes = order.spec.input.iter().map(Message::bytes).sum();
    quota::check(context, user, None, NewWork::job(bytes)).await?;
    let fresh_id = context.app.job_id(context.app.clock.now_ms());
    let job = context.app.schedules.run_now(user, id, fresh_id).await?;
    let job = job.ok_or(ApiError::NotFound("schedule"))?;
    let mut reply = response::json(StatusCode::ACCEPTED, &JobObject::fresh(job));
    jobs::store::name(&mut reply, fresh_id, false);
    Ok(reply)
}

/// `POST /v1/schedules/preview`: the next runs of a schedule that has this timing. Nothing is stored.
pub(crate) async fn preview(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let asked: PreviewRequest = json::read(context, &request, body).await?;
    let timing = asked.check(&context.app, request.caller.role)?;
    let first = timing.first(context.app.clock.now_ms());
    let runs = std::iter::successors(first, |ms| timing.next_after(*ms)).take(PREVIEWED_RUNS);
    let page = ListResponse::<u64, String>::cut(runs.map(view::seconds).collect(), false);
    Ok(response::json(StatusCode::OK, &page))
}

/// `DELETE /v1/schedules/{id}`: no more jobs are made. Its jobs stay.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: ScheduleId = request.id("schedule")?;
    if !context.app.schedules.remove(request.user, id).await? {
        return Err(ApiError::NotFound("schedule"));
    }
    Ok(response::json(
        StatusCode::OK,
        &DeletedScheduleResponse { id, object: "schedule.deleted", deleted: true },
    ))
}

/// Names the schedule in the metadata of its jobs, unless the metadata is full.
fn label(order: &mut ScheduledRequest, id: ScheduleId, most: usize) {
    let metadata = &mut order.spec.metadata;
    if metadata.len() < most && !metadata.contains_key(LABEL) {
        metadata.insert(LABEL.to_owned(), id.to_string());
    }
}
