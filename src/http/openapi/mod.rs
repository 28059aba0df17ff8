//! `GET /openapi.json`: what this server serves, for programs. Owns the document's last touch (the models, tools and bounds of
//! this server); the document itself is drawn by a test from the types and readers that the handlers use
//! (`UPDATE_OPENAPI=1 cargo test openapi` writes it), so that it cannot fall behind them.

use super::door::Door;
use super::error::Error;
use super::query::Query;
use super::reply::{self, Reply};
use super::room::Room;
use super::router::Call;
use crate::domain::tool::ToolChoice;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The document with the default bounds; a test writes it.
const DRAWN: &str = include_str!("openapi.json");

/// The key under which the document names the limit that bounds a value.
const LIMIT: &str = "x-limit";

/// The document of this server.
pub(crate) fn openapi(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    // Made once: it is public, and nothing in it changes while the server runs.
    if let Some(made) = door.openapi.get() {
        return Ok(reply::prepared(made.clone()));
    }
    let mut document = serde_json::from_str(DRAWN).map_err(|_| Error::Internal)?;
    settle(&mut document, &door.room);
    let made = Bytes::from(serde_json::to_vec(&document).map_err(|_| Error::Internal)?);
    Ok(reply::prepared(door.openapi.get_or_init(|| made).clone()))
}

/// Fills in what only a running server knows.
fn settle(document: &mut Value, room: &Room) {
    let models: Vec<String> = room.model.models().into_iter().map(|model| model.id).collect();
    let offered = room.toolbox.offered(&ToolChoice::All(true), true);
    let tools: Vec<&str> = offered.iter().map(|tool| tool.name.as_ref()).collect();
    for (place, names) in
        [("/components/schemas/Model", json!(models)), ("/components/schemas/ToolName", json!(tools))]
    {
        if let Some(Value::Object(schema)) = document.pointer_mut(place) {
            schema.insert("enum".to_owned(), names);
        }
    }
    if let Ok(Value::Object(mut limits)) = serde_json::to_value(&room.limits) {
        limits.insert("max_iterations".to_owned(), room.max_iterations.into());
        bound(document, &limits);
    }
}

/// Puts this server's own bounds where the document names one (`x-limit`).
fn bound(part: &mut Value, limits: &Map<String, Value>) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(|item| bound(item, limits)),
        Value::Object(map) => {
            let name = map.get(LIMIT).and_then(Value::as_str).map(str::to_owned);
            if let Some(most) = name.and_then(|name| limits.get(&name)) {
                let bounded =
                    ["maximum", "maxItems", "maxLength"].into_iter().find(|key| map.contains_key(*key));
                map.insert(bounded.unwrap_or("maximum").to_owned(), most.clone());
            }
            map.values_mut().for_each(|value| bound(value, limits));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
