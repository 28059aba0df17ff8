//! `POST /v1/jobs`. Owns the three ways to hand a job over (JSON, text, either unannounced) and the three ways to answer
//! (at once, after `?wait=`, as a stream). An answer means that the job is on the disk (P1).

use super::job_view::{self, JobView};
use super::once::{self, Fingerprint};
use super::stored::{name, store};
use super::streamed::{Reader, streamed};
use super::{events, spec, wait};
use crate::domain::id::UserId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::JobSpec;
use crate::http::arriving::Arriving;
use crate::http::blocking::blocking;
use crate::http::body::{self, Whole};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::frame::{Text, Wire};
use crate::http::json::{self, Fault};
use crate::http::query::Query;
use crate::http::quota;
use crate::http::reply::{self, Reply};
use crate::http::room::Room;
use crate::http::router::Call;
use crate::ports::NewJob;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;

/// A larger body is read on a thread that may be busy for a while.
const INLINE_BYTES: usize = 64 * 1024;

/// How the client wants to be answered.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Held { wait_s: u64 },
    Stream { wire: Wire, text: Text },
}

/// Stores a job and answers with it, or with its events.
pub(crate) async fn submit(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let manner = manner(&call, &door.room)?;
    let given = once::key(&call.headers)?;
    let body = body::read(door, &call.headers, body).await?;
    let key = given.map(|key| key.of(fingerprint(&body)));
    let user = call.user;
    quota::check(door, user, given).await?;
    let spec = understand(door, user, is_json(&call.headers), body).await?;
    drop(call); // nothing of the request outlives its reading
    let created_at_ms = door.room.clock.now_ms();
    let id = door.room.job_id(created_at_ms);
    let job = NewJob { id, user, created_at_ms, spec, in_existing: false };
    match manner {
        Manner::Held { wait_s } => held(door, job, key, wait_s).await,
        Manner::Stream { wire, text } => {
            let on_disconnect = job.spec.on_disconnect;
            let reader = Reader { user, job: job.id, on_disconnect, wire, text };
            streamed(door, reader, store(door, job, key)).await
        }
    }
}

/// What makes two submissions the same: the body, byte for byte.
fn fingerprint(body: &Whole) -> Fingerprint {
    let mut fingerprint = Fingerprint::new("job");
    fingerprint.take_in(&body.bytes);
    fingerprint
}

async fn held(
    door: &Arc<Door>,
    job: NewJob,
    key: Option<IdempotencyKey>,
    wait_s: u64,
) -> Result<Reply, Error> {
    let user = job.user;
    let (job, is_replayed) = store(door, job, key).await?;
    let id = job.id;
    let view = if wait_s == 0 && !job.status.is_terminal() {
        JobView::fresh(job)
    } else {
        wait::for_job(door, user, id, wait_s).await?;
        job_view::look(door, user, id).await?
    };
    let status = if view.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut reply = reply::json(status, &view);
    name(&mut reply, id, is_replayed);
    Ok(reply)
}

fn manner(call: &Call, room: &Room) -> Result<Manner, Error> {
    let query = Query::parse(call.query.as_deref(), &["wait", "stream", "format"])?;
    let wait_s = query.whole("wait", 0..=room.limits.wait_s)?;
    let text = events::text(&query)?;
    let stream = match (query.flag("stream")?, wait_s) {
        (Some(true), Some(_)) => {
            return Err(Error::value(
                "wait",
                "'wait' and 'stream=true' exclude each other: a stream shows the end itself",
            ));
        }
        (Some(said), _) => said,
        (None, wait_s) => wait_s.is_none() && events::wants_sse(&call.headers),
    };
    if stream {
        return Ok(Manner::Stream { wire: events::wire(&call.headers), text });
    }
    Ok(Manner::Held { wait_s: wait_s.unwrap_or(0) })
}

/// Reads the body, a large one on a thread that may be busy for a while. The body keeps its place until then, even when
/// its client leaves.
async fn understand(door: &Arc<Door>, user: UserId, announced: bool, body: Whole) -> Result<JobSpec, Error> {
    if body.bytes.len() <= INLINE_BYTES {
        return parse(user, announced, body.bytes, &door.room);
    }
    let room = Arc::clone(&door.room);
    let parsing = blocking(move || {
        let Whole { bytes, place } = body;
        let spec = parse(user, announced, bytes, &room);
        drop(place);
        spec
    });
    parsing.await?
}

/// Announced JSON must be a JSON object. Anything else is read as one if it is one, and is the prompt itself if not.
fn parse(user: UserId, announced: bool, body: Vec<u8>, room: &Room) -> Result<JobSpec, Error> {
    let starts = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if announced || starts == Some(&b'{') {
        match json::object(&body, json::most_values(&room.limits)) {
            Ok(map) => return spec::from_json(map, room, user),
            Err(Fault::Syntax(_) | Fault::NoObject) if !announced => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    match String::from_utf8(body) {
        Ok(text) => spec::from_prompt(text, room, user),
        Err(_) => Err(Error::malformed("the request body is neither a JSON object nor UTF-8 text")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let announced = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    let essence = announced.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
