//! `GET /openapi.json`. A test draws the document from the types and readers that the handlers use
//! (`UPDATE_OPENAPI=1 cargo test openapi` writes it). Models, tools and limits of this server are filled in
//! at run time.

use crate::domain::tool::ToolChoice;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use std::io::Read as _;

/// The document with the default bounds, packed by build.rs; a test writes it.
const DRAWN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// The key that names the configured limit of a value.
const LIMIT: &str = "x-limit";

pub(crate) fn openapi(context: &ServerContext, _: &RequestContext) -> HandlerResult {
    // Rendered once: it does not change while the server runs.
    if let Some(rendered) = context.openapi.get() {
        return Ok(response::prepared(rendered.clone()));
    }
    let mut drawn = Vec::new();
    GzDecoder::new(DRAWN).read_to_end(&mut drawn).map_err(|_| ApiError::Internal)?;
    let mut document = serde_json::from_slice(&drawn).map_err(|_| ApiError::Internal)?;
    fill_in(&mut document, &context.app);
    let rendered = Bytes::from(serde_json::to_vec(&document).map_err(|_| ApiError::Internal)?);
    Ok(response::prepared(context.openapi.get_or_init(|| rendered).clone()))
}

/// Fills in the models, tools and limits of this server.
fn fill_in(document: &mut Value, app: &AppDependencies) {
    let models: Vec<String> = app.model.models().into_iter().map(|model| model.id).collect();
    let infos = app.toolbox.tool_infos();
    let mut tools: Vec<&str> = infos.iter().map(|info| info.spec.name.as_ref()).collect();
    tools.retain(|name| app.toolbox.never_works(name).is_none());
    tools.extend(ToolChoice::GROUPS);
    for (place, names) in
        [("/components/schemas/Model", json!(models)), ("/components/schemas/ToolName", json!(tools))]
    {
        if let Some(Value::Object(schema)) = document.pointer_mut(place) {
            schema.insert("enum".to_owned(), names);
        }
    }
    if let Ok(Value::Object(mut limits)) = serde_json::to_value(&app.limits) {
        limits.insert("max_iterations".to_owned(), app.max_iterations.into());
        apply_limits(document, &limits);
    }
}

/// Replaces bounds that name a limit (`x-limit`) by the configured ones.
fn apply_limits(part: &mut Value, limits: &Map<String, Value>) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(|item| apply_limits(item, limits)),
        Value::Object(map) => {
            let name = map.get(LIMIT).and_then(Value::as_str).map(str::to_owned);
            if let Some(most) = name.and_then(|name| limits.get(&name)) {
                let bounded =
                    ["maximum", "maxItems", "maxLength"].into_iter().find(|key| map.contains_key(*key));
                map.insert(bounded.unwrap_or("maximum").to_owned(), most.clone());
            }
            map.values_mut().for_each(|value| apply_limits(value, limits));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
