//! The files of a message: `attachments: [{name, extension?, content}]`. Owns their names' rules; refuses anything but text.

use super::field::{Fields, wrong};
use super::input::within;
use crate::domain::attachment::Attachment;
use crate::domain::limits::Limits;
use crate::http::error::Error;
use serde_json::Value;

/// Characters of a file's name, and of its extension.
const NAME_CHARS: usize = 255;
const EXTENSION_CHARS: usize = 32;

/// The files at `place`; none when nothing stands there.
pub(crate) fn attachments(
    place: &str,
    value: Option<Value>,
    limits: &Limits,
) -> Result<Vec<Attachment>, Error> {
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(place, "a list of {name, content}", &other)),
    };
    let most = limits.input_attachments;
    if list.len() > most {
        let text = format!("'{place}' has more than limits.input_attachments = {most} files");
        return Err(Error::value(place, text));
    }
    let file = |(at, value)| {
        let place = format!("{place}[{at}]");
        attachment(&place, value)
    };
    list.into_iter().enumerate().map(file).collect()
}

fn attachment(place: &str, value: Value) -> Result<Attachment, Error> {
    let Value::Object(map) = value else { return Err(wrong(place, "an object {name, content}", &value)) };
    let read = || {
        let mut fields = Fields::new(map, &["name", "extension", "content"])?;
        let missing = |name: &str| Error::value(name, format!("'{name}' is missing"));
        let name = fields.text("name")?.ok_or_else(|| missing("name"))?;
        let extension = fields.text("extension")?.unwrap_or_default();
        let content = fields.text("content")?.ok_or_else(|| missing("content"))?;
        bounded("name", &name, 1, NAME_CHARS)?;
        bounded("extension", &extension, 0, EXTENSION_CHARS)?;
        Ok(Attachment { name, extension, content })
    };
    read().map_err(|error| within(place, error))
}

fn bounded(name: &str, text: &str, least: usize, most: usize) -> Result<(), Error> {
    if (least..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("'{name}' must have {least} to {most} characters and no control character");
    Err(Error::value(name, text))
}
