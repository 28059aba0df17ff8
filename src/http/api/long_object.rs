//! The JSON object that a body of `/api` is. Owns the reading of it on a thread that may be busy for a while; refuses to know
//! its fields.

use crate::http::body::Whole;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::room::Room;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What `read` makes of the body's object; no body is an empty object. The body keeps its place until then.
pub(crate) async fn object<T, F>(door: &Arc<Door>, body: Whole, read: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(Map<String, Value>, &Room) -> Result<T, Error> + Send + 'static,
{
    let room = Arc::clone(&door.room);
    let parsing = tokio::task::spawn_blocking(move || {
        let Whole { bytes, place } = body;
        let map = if bytes.iter().all(u8::is_ascii_whitespace) {
            Ok(Map::new())
        } else {
            json::object(&bytes, json::most_values(&room.limits))
        };
        let read = map.map_err(Error::from).and_then(|map| read(map, &room));
        drop(place);
        read
    });
    parsing.await.map_err(|_| Error::Internal)?
}
