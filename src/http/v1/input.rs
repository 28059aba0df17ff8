//! `input` and `system_prompt`: what a job says. Owns the two forms of `input`; refuses empty ones, and roles that only
//! the engine writes.

use super::attachments;
use super::field::{Fields, wrong};
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::domain::nearest::hint;
use crate::http::error::Error;
use crate::http::quoted::quoted;
use serde_json::{Map, Value};

/// Who may speak in an input.
const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// The messages of an `input`: a string is one message of the user.
pub(crate) fn messages(input: Option<Value>, limits: &Limits) -> Result<Vec<Message>, Error> {
    match input {
        None => Err(Error::value("input", "'input' is missing: a string, or a list of {role, content}")),
        Some(Value::String(text)) => prompt(text).map(|message| vec![message]),
        Some(Value::Array(list)) if list.is_empty() => Err(Error::value("input", "'input' is an empty list")),
        Some(Value::Array(list)) if list.len() > limits.input_messages => {
            let most = limits.input_messages;
            Err(Error::value(
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

/// A bare prompt.
pub(crate) fn prompt(text: String) -> Result<Message, Error> {
    if text.trim().is_empty() {
        return Err(Error::value("input", "the input is empty"));
    }
    Ok(Message::user(text))
}

/// Holds the texts of a job against `limits.input_bytes`.
pub(crate) fn check_size(
    input: &[Message],
    system_prompt: Option<&str>,
    limits: &Limits,
) -> Result<(), Error> {
    let said: usize = input.iter().map(Message::bytes).sum();
    if said + system_prompt.map_or(0, str::len) > limits.input_bytes {
        return Err(Error::InputTooLarge(limits.input_bytes));
    }
    Ok(())
}

fn message(place: &str, value: Value, limits: &Limits) -> Result<Message, Error> {
    let Value::Object(map) = value else { return Err(wrong(place, "an object {role, content}", &value)) };
    let Parts { role, content, files } = Parts::of(map).map_err(|error| within(place, error))?;
    let files_place = format!("{place}.attachments");
    if files.is_some() && role != "user" {
        let text = format!("'{files_place}' belongs to messages of role user alone");
        return Err(Error::value(&files_place, text));
    }
    let attachments = attachments::attachments(&files_place, files, limits)?;
    match role.as_str() {
        "system" => Ok(Message::System { content }),
        "user" => Ok(Message::User { content, attachments }),
        "assistant" => Ok(Message::assistant(content)),
        other => {
            let meant = hint(other, ROLES);
            let text =
                format!("'{place}.role' must be one of {}, not {}{meant}", ROLES.join(", "), quoted(other));
            Err(Error::value(&format!("{place}.role"), text))
        }
    }
}

/// The fields of a message.
struct Parts {
    role: String,
    content: String,
    files: Option<Value>,
}

impl Parts {
    fn of(map: Map<String, Value>) -> Result<Self, Error> {
        let mut fields = Fields::new(map, &["role", "content", "attachments"])?;
        let missing = |name: &str| Error::value(name, format!("'{name}' is missing"));
        let role = fields.text("role")?.ok_or_else(|| missing("role"))?;
        let (content, files) = (fields.text("content")?, fields.take("attachments"));
        // Files may speak for themselves.
        let content =
            content.or_else(|| files.is_some().then(String::new)).ok_or_else(|| missing("content"))?;
        Ok(Self { role, content, files })
    }
}

/// Says where the message, or the file of one, stands.
pub(super) fn within(place: &str, error: Error) -> Error {
    match error {
        Error::Invalid { message, param, code } => Error::Invalid {
            message: format!("{place}: {message}"),
            param: param.map(|name| format!("{place}.{name}")),
            code,
        },
        other => other,
    }
}
