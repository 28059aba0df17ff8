//! The JSON object that a body of `/api` is. Owns the two ways to read one: a small one at once, one that may be large on a
//! thread that may be busy for a while. No body is an empty object. Refuses to know its fields.

use crate::http::arriving::Arriving;
use crate::http::blocking::blocking;
use crate::http::body::{self, Whole};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::query::Query;
use crate::http::room::Room;
use crate::http::router::Call;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The most values that a small object may hold.
const MOST_VALUES: usize = 256;

/// A small one. There is no query beside it.
pub(crate) async fn object(door: &Door, call: &Call, body: Arriving) -> Result<Map<String, Value>, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let Whole { bytes, place } = body::read(door, &call.headers, body).await?;
    let map = parsed(&bytes, MOST_VALUES);
    drop(place);
    map
}

/// What `read` makes of one that may be large. The body keeps its place until then.
pub(crate) async fn large_object<T, F>(door: &Arc<Door>, body: Whole, read: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(Map<String, Value>, &Room) -> Result<T, Error> + Send + 'static,
{
    let room = Arc::clone(&door.room);
    let parsing = blocking(move || {
        let Whole { bytes, place } = body;
        let read = parsed(&bytes, json::most_values(&room.limits)).and_then(|map| read(map, &room));
        drop(place);
        read
    });
    parsing.await?
}

fn parsed(bytes: &[u8], most_values: usize) -> Result<Map<String, Value>, Error> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    Ok(json::object(bytes, most_values)?)
}
