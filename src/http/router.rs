//! From a request to the file that answers it. Owns the map of paths and methods; refuses to read bodies and queries.

use super::door::Door;
use super::error::Error;
use super::reply::{self, Reply};
use super::{health, path, v1};
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use std::sync::Arc;

/// The longest path and query together, bytes.
const TARGET_BYTES: usize = 4 * 1024;

/// Who asks, and for what; the body goes apart.
pub(crate) struct Call {
    pub(crate) user: UserId,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
}

/// What there is.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Alive,
    Ready,
    Jobs,
    Job(String),
    Output(String),
    Events(String),
    Cancel(String),
    Webhooks,
    Webhook(String),
    Redeliver(String),
    Retry(String),
    Batches,
    Batch(String),
    Results(String),
    CancelBatch(String),
    Schedules,
    Schedule(String),
    Usage,
    Backup,
}

impl Route {
    fn find(path: &str) -> Option<Self> {
        let segments = path::segments(path)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match *segments.as_slice() {
            ["healthz"] => Some(Self::Alive),
            ["readyz"] => Some(Self::Ready),
            ["v1", "usage"] => Some(Self::Usage),
            ["v1", "backup"] => Some(Self::Backup),
            ["v1", "jobs"] => Some(Self::Jobs),
            ["v1", "jobs", id] if !id.is_empty() => Some(Self::Job(id.to_owned())),
            ["v1", "jobs", id, "output"] => Some(Self::Output(id.to_owned())),
            ["v1", "jobs", id, "events"] => Some(Self::Events(id.to_owned())),
            ["v1", "jobs", id, "cancel"] => Some(Self::Cancel(id.to_owned())),
            ["v1", "webhooks"] => Some(Self::Webhooks),
            ["v1", "webhooks", id] if !id.is_empty() => Some(Self::Webhook(id.to_owned())),
            ["v1", "webhooks", id, "retry"] => Some(Self::Redeliver(id.to_owned())),
            ["v1", "jobs", id, "retry"] => Some(Self::Retry(id.to_owned())),
            ["v1", "batches"] => Some(Self::Batches),
            ["v1", "batches", id] if !id.is_empty() => Some(Self::Batch(id.to_owned())),
            ["v1", "batches", id, "results"] => Some(Self::Results(id.to_owned())),
            ["v1", "batches", id, "cancel"] => Some(Self::CancelBatch(id.to_owned())),
            ["v1", "schedules"] => Some(Self::Schedules),
            ["v1", "schedules", id] if !id.is_empty() => Some(Self::Schedule(id.to_owned())),
            _ => None,
        }
    }

    fn allow(&self) -> &'static str {
        match self {
            Self::Jobs | Self::Schedules => "GET, HEAD, POST, OPTIONS",
            Self::Batches => "GET, HEAD, POST, PUT, OPTIONS",
            Self::Backup => "GET, OPTIONS",
            Self::Job(_) | Self::Schedule(_) => "GET, HEAD, DELETE, OPTIONS",
            Self::Cancel(_) | Self::Retry(_) | Self::CancelBatch(_) | Self::Redeliver(_) => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }
}

/// Answers a request, whatever it is.
pub(crate) async fn answer(door: &Arc<Door>, request: Request<Incoming>) -> Reply {
    let mut reply = match take(door, request).await {
        Ok(reply) => reply,
        Err(error) => error.into_reply(),
    };
    let headers = reply.headers_mut();
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    reply
}

/// The bound on header lines, where it is narrower than hyper's own. Bytes are counted by hyper as they come.
fn heads_within(limits: &Limits, headers: &HeaderMap) -> Result<(), Error> {
    if headers.len() > limits.headers {
        return Err(Error::HeadersTooLarge(format!("limits.headers = {}", limits.headers)));
    }
    Ok(())
}

async fn take(door: &Arc<Door>, request: Request<Incoming>) -> Result<Reply, Error> {
    door.guard.check(&request)?;
    heads_within(&door.room.limits, request.headers())?;
    let target = request.uri();
    if target.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES) {
        return Err(Error::TargetTooLong(TARGET_BYTES));
    }
    let route = Route::find(target.path()).ok_or(Error::NotFound("resource"))?;
    let (head, body) = request.into_parts();
    // One user until there is authentication; handlers take it from here alone.
    let query = head.uri.query().map(str::to_owned);
    let call = Call { user: UserId::SINGLE, headers: head.headers, query };
    match (&head.method, &route) {
        (&Method::OPTIONS, route) => Ok(options(route)),
        (&Method::POST, Route::Jobs) => v1::submit::submit(door, call, body).await,
        (&Method::POST, Route::Cancel(id)) => v1::cancel::cancel(door, &call, id).await,
        (&Method::POST, Route::Redeliver(id)) => v1::webhooks::retry(door, &call, id).await,
        (&Method::POST, Route::Retry(id)) => v1::retry::retry(door, &call, id).await,
        // `curl -T file URL` puts.
        (&Method::POST | &Method::PUT, Route::Batches) => v1::batch::upload::upload(door, call, body).await,
        (&Method::POST, Route::CancelBatch(id)) => v1::batch::cancel::cancel(door, &call, id).await,
        (&Method::POST, Route::Schedules) => v1::schedules::create(door, call, body).await,
        (&Method::DELETE, Route::Job(id)) => v1::delete::delete(door, &call, id).await,
        (&Method::DELETE, Route::Schedule(id)) => v1::schedules::delete(door, &call, id).await,
        // Its head alone would cost the whole copy.
        (&Method::HEAD, Route::Backup) => Err(Error::Method { method: head.method, allow: route.allow() }),
        (&Method::GET | &Method::HEAD, route) => get(door, &call, route)
            .await
            .unwrap_or_else(|| Err(Error::Method { method: head.method.clone(), allow: route.allow() })),
        (_, route) => Err(Error::Method { method: head.method.clone(), allow: route.allow() }),
    }
}

/// Reading. hyper leaves the body of a HEAD's answer away. `None`: there is nothing to read here.
async fn get(door: &Arc<Door>, call: &Call, route: &Route) -> Option<Result<Reply, Error>> {
    Some(match route {
        Route::Alive => Ok(health::alive()),
        Route::Ready => health::ready(door).await,
        Route::Jobs => v1::list::list(door, call).await,
        Route::Job(id) => v1::show::show(door, call, id).await,
        Route::Output(id) => v1::output::output(door, call, id).await,
        Route::Events(id) => v1::events::events(door, call, id).await,
        Route::Webhooks => v1::webhooks::list(door, call).await,
        Route::Webhook(id) => v1::webhooks::show(door, call, id),
        Route::Batches => v1::batch::show::list(door, call).await,
        Route::Batch(id) => v1::batch::show::show(door, call, id).await,
        Route::Results(id) => v1::batch::results::results(door, call, id).await,
        Route::Schedules => v1::schedules::list(door, call).await,
        Route::Schedule(id) => v1::schedules::show(door, call, id).await,
        Route::Usage => v1::usage::usage(door, call).await,
        Route::Backup => v1::backup::backup(door, call).await,
        Route::Cancel(_) | Route::Retry(_) | Route::CancelBatch(_) | Route::Redeliver(_) => return None,
    })
}

/// What is possible here. No CORS header: a browser's preflight fails, as it should.
fn options(route: &Route) -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.allow()));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_paths_lead_somewhere() {
        assert_eq!(Route::find("/v1/jobs"), Some(Route::Jobs));
        assert_eq!(Route::find("/v1/j%6Fbs/x/events"), Some(Route::Events("x".into())));
        for path in
            ["/", "/v1/jobs/", "/v1/jobs/x/", "/v1/jobs/x/events/", "//v1/jobs", "/v1/jobs/x/run", "/V1/jobs"]
        {
            assert_eq!(Route::find(path), None, "{path}");
        }
        assert_eq!(Route::find("/v1/jobs%2Fx"), None, "an escaped slash separates nothing");
        assert_eq!(Route::find("/v1/jobs/%"), None);
    }
}
