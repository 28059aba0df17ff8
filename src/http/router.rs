//! From a request to the handler of its route, and the headers that every response carries.

use super::context::ServerContext;
use super::error::ApiError;
use super::middleware::access_log::MeteredBody;
use super::middleware::request_id::{RequestId, X_REQUEST_ID};
use super::middleware::tracker::{RequestNotes, RequestTracker};
use super::middleware::{admission, cors, security_headers};
use super::request::body::RequestBody;
use super::request::context::{PathParameters, RequestContext};
use super::request::percent;
use super::response::error::ErrorFormat;
use super::response::{self, HttpResponse};
use super::routes::{ApiRoute, ROUTES};
use crate::domain::id::JobId;
use crate::domain::limits::Limits;
use hyper::body::Incoming;
use hyper::header;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::sync::Arc;
use tracing::Instrument;

/// The longest path and query together, bytes.
const TARGET_BYTES: usize = 4 * 1024;

/// What a path leads to.
struct RouteMatch {
    /// One route for each method.
    routes: Vec<&'static ApiRoute>,
    segments: PathParameters,
}

impl RouteMatch {
    /// Exact segments win over names: `/projects/upload` is no project.
    fn find(path: &str) -> Option<Self> {
        let given = percent::segments(path)?;
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

    fn route(&self, method: &Method) -> Option<&'static ApiRoute> {
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

fn matched(pattern: &'static str, given: &[String]) -> Option<PathParameters> {
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

/// Answers a request. Log lines on the way carry the request's id.
pub(crate) async fn answer(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
) -> Response<MeteredBody> {
    let format = ErrorFormat::of(request.uri().path());
    let id = RequestId::of(request.headers(), context.app.entropy.as_ref());
    let span = tracing::error_span!("request", request = %id);
    let mut tracker = RequestTracker::begin(context, request.method(), &id);
    let notes = &mut tracker.notes;
    let mut response = match handle(context, request, notes).instrument(span).await {
        Ok(response) => response,
        Err(error) => {
            notes.details.error = error.fault();
            error.into_response(format)
        }
    };
    let headers = response.headers_mut();
    security_headers::apply(headers);
    if let Some(id) = id.header() {
        headers.insert(X_REQUEST_ID, id);
    }
    if let Some(status) = &notes.rate_limit {
        status.write(headers);
    }
    if context.guard.allows_pages() {
        cors::vary(headers);
    }
    if let Some(origin) = notes.origin.take() {
        cors::allow(headers, origin);
    }
    tracker.answered(response)
}

async fn handle(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    notes: &mut RequestNotes,
) -> Result<HttpResponse, ApiError> {
    context.guard.check(&request)?;
    notes.origin = context.guard.page(request.headers());
    check_transfer_encoding(request.headers())?;
    check_header_count(&context.app.limits, request.headers())?;
    let target = request.uri();
    if target.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES) {
        return Err(ApiError::TargetTooLong(TARGET_BYTES));
    }
    let found = RouteMatch::find(target.path()).ok_or(ApiError::NotFound("resource"))?;
    notes.details.route = found.routes.first().map(|route| route.path);
    if request.method() == Method::OPTIONS {
        return Ok(options(&found, notes.origin.is_some()));
    }
    let Some(route) = found.route(request.method()) else {
        notes.is_unknown_method = true;
        return Err(ApiError::Method { method: request.method().clone(), allow: found.allow() });
    };
    notes.details.job = job_of(route, &found.segments);
    let (head, body) = request.into_parts();
    let (caller, address, query) = admission::admit(context, &head, route, notes)?;
    let segments = found.segments;
    let request =
        RequestContext { user: caller.user, caller, address, headers: head.headers, query, segments };
    let body = RequestBody::new(body, request.caller);
    (route.act)(Arc::clone(context), request, body).await
}

/// hyper checks the last coding only and would hand on a body that is still coded.
fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    if lines.any(|line| !line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Err(ApiError::malformed("the only Transfer-Encoding that is taken is 'chunked'"));
    }
    Ok(())
}

/// The bound on header lines where it is below hyper's own. hyper itself bounds their bytes.
fn check_header_count(limits: &Limits, headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.len() > limits.headers {
        return Err(ApiError::HeadersTooLarge(format!("limits.headers = {}", limits.headers)));
    }
    Ok(())
}

/// The job that a path names, for the log.
fn job_of(route: &ApiRoute, segments: &PathParameters) -> Option<String> {
    let (_, text) = segments.first().filter(|_| route.path.starts_with("/v1/jobs/"))?;
    text.parse::<JobId>().ok().map(|job| job.to_string())
}

/// The methods of a path; for an allowed page in the headers of CORS, too. The preflight of any other page fails.
fn options(found: &RouteMatch, is_page: bool) -> HttpResponse {
    let mut response = response::empty(StatusCode::NO_CONTENT);
    let allow = found.allow();
    response::set(&mut response, header::ALLOW, &allow);
    if is_page {
        cors::preflight(response.headers_mut(), &allow);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(&'static str, PathParameters)> {
        RouteMatch::find(path).map(|place| (place.routes.first().expect("a route").path, place.segments))
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
        let given = |path: &str| percent::segments(path).expect("a path");
        let rest = matched("/p/{id}/files/{*path}", &given("/p/1/files/a/b%20c"));
        assert_eq!(rest, Some(vec![("id", "1".to_owned()), ("path", "a/b c".to_owned())]));
        assert_eq!(matched("/p/{id}/files/{*path}", &given("/p/1/files")), None);
        assert_eq!(matched("/p/{id}", &given("/p/")), None);
    }

    #[test]
    fn a_place_tells_its_methods() {
        assert_eq!(RouteMatch::find("/v1/jobs").expect("a place").allow(), "GET, HEAD, POST, OPTIONS");
    }
}
