//! Small schemas that several routes are put together of.

use super::operation::named;
use crate::domain::image::ImageDetail;
use crate::domain::limits::Limits;
use serde_json::{Value, json};

/// A data URL of an image; the server fetches no other.
const IMAGE_URL: &str = "^data:image/(png|jpeg|jpg|gif|webp);base64,[A-Za-z0-9+/]+=*$";

/// An object with these fields and no others.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn closed(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object with these fields; others change nothing.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn open(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The same, or `null`.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

/// A text, or a list of such items.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn text_or_list(items: Value) -> Value {
    json!({"anyOf": [text(), {"type": "array", "items": items}]})
}

pub(super) fn number(least: f64, most: f64) -> Value {
    json!({"type": "number", "minimum": least, "maximum": most})
}

/// A list of input messages or items.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn messages(items: Value) -> Value {
    let most = Limits::default().input_messages;
    json!({"type": "array", "minItems": 1, "maxItems": most, "x-limit": "input_messages", "items": items})
}

/// The URL of an image.
pub(super) fn image_url() -> Value {
    json!({"type": "string", "pattern": IMAGE_URL})
}

/// How closely a model looks at an image.
pub(super) fn image_detail() -> Value {
    json!({"enum": [ImageDetail::Low, ImageDetail::High, ImageDetail::Original, ImageDetail::Auto, null]})
}

/// A name of a function.
pub(super) fn function_name(most: usize) -> Value {
    json!({"type": "string", "pattern": format!("^[A-Za-z0-9_-]{{1,{most}}}$")})
}

/// The id of an item of this server.
pub(super) fn item_id() -> Value {
    json!({"type": "string", "pattern": "^[a-z]+_[0-7][0-9A-HJKMNP-TV-Z]{25}_[0-9]{1,4}(_in|_add)?$"})
}

/// A page of items.
pub(super) fn item_page() -> Value {
    open(
        json!({
            "object": {"const": "list"},
            "data": {"type": "array", "items": named("StoredItem")},
            "first_id": text_or_null(),
            "last_id": text_or_null(),
            "has_more": {"type": "boolean"},
        }),
        &["object", "data", "first_id", "last_id", "has_more"],
    )
}
