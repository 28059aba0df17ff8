//! Which fields of a body are read, accepted and unused, or refused.

use super::failure::unsupported;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
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
