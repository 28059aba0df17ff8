//! JSON bodies of `/api`. Large ones are parsed on a thread that may block. No body is an empty object.

use crate::http::blocking::blocking;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::{self, BufferedBody, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::query::QueryString;
use serde_json::{Map, Value};
use std::sync::Arc;

/// JSON values of a small body.
const MOST_VALUES: usize = 256;

/// Parses a small body. A query is an error.
pub(crate) async fn object(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
) -> Result<Map<String, Value>, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let BufferedBody { bytes, place } = body::read(context, &request.headers, body).await?;
    let map = parsed(&bytes, MOST_VALUES);
    drop(place);
    map
}

/// Parses a body that may be large, on a thread that may block.
pub(crate) async fn large_object<T, F>(
    context: &Arc<ServerContext>,
    body: BufferedBody,
    read: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(Map<String, Value>, &AppDependencies) -> Result<T, ApiError> + Send + 'static,
{
    let app = Arc::clone(&context.app);
    let parsing = blocking(move || {
        let BufferedBody { bytes, place } = body;
        let read = parsed(&bytes, json::most_values(&app.limits)).and_then(|map| read(map, &app));
        drop(place);
        read
    });
    parsing.await?
}

fn parsed(bytes: &[u8], most_values: usize) -> Result<Map<String, Value>, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    Ok(json::object(bytes, most_values)?)
}
