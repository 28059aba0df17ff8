//! Reads the body of a request, its key, and what else a request says that becomes a job.

use super::headers::JobHeaders;
use crate::domain::id::UserId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::limits::Limits;
use crate::domain::trace_ids::TraceParent;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::middleware::request_id::RequestId;
use crate::http::quota;
use crate::http::request::body::{self, BufferedBody, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::trace;
use crate::http::server::client_socket::SocketState;
use crate::http::v1::idempotency::{self, RequestFingerprint};
use crate::ports::NewWork;
use hyper::HeaderMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Larger bodies are parsed on a thread that may block.
const INLINE_BYTES: usize = 64 * 1024;
/// JSON values of a body for each that a job may have: messages consist of parts, and functions of schemas.
const VALUES_FACTOR: usize = 8;

/// The most JSON values of a body.
pub(crate) fn most_values(limits: &Limits) -> usize {
    json::most_values(limits).saturating_mul(VALUES_FACTOR)
}

/// A request that becomes a job. Its head is freed otherwise: the job may run for long.
pub(crate) struct JobIntake {
    pub(crate) user: UserId,
    pub(crate) sender: (Caller, SocketState),
    pub(crate) request_id: RequestId,
    pub(crate) headers: JobHeaders,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) trace_parent: Option<TraceParent>,
    pub(crate) body: KeyedBody,
}

impl JobIntake {
    /// Reads head and body. `kind` separates routes under the same key.
    pub(crate) async fn read(
        context: &ServerContext,
        request: RequestContext,
        body: RequestBody,
        kind: &str,
    ) -> Result<Self, ApiError> {
        let body = KeyedBody::read(context, (request.user, &request.headers), body, kind).await?;
        let headers = JobHeaders::of(&request.headers)?;
        let trace_parent = trace::parent(&request.headers);
        let RequestContext { user, caller, socket, request_id, .. } = request;
        let (sender, key) = ((caller, socket), body.key);
        Ok(Self { user, sender, request_id, headers, key, trace_parent, body })
    }
}

/// A body that was not parsed yet, and the key of its request.
pub(crate) struct KeyedBody {
    user: UserId,
    body: BufferedBody,
    pub(crate) key: Option<IdempotencyKey>,
}

impl KeyedBody {
    /// Reads the body. `kind` separates routes under the same key. Fails when the user's quota is used up.
    pub(crate) async fn read(
        context: &ServerContext,
        (user, headers): (UserId, &HeaderMap),
        body: RequestBody,
        kind: &str,
    ) -> Result<Self, ApiError> {
        let given = idempotency::key(headers)?;
        let body = body::read(context, headers, body).await?;
        let key = given.map(|key| {
            let mut fingerprint = RequestFingerprint::new(kind);
            fingerprint.update(&body.bytes);
            key.of(fingerprint)
        });
        quota::check(context, user, given, NewWork::job(body.bytes.len())).await?;
        Ok(Self { user, body, key })
    }

    /// The message of a connection, which has no key. Fails when the user's quota is used up.
    pub(crate) async fn of_message(
        context: &ServerContext,
        user: UserId,
        body: BufferedBody,
    ) -> Result<Self, ApiError> {
        quota::check(context, user, None, NewWork::job(body.bytes.len())).await?;
        Ok(Self { user, body, key: None })
    }

    /// Parses the body, a large one on a thread that may block. The body counts against
    /// `limits.bodies_bytes` until then.
    pub(crate) async fn parse<T: Send + 'static>(
        self,
        context: &Arc<ServerContext>,
        convert: impl FnOnce(Map<String, Value>, &AppDependencies) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let app = Arc::clone(&context.app);
        let BufferedBody { bytes, place } = self.body;
        let is_small = bytes.len() <= INLINE_BYTES;
        let parse = move || {
            let most = most_values(&app.limits);
            let parsed =
                json::object(&bytes, most).map_err(ApiError::from).and_then(|map| convert(map, &app));
            drop(place);
            parsed
        };
        if is_small { parse() } else { context.app.blocking(self.user, parse).await? }
    }
}
