//! Typed reading of the fields of a JSON object.

use super::quoted::quoted;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The object of a request. Each field is taken once. `null` is the same as absent.
pub(crate) struct ObjectFields {
    map: Map<String, Value>,
    #[cfg(test)]
    known: Vec<String>,
}

impl ObjectFields {
    /// Fails if the object has a field that is not `known`.
    pub(crate) fn new(map: Map<String, Value>, known: &[&str]) -> Result<Self, ApiError> {
        if let Some(name) = map.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(unknown(name, known));
        }
        #[cfg(test)]
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        #[cfg(test)]
        record::frame(&known);
        Ok(Self {
            map,
            #[cfg(test)]
            known,
        })
    }

    /// The value as it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.swap_remove(name).filter(|value| !value.is_null())
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        #[cfg(test)]
        record::note(&self.known, name, serde_json::json!({"type": "string"}));
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, "a string", &other)),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        #[cfg(test)]
        record::note(&self.known, name, serde_json::json!({"type": "boolean"}));
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    /// A whole number within `range`.
    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        #[cfg(test)]
        record::note(
            &self.known,
            name,
            serde_json::json!({"type": "integer", "minimum": range.start(), "maximum": range.end()}),
        );
        let Some(value) = self.take(name) else { return Ok(None) };
        if let Some(number) = whole(&value).filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        Err(wrong(name, format_args!("a whole number from {} to {}", range.start(), range.end()), &value))
    }

    /// A number within `range`.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        #[cfg(test)]
        record::note(
            &self.known,
            name,
            serde_json::json!({"type": "number", "minimum": range.start(), "maximum": range.end()}),
        );
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
    ) -> Result<Option<T>, ApiError> {
        #[cfg(test)]
        record::note(&self.known, name, serde_json::json!({"enum": words}));
        let Some(value) = self.take(name) else { return Ok(None) };
        if let Ok(word) = T::deserialize(&value) {
            return Ok(Some(word));
        }
        let meant = value.as_str().map(|text| hint(text, words.iter().copied())).unwrap_or_default();
        Err(wrong(name, format_args!("one of {}{meant}", words.join(", ")), &value))
    }
}

/// A whole number; `5.0` is one, too (JSON Schema 2020-12, 6.1.1).
fn whole(value: &Value) -> Option<u64> {
    /// Above it, floats skip whole numbers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let from_float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=EXACT).contains(f));
    value.as_u64().or_else(|| from_float().and_then(|f| format!("{f:.0}").parse().ok()))
}

/// An unknown field, with the nearest known name.
pub(crate) fn unknown(name: &str, known: &[&str]) -> ApiError {
    let meant = hint(name, known.iter().copied());
    ApiError::Invalid {
        message: format!("unknown field {}{meant} (known: {})", quoted(name), known.join(", ")),
        param: Some(name.chars().take(64).collect()),
        code: "unknown_field",
    }
}

/// A field whose value is not what it should be.
pub(crate) fn wrong(name: &str, wanted: impl Display, found: &Value) -> ApiError {
    ApiError::value(name, format!("'{name}' must be {wanted}, not {}", shown(found)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    }
}

/// Records which fields a reader asks for. The `OpenAPI` document is drawn from these records.
#[cfg(test)]
pub(crate) mod record {
    use serde_json::Value;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// The fields of each object, by its list of known names.
    pub(crate) type Frames = BTreeMap<Vec<String>, BTreeMap<String, Value>>;

    thread_local! {
        static FRAMES: RefCell<Frames> = RefCell::default();
    }

    pub(crate) fn frame(known: &[String]) {
        FRAMES.with_borrow_mut(|frames| {
            frames.entry(known.to_vec()).or_default();
        });
    }

    pub(crate) fn note(known: &[String], name: &str, schema: Value) {
        FRAMES.with_borrow_mut(|frames| {
            frames.entry(known.to_vec()).or_default().entry(name.to_owned()).or_insert(schema);
        });
    }

    /// The records made while `read` runs.
    pub(crate) fn during(read: impl FnOnce()) -> Frames {
        FRAMES.take();
        read();
        FRAMES.take()
    }
}
