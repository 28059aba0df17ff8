//! `input` and `system_prompt`: what a job says. Owns the two forms of `input`; refuses empty ones, and roles that only
//! the engine writes.

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
            list.into_iter().enumerate().map(|(at, value)| message(&format!("input[{at}]"), value)).collect()
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

fn message(place: &str, value: Value) -> Result<Message, Error> {
    let Value::Object(map) = value else { return Err(wrong(place, "an object {role, content}", &value)) };
    let (role, content) = role_and_content(map).map_err(|error| within(place, error))?;
    match role.as_str() {
        "system" => Ok(Message::System { content }),
        "user" => Ok(Message::user(content)),
        "assistant" => Ok(Message::assistant(content)),
        other => {
            let meant = hint(other, ROLES);
            let text =
                format!("'{place}.role' must be one of {}, not {}{meant}", ROLES.join(", "), quoted(other));
            Err(Error::value(&format!("{place}.role"), text))
        }
    }
}

fn role_and_content(map: Map<String, Value>) -> Result<(String, String), Error> {
    let mut fields = Fields::new(map, &["role", "content"])?;
    let missing = |name: &str| Error::value(name, format!("'{name}' is missing"));
    let role = fields.text("role")?.ok_or_else(|| missing("role"))?;
    let content = fields.text("content")?.ok_or_else(|| missing("content"))?;
    Ok((role, content))
}

/// Says where the message stands.
fn within(place: &str, error: Error) -> Error {
    match error {
        Error::Invalid { message, param, code } => Error::Invalid {
            message: format!("{place}: {message}"),
            param: param.map(|name| format!("{place}.{name}")),
            code,
        },
        other => other,
    }
}
