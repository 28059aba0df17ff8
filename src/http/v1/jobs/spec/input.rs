//! `input`, `system_prompt` and `attachments` of a job.

use crate::domain::attachment::Attachment;
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::quoted::quoted;
use serde_json::{Map, Value};

/// Roles that an input may have. The engine writes all others.
const ROLES: [&str; 3] = ["system", "user", "assistant"];

pub(crate) fn messages(input: Option<Value>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    match input {
        None => Err(ApiError::value("input", "'input' is missing: a string, or a list of {role, content}")),
        Some(Value::String(text)) => prompt(text).map(|message| vec![message]),
        Some(Value::Array(list)) if list.is_empty() => {
            Err(ApiError::value("input", "'input' is an empty list"))
        }
        Some(Value::Array(list)) if list.len() > limits.input_messages => {
            let most = limits.input_messages;
            Err(ApiError::value(
                "input",
                format!("'input' has more than limits.input_messages = {most} messages"),
            ))
        }
        Some(Value::Array(list)) => {
            let place = |at: usize| format!("input[{at}]");
            list.into_iter().enumerate().map(|(at, value)| message(&place(at), value, limits)).collect()
        }
        Some(other) => Err(wrong("input", "a string, or a list of {role, content}", &other)),
    }
}

pub(crate) fn prompt(text: String) -> Result<Message, ApiError> {
    if text.trim().is_empty() {
        return Err(ApiError::value("input", "the input is empty"));
    }
    Ok(Message::user(text))
}

/// Checks the texts of a job against `limits.input_bytes`.
pub(crate) fn check_size(
    input: &[Message],
    system_prompt: Option<&str>,
    limits: &Limits,
) -> Result<(), ApiError> {
    let said: usize = input.iter().map(Message::bytes).sum();
    if said + system_prompt.map_or(0, str::len) > limits.input_bytes {
        return Err(ApiError::InputTooLarge(limits.input_bytes));
    }
    Ok(())
}

fn message(place: &str, value: Value, limits: &Limits) -> Result<Message, ApiError> {
    let Value::Object(map) = value else { return Err(wrong(place, "an object {role, content}", &value)) };
    let MessageFields { role, content, files } =
        MessageFields::of(map).map_err(|error| within(place, error))?;
    let files_place = format!("{place}.attachments");
    if files.is_some() && role != "user" {
        let text = format!("'{files_place}' belongs to messages of role user alone");
        return Err(ApiError::value(&files_place, text));
    }
    let attachments = attachments(&files_place, files, limits)?;
    match role.as_str() {
        "system" => Ok(Message::System { content }),
        "user" => Ok(Message::User { content, attachments }),
        "assistant" => Ok(Message::assistant(content)),
        other => {
            let meant = hint(other, ROLES);
            let text =
                format!("'{place}.role' must be one of {}, not {}{meant}", ROLES.join(", "), quoted(other));
            Err(ApiError::value(&format!("{place}.role"), text))
        }
    }
}

/// The fields of a message.
struct MessageFields {
    role: String,
    content: String,
    files: Option<Value>,
}

impl MessageFields {
    fn of(map: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = ObjectFields::new(map, &["role", "content", "attachments"])?;
        let missing = |name: &str| ApiError::value(name, format!("'{name}' is missing"));
        let role = fields.text("role")?.ok_or_else(|| missing("role"))?;
        let (content, files) = (fields.text("content")?, fields.take("attachments"));
        // A message with files needs no text.
        let content =
            content.or_else(|| files.is_some().then(String::new)).ok_or_else(|| missing("content"))?;
        Ok(Self { role, content, files })
    }
}

/// Puts the position of the message or file before the error.
pub(crate) fn within(place: &str, error: ApiError) -> ApiError {
    match error {
        ApiError::Invalid { message, param, code } => ApiError::Invalid {
            message: format!("{place}: {message}"),
            param: param.map(|name| format!("{place}.{name}")),
            code,
        },
        other => other,
    }
}

/// Characters of a file's name, and of its extension.
const NAME_CHARS: usize = 255;
const EXTENSION_CHARS: usize = 32;

pub(crate) fn attachments(
    place: &str,
    value: Option<Value>,
    limits: &Limits,
) -> Result<Vec<Attachment>, ApiError> {
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(place, "a list of {name, content}", &other)),
    };
    let most = limits.input_attachments;
    if list.len() > most {
        let text = format!("'{place}' has more than limits.input_attachments = {most} files");
        return Err(ApiError::value(place, text));
    }
    let file = |(at, value)| {
        let place = format!("{place}[{at}]");
        attachment(&place, value)
    };
    list.into_iter().enumerate().map(file).collect()
}

fn attachment(place: &str, value: Value) -> Result<Attachment, ApiError> {
    let Value::Object(map) = value else { return Err(wrong(place, "an object {name, content}", &value)) };
    let read = || {
        let mut fields = ObjectFields::new(map, &["name", "extension", "content"])?;
        let missing = |name: &str| ApiError::value(name, format!("'{name}' is missing"));
        let name = fields.text("name")?.ok_or_else(|| missing("name"))?;
        let extension = fields.text("extension")?.unwrap_or_default();
        let content = fields.text("content")?.ok_or_else(|| missing("content"))?;
        bounded("name", &name, 1, NAME_CHARS)?;
        bounded("extension", &extension, 0, EXTENSION_CHARS)?;
        Ok(Attachment { name, extension, content })
    };
    read().map_err(|error| within(place, error))
}

fn bounded(name: &str, text: &str, least: usize, most: usize) -> Result<(), ApiError> {
    if (least..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("'{name}' must have {least} to {most} characters and no control character");
    Err(ApiError::value(name, text))
}
