//! Bodies of `/api/auth`. They are bounded tightly, because anybody may send them.

use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::{self, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::fields::ObjectFields;
use crate::http::request::json;
use crate::http::request::query::QueryString;
use serde_json::{Map, Value};

/// The largest, bytes.
const MOST_BYTES: usize = 16 * 1024;
/// JSON values in one.
const MOST_VALUES: usize = 64;

/// The object of the body. A query is an error.
pub(crate) async fn read(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
) -> Result<Map<String, Value>, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let body = body::read_up_to(context, &request.headers, body, MOST_BYTES).await?;
    Ok(json::object(&body.bytes, MOST_VALUES)?)
}

/// A secret string: errors do not repeat it.
pub(crate) fn secret(fields: &mut ObjectFields, name: &str) -> Result<Option<String>, ApiError> {
    match fields.take(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::value(name, format!("'{name}' must be a string"))),
    }
}

/// Both fields, or an error that names what is missing.
pub(crate) fn both(
    (first, a): (&str, Option<String>),
    (second, b): (&str, Option<String>),
) -> Result<(String, String), ApiError> {
    match (a, b) {
        (Some(a), Some(b)) => Ok((a, b)),
        (None, Some(_)) => Err(ApiError::value(first, format!("'{first}' is missing"))),
        (Some(_), None) => Err(ApiError::value(second, format!("'{second}' is missing"))),
        (None, None) => Err(ApiError::value(first, format!("'{first}' and '{second}' are missing"))),
    }
}
