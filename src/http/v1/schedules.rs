//! `/v1/schedules`: jobs that are made again and again (DESIGN §3). Owns the four acts; a schedule that is another user's
//! does not exist (P7).

pub(crate) mod body;
pub(crate) mod view;

use crate::domain::id::{ScheduleId, UserId};
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::http::arriving::Arriving;
use crate::http::blocking::blocking;
use crate::http::body::{self as request_body, Whole};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::query::Query;
use crate::http::quota;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::v1::once;
use crate::http::v1::page::{self, List};
use crate::ports::{ScheduleQuery, ScheduleStatus};
use body::Asked;
use hyper::StatusCode;
use hyper::header::LOCATION;
use serde::Serialize;
use std::sync::Arc;
use view::ScheduleView;

/// The label with which a job names the schedule that made it.
const LABEL: &str = "schedule_id";

/// Why a key is refused.
const NO_KEY: &str = "schedules remember none: leave it out, give the schedule a 'name', and look for that in GET /v1/schedules \
                      before you send it again";

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Gone {
    id: ScheduleId,
    object: &'static str,
    deleted: bool,
}

/// `POST /v1/schedules`: an answer means that the schedule is on the disk (P1). A key is not remembered, so none is taken:
/// whoever sends one counts on it.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    once::refuse(&call.headers, NO_KEY)?;
    let body = request_body::read(door, &call.headers, body).await?;
    let user = call.user;
    drop(call); // nothing of the request outlives its reading
    quota::check(door, user, None).await?;
    let asked = understand(door, user, body).await?;
    let now_ms = door.room.clock.now_ms();
    let id = ScheduleId::from_bits(door.room.mint.mint(now_ms, door.room.entropy.random()));
    let Asked { name, timing, spec, given } = asked;
    let mut order = ScheduledRequest { spec, given };
    label(&mut order, id, door.room.limits.metadata_pairs);
    let schedule = Schedule::new(id, user, name, timing, now_ms);
    let stored = door.room.schedules.put(schedule, order.clone(), door.room.limits.schedules).await?;
    let view = ScheduleView::whole(ScheduleStatus { schedule: stored, last_status: None }, order);
    let mut reply = reply::json(StatusCode::CREATED, &view);
    reply::set(&mut reply, LOCATION, &format!("/v1/schedules/{id}"));
    Ok(reply)
}

/// `GET /v1/schedules`: newest first, page by page, without what each asks for.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["limit", "cursor"])?;
    let wanted =
        ScheduleQuery { user: call.user, before: page::cursor(&query)?, limit: page::limit(&query, limits)? };
    let schedules = Arc::clone(&door.room.schedules);
    let page = door.read(move |_| schedules.schedules(&wanted)).await?;
    let next_cursor = page.schedules.last().filter(|_| page.has_more).map(|found| found.schedule.id);
    let data = page.schedules.into_iter().map(ScheduleView::brief).collect();
    Ok(reply::json(StatusCode::OK, &List::new(data, next_cursor)))
}

/// `GET /v1/schedules/{id}`.
pub(crate) async fn show(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let (user, schedules) = (call.user, Arc::clone(&door.room.schedules));
    let found = door.read(move |_| schedules.schedule(user, id)).await?;
    let (standing, order) = found.ok_or(Error::NotFound("schedule"))?;
    Ok(reply::json(StatusCode::OK, &ScheduleView::whole(standing, order)))
}

/// `DELETE /v1/schedules/{id}`: nothing is made any more; the jobs that were made stay.
pub(crate) async fn delete(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    if !door.room.schedules.remove(call.user, id).await? {
        return Err(Error::NotFound("schedule"));
    }
    Ok(reply::json(StatusCode::OK, &Gone { id, object: "schedule.deleted", deleted: true }))
}

/// Reads the body on a thread that may be busy for a while. The body keeps its place until then.
async fn understand(door: &Arc<Door>, user: UserId, body: Whole) -> Result<Asked, Error> {
    let room = Arc::clone(&door.room);
    let parsing = blocking(move || {
        let Whole { bytes, place } = body;
        let asked = json::object(&bytes, json::most_values(&room.limits))
            .map_err(Error::from)
            .and_then(|map| body::read(map, &room, user));
        drop(place);
        asked
    });
    parsing.await?
}

/// Every job says which schedule made it, where there is room to say so.
fn label(order: &mut ScheduledRequest, id: ScheduleId, most: usize) {
    let metadata = &mut order.spec.metadata;
    if metadata.len() < most && !metadata.contains_key(LABEL) {
        metadata.insert(LABEL.to_owned(), id.to_string());
    }
}

fn parse_id(text: &str) -> Result<ScheduleId, Error> {
    text.parse().map_err(|_| Error::NotFound("schedule"))
}
