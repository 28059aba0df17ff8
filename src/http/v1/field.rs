//! Typed reading of a JSON object's fields. Owns the wording of what is wrong with one; refuses to guess or to convert.

use crate::domain::nearest::hint;
use crate::http::error::Error;
use crate::http::quoted::quoted;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// A request's object; each field is taken out once. `null` is the same as absent.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// The object, if it has no field but the `known` ones.
    pub(crate) fn new(map: Map<String, Value>, known: &[&str]) -> Result<Self, Error> {
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(unknown(name, known)),
            None => Ok(Self(map)),
        }
    }

    /// The value as it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.swap_remove(name).filter(|value| !value.is_null())
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, "a string", &other)),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    /// A whole number within `range`.
    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if let Some(number) = value.as_u64().filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        Err(wrong(name, format_args!("a whole number from {} to {}", range.start(), range.end()), &value))
    }

    /// A number within `range`.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if let Some(number) = value.as_f64().filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        Err(wrong(name, format_args!("a number from {} to {}", range.start(), range.end()), &value))
    }

    /// One of the `words` that `T` is written as.
    pub(crate) fn word<T: DeserializeOwned>(
        &mut self,
        name: &str,
        words: &[&str],
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if let Ok(word) = T::deserialize(&value) {
            return Ok(Some(word));
        }
        let meant = value.as_str().map(|text| hint(text, words.iter().copied())).unwrap_or_default();
        Err(wrong(name, format_args!("one of {}{meant}", words.join(", ")), &value))
    }
}

/// A field that nobody knows, with the one that was probably meant.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Error {
    let meant = hint(name, known.iter().copied());
    Error::Invalid {
        message: format!("unknown field {}{meant} (known: {})", quoted(name), known.join(", ")),
        param: Some(name.chars().take(64).collect()),
        code: "unknown_field",
    }
}

/// A field whose value is not what it should be.
pub(crate) fn wrong(name: &str, wanted: impl Display, found: &Value) -> Error {
    Error::value(name, format!("'{name}' must be {wanted}, not {}", shown(found)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    }
}
