//! The bodies of `/api/auth`. Owns how large they may be, which is little: whoever sends them may be anybody; refuses to know
//! what stands in them.

use crate::http::arriving::Arriving;
use crate::http::body;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::query::Query;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use serde_json::{Map, Value};

/// The largest, bytes.
const MOST_BYTES: usize = 16 * 1024;
/// JSON values in one.
const MOST_VALUES: usize = 64;

/// The body's object; there is no query beside it.
pub(super) async fn read(door: &Door, call: &Call, body: Arriving) -> Result<Map<String, Value>, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let body = body::read_up_to(door, &call.headers, body, MOST_BYTES).await?;
    Ok(json::object(&body.bytes, MOST_VALUES)?)
}

/// A string that nobody may see again, not even in what is wrong with it.
pub(in crate::http::api) fn secret(fields: &mut Fields, name: &str) -> Result<Option<String>, Error> {
    match fields.take(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::value(name, format!("'{name}' must be a string"))),
    }
}

/// Both, or which of them is missing.
pub(super) fn both(
    (first, a): (&str, Option<String>),
    (second, b): (&str, Option<String>),
) -> Result<(String, String), Error> {
    match (a, b) {
        (Some(a), Some(b)) => Ok((a, b)),
        (None, Some(_)) => Err(Error::value(first, format!("'{first}' is missing"))),
        (Some(_), None) => Err(Error::value(second, format!("'{second}' is missing"))),
        (None, None) => Err(Error::value(first, format!("'{first}' and '{second}' are missing"))),
    }
}
