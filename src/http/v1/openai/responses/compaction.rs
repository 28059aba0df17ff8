//! Compaction items: a summary that stands for earlier items. The text is encoded, not secret: whoever holds
//! an item wrote or read what is in it.

use super::ids::item_id;
use crate::domain::id::JobId;
use crate::http::error::ApiError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Version of the encoding.
const PREFIX: &str = "nc1.";
const HEADING: &str = "Summary of the conversation before this point:\n\n";

/// The item of a summary.
pub(super) fn item(job: JobId, summary: &str) -> Value {
    let content = format!("{PREFIX}{}", STANDARD.encode(summary));
    json!({"type": "compaction", "id": item_id("cmp", job, 0), "encrypted_content": content})
}

/// The text of an item for the model.
pub(super) fn open(path: &str, item: &Value) -> Result<String, ApiError> {
    let given =
        item.get("encrypted_content").and_then(Value::as_str).and_then(|text| text.strip_prefix(PREFIX));
    let bytes = given.and_then(|text| STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let path = format!("{path}.encrypted_content");
    let error = || ApiError::value(&path, format!("'{path}' was not made by this server"));
    Ok(format!("{HEADING}{}", text.ok_or_else(error)?))
}
