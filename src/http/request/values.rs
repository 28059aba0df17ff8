//! Types of fields that JSON has no type for: bounded numbers and texts, times, secrets.

use super::typed::{must_be, whole};
use crate::domain::secret::Secret;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::time::Duration;

/// The last time that a request may name, unix seconds: the end of the year 9999 less a day for time zones.
const LAST_SECOND: f64 = 253_402_207_200.0;

/// A whole number within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeNumber<const MIN: u64, const MAX: u64>(pub(crate) u64);

/// A number of tokens that a provider can be given.
pub(crate) type MaxTokens = WholeNumber<1, { u32::MAX as u64 }>;

impl<const MIN: u64, const MAX: u64> WholeNumber<MIN, MAX> {
    pub(crate) fn to_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for WholeNumber<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = whole(&value).filter(|number| (MIN..=MAX).contains(number));
        let wanted = format_args!("a whole number from {MIN} to {MAX}");
        number.map(Self).ok_or_else(|| D::Error::custom(must_be(wanted, &value)))
    }
}

/// The temperature of a model: 0 to 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temperature(pub(crate) f64);

impl<'de> Deserialize<'de> for Temperature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = value.as_f64().filter(|number| (0.0..=2.0).contains(number));
        number.map(Self).ok_or_else(|| D::Error::custom(must_be("a number from 0 to 2", &value)))
    }
}

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AnyNumber(pub(crate) f64);

impl<'de> Deserialize<'de> for AnyNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        value.as_f64().map(Self).ok_or_else(|| D::Error::custom(must_be("a number", &value)))
    }
}

/// A whole number of either sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignedNumber(pub(crate) i64);

impl<'de> Deserialize<'de> for SignedNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        value.as_i64().map(Self).ok_or_else(|| D::Error::custom(must_be("a whole number", &value)))
    }
}

/// A text with a bounded number of characters; a plain one has no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BoundedText<const MIN: usize, const MAX: usize, const PLAIN: bool = false>(
    pub(crate) String,
);

pub(crate) type PlainText<const MIN: usize, const MAX: usize> = BoundedText<MIN, MAX, true>;

impl<const MIN: usize, const MAX: usize, const PLAIN: bool> TryFrom<String> for BoundedText<MIN, MAX, PLAIN> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_allowed = !PLAIN || !text.chars().any(char::is_control);
        if is_allowed && (MIN..=MAX).contains(&text.chars().count()) {
            return Ok(Self(text));
        }
        let rule = if PLAIN { " and no control character" } else { "" };
        Err(format!("must have {MIN} to {MAX} characters{rule}"))
    }
}

/// A secret. Errors do not repeat it.
#[derive(Debug, Clone)]
pub(crate) struct SecretText(pub(crate) Secret);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text.into())),
            _ => Err(D::Error::custom("must be a string")),
        }
    }
}

/// Unix seconds or RFC 3339, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnixMillis(pub(crate) u64);

impl<'de> Deserialize<'de> for UnixMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let millis = match &value {
            Value::String(text) => {
                text.parse::<jiff::Timestamp>().ok().and_then(|at| at.as_millisecond().try_into().ok())
            }
            // Many languages report time as a float.
            other => other
                .as_f64()
                .filter(|seconds| *seconds <= LAST_SECOND)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .and_then(|since| u64::try_from(since.as_millis()).ok()),
        };
        let wanted = "unix seconds or an RFC 3339 time with its offset, from 1970 to 9999-12-30";
        millis.map(Self).ok_or_else(|| D::Error::custom(must_be(wanted, &value)))
    }
}

/// A field that `null` removes: `Some(None)`. An absent field is `None`.
pub(crate) type Removable<T> = Option<Option<T>>;

/// Reads a field that is present.
pub(crate) fn removable<'de, D, T>(deserializer: D) -> Result<Removable<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod schemas {
    use super::*;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use std::borrow::Cow;

    macro_rules! schema {
        ([$($generics:tt)*] $name:ty, $title:literal, $schema:tt) => {
            impl<$($generics)*> JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    $title.into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        };
    }

    schema!([const MIN: u64, const MAX: u64] WholeNumber<MIN, MAX>, "WholeNumber", {"type": "integer", "minimum": MIN, "maximum": MAX});
    schema!([] AnyNumber, "AnyNumber", {"type": "number"});
    schema!([] SignedNumber, "SignedNumber", {"type": "integer"});
    schema!([] Temperature, "Temperature", {"type": "number", "minimum": 0.0, "maximum": 2.0});
    schema!([const MIN: usize, const MAX: usize] BoundedText<MIN, MAX>, "BoundedText", {"type": "string", "minLength": MIN, "maxLength": MAX});
    schema!([const MIN: usize, const MAX: usize] PlainText<MIN, MAX>, "PlainText", {
        "type": "string", "minLength": MIN, "maxLength": MAX, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
    });
    schema!([] SecretText, "SecretText", {"type": "string"});
    schema!([] UnixMillis, "UnixMillis", {"$ref": "#/components/schemas/Moment"});
}
