//! Which fields of a body are read, accepted and unused, or refused.

use super::failure::unsupported;
use crate::domain::limits::Limits;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::request::typed::must_be;
use crate::http::request::values::AnyNumber;
use serde_json::{Map, Value};

/// A field with this value is the same as absent.
pub(crate) type IsNeutral = fn(&Value) -> bool;

/// The fields of a route.
pub(crate) struct Fields {
    /// Read.
    pub(crate) read: &'static [&'static str],
    /// Accepted and unused: they change no answer.
    pub(crate) unused: &'static [&'static str],
    /// Refused unless neutral, with the reason.
    pub(crate) refused: &'static [(&'static str, IsNeutral, &'static str)],
}

impl Fields {
    /// The fields that are read. Fails at the first one that is not supported.
    pub(crate) fn supported(&self, body: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
        let mut kept = Map::new();
        for (name, value) in body {
            if value.is_null() || self.unused.contains(&name.as_str()) {
                continue;
            }
            if self.read.contains(&name.as_str()) {
                kept.insert(name, value);
                continue;
            }
            match self.refused.iter().find(|(refused, _, _)| *refused == name) {
                Some((_, is_neutral, _)) if is_neutral(&value) => {}
                Some((_, _, reason)) => {
                    return Err(unsupported(&name, format!("'{name}' is not supported: {reason}")));
                }
                None => {
                    let known = self.read.iter().copied();
                    let text = format!("{} is not supported{}", quoted(&name), hint(&name, known));
                    return Err(unsupported(&name.chars().take(64).collect::<String>(), text));
                }
            }
        }
        Ok(kept)
    }
}

/// Fails at a field of an entry of `tools` that would change the answer and is not read.
pub(crate) fn check_tool(
    path: &str,
    tool: &Value,
    read: &[&str],
    is_neutral: impl Fn(&str, &Value) -> bool,
) -> Result<(), ApiError> {
    for (field, value) in tool.as_object().into_iter().flatten() {
        let is_known = field == "type" || read.contains(&field.as_str());
        if !value.is_null() && !is_known && !is_neutral(field, value) {
            let path = format!("{path}.{}", field.chars().take(64).collect::<String>());
            return Err(unsupported(&path, format!("'{path}' is not supported")));
        }
    }
    Ok(())
}

/// A number within bounds.
pub(crate) fn in_range(
    name: &str,
    given: Option<AnyNumber>,
    least: f64,
    most: f64,
) -> Result<Option<f64>, ApiError> {
    let given = given.map(|number| number.0);
    match given.filter(|number| !(least..=most).contains(number)) {
        Some(number) => {
            let rule = must_be(format_args!("a number from {least} to {most}"), &Value::from(number));
            Err(ApiError::value(name, format!("'{name}' {rule}")))
        }
        None => Ok(given),
    }
}

/// Checks the number of chat messages against `limits.input_messages`.
pub(crate) fn check_messages<T>(list: &[T], limits: &Limits) -> Result<(), ApiError> {
    let most = limits.input_messages;
    if list.is_empty() {
        return Err(ApiError::value("messages", "'messages' is an empty list"));
    }
    if list.len() > most {
        let text = format!("'messages' has more than limits.input_messages = {most} messages");
        return Err(ApiError::value("messages", text));
    }
    Ok(())
}
