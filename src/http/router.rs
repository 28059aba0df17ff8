//! From a request to the route that answers it. Owns how a path is matched, who may pass, and what every answer carries; refuses
//! to know what there is (`routes` does).

use super::access::{About, Line, Metered};
use super::arriving::Arriving;
use super::auth::{Caller, Standing};
use super::door::Door;
use super::error::{Dialect, Error};
use super::peer::{Address, Peer};
use super::reply::{self, Reply};
use super::request_id::{RequestId, X_REQUEST_ID};
use super::routes::{Access, ROUTES, Route};
use super::{armour, auth, cors, measured, path};
use crate::domain::account::AuthMode;
use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::ports::Measurement;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::sync::Arc;
use tracing::Instrument;

/// The longest path and query together, bytes.
const TARGET_BYTES: usize = 4 * 1024;

/// Who asks, and for what; the body goes apart.
pub(crate) struct Call {
    pub(crate) user: UserId,
    /// Everything that is known of who asks.
    pub(crate) caller: Caller,
    /// From where.
    pub(crate) address: Address,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
    segments: Segments,
}

/// What stood in a path for the names of its route.
type Segments = Vec<(&'static str, String)>;

impl Call {
    /// What stood for `{name}`, decoded; empty for a name that the route does not have.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.segments.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }
}

/// What a path leads to.
struct Place {
    /// One route for each method.
    routes: Vec<&'static Route>,
    segments: Segments,
}

impl Place {
    /// Exact segments win over names: `/projects/upload` is no project.
    fn find(path: &str) -> Option<Self> {
        let given = path::segments(path)?;
        let mut found: Option<Self> = None;
        for route in ROUTES {
            if let Some(here) = &mut found
                && here.routes.first().is_some_and(|first| first.path == route.path)
            {
                here.routes.push(route);
                continue;
            }
            let Some(segments) = matched(route.path, &given) else { continue };
            if found.as_ref().is_none_or(|found| segments.len() < found.segments.len()) {
                found = Some(Self { routes: vec![route], segments });
            }
        }
        found
    }

    fn route(&self, method: &Method) -> Option<&'static Route> {
        // hyper leaves the body of a HEAD's answer away.
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        self.routes.iter().copied().find(|route| route.method == *wanted)
    }

    fn allow(&self) -> String {
        let mut allow = String::new();
        for route in &self.routes {
            allow.push_str(route.method.as_str());
            allow.push_str(if route.method == Method::GET { ", HEAD, " } else { ", " });
        }
        allow + "OPTIONS"
    }
}

fn matched(pattern: &'static str, given: &[String]) -> Option<Segments> {
    let mut given = given.iter();
    let mut segments = Vec::new();
    for part in pattern.split('/').skip(1) {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        match name.map(|name| (name, name.strip_prefix('*'))) {
            Some((_, Some(rest))) => {
                let tail: Vec<&str> = given.by_ref().map(String::as_str).collect();
                let is_path = tail.first().is_some_and(|first| !first.is_empty());
                segments.push((rest, is_path.then(|| tail.join("/"))?));
            }
            Some((name, None)) => {
                segments.push((name, given.next().filter(|text| !text.is_empty())?.clone()));
            }
            None => drop(given.next().filter(|text| *text == part)?),
        }
    }
    given.next().is_none().then_some(segments)
}

/// What is found out about a request on its way, and told with the answer whatever that is.
#[derive(Default)]
struct Told {
    /// Where the caller stands with the bound on requests.
    standing: Option<Standing>,
    /// The allowed page that asks.
    page: Option<HeaderValue>,
    /// What the log tells.
    about: About,
    /// The route does not have the method: clients must not fill the counts with pairs of their own making.
    is_strange: bool,
}

/// What is told of a request whose client left before the head of its answer was there, as nginx has it.
const LEFT: u16 = 499;

/// A request on its way to the head of its answer. A client that leaves before that drops it.
struct Underway<'d> {
    door: &'d Door,
    method: &'static str,
    begun_us: u64,
    told: Told,
    /// Until there is a head.
    line: Option<Line>,
}

impl<'d> Underway<'d> {
    fn begin(door: &'d Door, method: &Method, id: &RequestId) -> Self {
        let clock = &door.room.clock;
        let line = Line {
            rush: Arc::clone(&door.rush),
            clock: Arc::clone(clock),
            id: id.clone(),
            method: method.clone(),
            began_ms: clock.monotonic_ms(),
            about: About::default(),
        };
        let (method, begun_us) = (measured::word(method), clock.monotonic_us());
        Self { door, method, begun_us, told: Told::default(), line: Some(line) }
    }

    fn count(&self, status: u16) {
        let took_us = self.door.room.clock.monotonic_us().saturating_sub(self.begun_us);
        let method = if self.told.is_strange { measured::OTHER } else { self.method };
        self.door.room.meter.record(Measurement::Answered {
            method,
            route: self.told.about.route,
            status,
            took_us,
        });
    }

    /// There is an answer with these headers: counted now, and told when it is over.
    fn answered(mut self, reply: Reply) -> Response<Metered> {
        self.count(reply.status().as_u16());
        let Some(line) = self.line.take() else { return Metered::untold(reply) };
        let mut about = std::mem::take(&mut self.told.about);
        about.job = about.job.or_else(|| new_job(reply.headers()));
        Line { about, ..line }.follow(reply)
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let Some(line) = self.line.take() else { return };
        self.count(LEFT);
        if let Ok(status) = StatusCode::from_u16(LEFT) {
            Line { about: std::mem::take(&mut self.told.about), ..line }.leave(status);
        }
    }
}

/// Answers a request, whatever it is. What is logged on the way carries the request's id.
pub(crate) async fn answer(door: &Arc<Door>, request: Request<Incoming>) -> Response<Metered> {
    let dialect = Dialect::of(request.uri().path());
    let id = RequestId::of(request.headers(), door.room.entropy.as_ref());
    let span = tracing::error_span!("request", request = %id);
    let mut underway = Underway::begin(door, request.method(), &id);
    let told = &mut underway.told;
    let mut reply = match take(door, request, told).instrument(span).await {
        Ok(reply) => reply,
        Err(error) => {
            told.about.error = error.fault();
            error.into_reply(dialect)
        }
    };
    let headers = reply.headers_mut();
    armour::put_on(headers);
    if let Some(id) = id.header() {
        headers.insert(X_REQUEST_ID, id);
    }
    if let Some(standing) = &told.standing {
        standing.write(headers);
    }
    if door.guard.allows_pages() {
        cors::vary(headers);
    }
    if let Some(page) = told.page.take() {
        cors::open(headers, page);
    }
    underway.answered(reply)
}

/// The job that an answer is about without its route saying so.
fn new_job(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(reply::X_JOB_ID)?.to_str().ok()?;
    Some(id.to_owned())
}

/// hyper looks at the last coding alone and would hand on a body that is still coded.
fn refuse_coding(headers: &HeaderMap) -> Result<(), Error> {
    let coded = headers.get_all(header::TRANSFER_ENCODING).iter();
    if coded.into_iter().any(|line| !line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Err(Error::malformed("the only Transfer-Encoding that is taken is 'chunked'"));
    }
    Ok(())
}

/// The bound on header lines, where it is narrower than hyper's own. Bytes are counted by hyper as they come.
fn heads_within(limits: &Limits, headers: &HeaderMap) -> Result<(), Error> {
    if headers.len() > limits.headers {
        return Err(Error::HeadersTooLarge(format!("limits.headers = {}", limits.headers)));
    }
    Ok(())
}

async fn take(door: &Arc<Door>, request: Request<Incoming>, told: &mut Told) -> Result<Reply, Error> {
    door.guard.check(&request)?;
    told.page = door.guard.page(request.headers());
    refuse_coding(request.headers())?;
    heads_within(&door.room.limits, request.headers())?;
    let target = request.uri();
    if target.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES) {
        return Err(Error::TargetTooLong(TARGET_BYTES));
    }
    let place = Place::find(target.path()).ok_or(Error::NotFound("resource"))?;
    told.about.route = place.routes.first().map(|route| route.path);
    if request.method() == Method::OPTIONS {
        return Ok(options(&place, told.page.is_some()));
    }
    let Some(route) = place.route(request.method()) else {
        told.is_strange = true;
        return Err(Error::Method { method: request.method().clone(), allow: place.allow() });
    };
    told.about.job = job_of(route, &place.segments);
    let (head, body) = request.into_parts();
    let call = call(door, head, (route, place.segments), told)?;
    let body = Arriving::new(body, call.caller);
    (route.act)(Arc::clone(door), call, body).await
}

/// The job that a path names, if it is a job's name.
fn job_of(route: &Route, segments: &Segments) -> Option<String> {
    let (_, text) = segments.first().filter(|_| route.path.starts_with("/v1/jobs/"))?;
    text.parse::<JobId>().ok().map(|job| job.to_string())
}

/// Finds out who asks, and whether they may, so often.
fn call(
    door: &Door,
    head: Parts,
    (route, segments): (&Route, Segments),
    told: &mut Told,
) -> Result<Call, Error> {
    let peer = head.extensions.get().copied().unwrap_or(Peer(None));
    let address = Address::of(peer, &head.headers);
    let (ticket, query) = match route.access {
        Access::Stream => auth::ticket::taken_from(head.uri.query()),
        _ => (None, head.uri.query().map(str::to_owned)),
    };
    let has_accounts = door.room.auth.mode == AuthMode::Multi;
    let now_ms = door.room.clock.monotonic_ms();
    let access = match route.access {
        Access::Scrape if door.room.auth.metrics_are_public => Access::Public,
        access => access,
    };
    let caller = if access == Access::Public {
        let is_counted = has_accounts && route.path.starts_with("/api/auth/");
        told.standing = if is_counted { door.auth.rates.address(address, now_ms) } else { None };
        Caller::NOBODY
    } else {
        let caller = auth::admit(door, &head, ticket.as_deref())?;
        told.standing = if has_accounts { door.auth.rates.user(caller.user, now_ms) } else { None };
        told.about.user = has_accounts.then_some(caller.user.0);
        caller
    };
    told.standing.as_ref().map_or(Ok(()), Standing::check)?;
    if access != Access::Public {
        caller.may(&head.method, access)?;
    }
    let headers = head.headers;
    Ok(Call { user: caller.user, caller, address, headers, query, segments })
}

/// What is possible here; to an allowed page in the words of CORS as well. Other pages' preflights fail, as they should.
fn options(place: &Place, is_page: bool) -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let allow = place.allow();
    reply::set(&mut reply, header::ALLOW, &allow);
    if is_page {
        cors::preflight(reply.headers_mut(), &allow);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(&'static str, Segments)> {
        Place::find(path).map(|place| (place.routes.first().expect("a route").path, place.segments))
    }

    #[test]
    fn only_exact_paths_lead_somewhere() {
        assert_eq!(found("/v1/jobs"), Some(("/v1/jobs", vec![])));
        let events = Some(("/v1/jobs/{id}/events", vec![("id", "x".to_owned())]));
        assert_eq!(found("/v1/j%6Fbs/x/events"), events);
        for path in
            ["/", "/v1/jobs/", "/v1/jobs/x/", "/v1/jobs/x/events/", "//v1/jobs", "/v1/jobs/x/run", "/V1/jobs"]
        {
            assert_eq!(found(path), None, "{path}");
        }
        assert_eq!(found("/v1/jobs%2Fx"), None, "an escaped slash separates nothing");
        assert_eq!(found("/v1/jobs/%"), None);
    }

    #[test]
    fn each_route_is_there_once_and_lines_of_one_path_stand_together() {
        for (at, route) in ROUTES.iter().enumerate() {
            let rest = ROUTES.get(at + 1..).unwrap_or_default();
            assert!(rest.iter().all(|other| (other.path, &other.method) != (route.path, &route.method)));
            let apart = rest.iter().skip_while(|other| other.path == route.path);
            assert!(apart.into_iter().all(|other| other.path != route.path), "{}", route.path);
        }
    }

    #[test]
    fn names_take_one_segment_and_stars_the_rest() {
        let given = |path: &str| path::segments(path).expect("a path");
        let rest = matched("/p/{id}/files/{*path}", &given("/p/1/files/a/b%20c"));
        assert_eq!(rest, Some(vec![("id", "1".to_owned()), ("path", "a/b c".to_owned())]));
        assert_eq!(matched("/p/{id}/files/{*path}", &given("/p/1/files")), None);
        assert_eq!(matched("/p/{id}", &given("/p/")), None);
    }

    #[test]
    fn a_place_tells_its_methods() {
        assert_eq!(Place::find("/v1/jobs").expect("a place").allow(), "GET, HEAD, POST, OPTIONS");
    }
}
