//! From a request to the handler of its route, and the headers that every response carries.

use super::console;
use super::context::ServerContext;
use super::error::ApiError;
use super::middleware::access_log::MeteredBody;
use super::middleware::request_id::{REQUEST_ID, RequestId, X_REQUEST_ID};
use super::middleware::tracker::{RequestNotes, RequestTracker};
use super::middleware::{admission, cors, revocation, security_headers};
use super::request::body::RequestBody;
use super::request::context::{PathParameters, RequestContext};
use super::request::peer::Peer;
use super::request::percent;
use super::request::query::QueryString;
use super::response::error::ErrorFormat;
use super::response::held::AnswerMemory;
use super::response::{self, HandlerResult, HttpResponse};
use super::routes::{ApiRoute, ROUTES};
use super::server::client_body::ClientBody;
use super::server::client_socket::SocketState;
use super::shares::{HeldShare, ShareOwner, SharedBudget};
use crate::domain::id::JobId;
use crate::domain::limits::Limits;
use hyper::header;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use tracing::Instrument;

/// The longest path and query together, bytes.
const TARGET_BYTES: usize = 4 * 1024;

/// The routes of each path.
static PATHS: LazyLock<matchit::Router<Vec<&'static ApiRoute>>> = LazyLock::new(|| {
    let mut by_path: BTreeMap<&str, Vec<&'static ApiRoute>> = BTreeMap::new();
    for route in ROUTES {
        by_path.entry(route.path).or_default().push(route);
    }
    let mut paths = matchit::Router::new();
    for (path, routes) in by_path {
        if let Err(error) = paths.insert(path, routes) {
            tracing::error!(path, %error, "route cannot be added"); // a test holds that none is refused
        }
    }
    paths
});

/// The routes of a request's path, one for each method, and its parameters.
struct RouteMatch {
    routes: &'static [&'static ApiRoute],
    segments: PathParameters,
}

impl RouteMatch {
    /// A fixed segment wins over a parameter: `/projects/upload` is no project.
    fn find(path: &str) -> Option<Self> {
        let path = percent::normalized(path)?;
        let found = PATHS.at(&path).ok()?;
        let decoded = |(name, text)| Some((name, percent::decode(text, false)?));
        let segments = found.params.iter().map(decoded).collect::<Option<_>>()?;
        Some(Self { routes: found.value, segments })
    }

    fn route(&self, method: &Method) -> Option<&'static ApiRoute> {
        // hyper drops the body of a response to HEAD.
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        self.routes.iter().copied().find(|route| route.method == *wanted)
    }

    fn allow(&self) -> String {
        let mut allow = String::new();
        for route in self.routes {
            allow.push_str(route.method.as_str());
            allow.push_str(if route.method == Method::GET { ", HEAD, " } else { ", " });
        }
        allow + "OPTIONS"
    }
}

/// Answers a request. Log lines on the way carry the request's id.
pub(crate) async fn answer(
    context: &Arc<ServerContext>,
    request: Request<ClientBody>,
) -> Response<MeteredBody> {
    let id = RequestId::of(request.headers(), context.app.entropy.as_ref());
    let format = ErrorFormat::of(request.uri().path(), request.headers(), &id);
    let span = tracing::error_span!("request", request = %id);
    let mut tracker = RequestTracker::begin(context, request.method(), &id);
    let notes = &mut tracker.notes;
    let mut response = match handle(context, request, &id, notes).instrument(span).await {
        Ok(response) => response,
        Err(error) => {
            notes.details.error = error.fault();
            error.into_response(format)
        }
    };
    let headers = response.headers_mut();
    security_headers::apply(headers);
    if let Some(id) = id.header() {
        if let ErrorFormat::Anthropic(_) = format {
            headers.insert(REQUEST_ID, id.clone());
        }
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
    request: Request<ClientBody>,
    id: &RequestId,
    notes: &mut RequestNotes,
) -> HandlerResult {
    if request.uri().path() == console::PAGE_PATH && request.method() == Method::GET {
        // A link on another site may open the page: it holds no data, and its cookie is not sent with it.
        context.guard.check_host(&request)?;
    } else {
        context.guard.check(&request)?;
    }
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
    let (mut head, body) = request.into_parts();
    let socket = head.extensions.remove::<SocketState>().unwrap_or_default();
    let (caller, address, query) = admission::admit(context, &head, route, notes)?;
    let owner = ShareOwner::of(context.app.auth.mode, &caller, address);
    // A connection of another machine has its address's place already.
    let is_forwarded = head.extensions.get::<Peer>().is_none_or(|peer| peer.is_local());
    let forwarded = ShareOwner::of_address(address).filter(|_| is_forwarded);
    if let Some(holder) = owner.or(forwarded) {
        socket.set_holder(holder);
    }
    notes.held.extend(owner.map(|owner| request_place(context, &context.requests, owner)).transpose()?);
    notes
        .held
        .extend(forwarded.map(|owner| request_place(context, &context.connections, owner)).transpose()?);
    let query = QueryString::parse(query.as_deref(), route.query)?;
    let segments = found.segments;
    let request = RequestContext {
        request_id: id.clone(),
        method: head.method,
        version: head.version,
        user: caller.user,
        caller,
        address,
        owner,
        headers: head.headers,
        query,
        segments,
        socket,
    };
    let body = RequestBody::new(body, &request);
    let answer = (route.handler)(Arc::clone(context), request, body);
    let response = revocation::revocable(context, caller, answer).await?;
    // What a write has done is answered, however large the answer is.
    if route.method == Method::GET {
        notes.held.extend(AnswerMemory::of_response(context, owner, &response)?);
    }
    Ok(response)
}

/// A place for a request of this owner until its response has ended.
fn request_place(
    context: &ServerContext,
    budget: &Arc<SharedBudget>,
    owner: ShareOwner,
) -> Result<HeldShare, ApiError> {
    HeldShare::place(budget, Some(owner)).map_err(|_| ApiError::ConnectionShare {
        whose: match owner {
            ShareOwner::User(_) => "you",
            ShareOwner::Address(_) => "your address",
        },
        most: context.app.limits.connections,
    })
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

/// The methods of a path; for an allowed page in the headers of CORS, too. The preflight of any other page
/// fails.
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
    fn only_exact_paths_are_routes() {
        assert_eq!(found("/v1/jobs"), Some(("/v1/jobs", vec![])));
        let events = Some(("/v1/jobs/{id}/events", vec![("id", "x".to_owned())]));
        assert_eq!(found("/v1/j%6Fbs/x/events"), events);
        for path in [
            "/v1",
            "/v1/jobs/",
            "/v1/jobs/x/",
            "/v1/jobs/x/events/",
            "//v1/jobs",
            "/v1/jobs/x/run",
            "/V1/jobs",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
        assert_eq!(found("/v1/jobs%2Fx"), None, "an escaped slash separates nothing");
        assert_eq!(found("/v1/jobs/%"), None);
    }

    #[test]
    fn every_route_is_found_by_its_path_and_method() {
        for (at, route) in ROUTES.iter().enumerate() {
            let rest = ROUTES.get(at + 1..).unwrap_or_default();
            assert!(rest.iter().all(|other| (other.path, &other.method) != (route.path, &route.method)));
            let example = route.path.replace(['{', '}', '*'], "");
            let found = RouteMatch::find(&example).and_then(|found| found.route(&route.method));
            assert!(found.is_some_and(|found| found.path == route.path), "{}", route.path);
        }
    }

    #[test]
    fn a_path_parameter_matches_one_segment_and_a_star_the_rest() {
        let path = "/api/projects/{id}/files/{*path}";
        let rest = vec![("id", "1".to_owned()), ("path", "a/b c".to_owned())];
        assert_eq!(found("/api/projects/1/files/a/b%20c"), Some((path, rest)));
        let escaped = vec![("id", "a/b%".to_owned()), ("path", "%2F".to_owned())];
        assert_eq!(found("/api/projects/a%2Fb%25/files/%252F"), Some((path, escaped)));
        assert_eq!(found("/api/projects/1/files").map(|found| found.0), Some("/api/projects/{id}/files"));
        assert_eq!(found("/api/projects/1/files/"), None);
        assert_eq!(found("/api/projects/upload").map(|found| found.0), Some("/api/projects/upload"));
        assert_eq!(found("/v1/jobs/"), None);
    }

    #[test]
    fn a_path_lists_its_allowed_methods() {
        assert_eq!(RouteMatch::find("/v1/jobs").expect("a path").allow(), "GET, HEAD, POST, OPTIONS");
    }
}
