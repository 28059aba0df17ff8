//! A request's JSON object, where `/api` takes a small one. No body is an empty object.

use crate::http::arriving::Arriving;
use crate::http::body::{self, Whole};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::query::Query;
use crate::http::router::Call;
use serde_json::{Map, Value};

/// The most values that such an object may hold.
const MOST_VALUES: usize = 256;

/// Reads it. There is no query beside it.
pub(crate) async fn object(door: &Door, call: &Call, body: Arriving) -> Result<Map<String, Value>, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let Whole { bytes, place } = body::read(door, &call.headers, body).await?;
    let map = if bytes.is_empty() { Ok(Map::new()) } else { json::object(&bytes, MOST_VALUES) };
    drop(place);
    Ok(map?)
}
