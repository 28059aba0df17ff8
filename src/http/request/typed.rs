//! Reads a JSON object into the type of a request. Errors say where a value stands, what it must be and
//! what it is. Types read `null` into an `Option`, so that it is the same as absent.

use super::quoted::quoted;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};
use std::fmt::Display;

/// Characters of a key in a path.
const KEY_CHARS: usize = 64;

/// Names of JSON types in errors. An enum whose variants are renamed to them is chosen by the value's type.
const KINDS: [&str; 5] = ["true or false", "a number", "a string", "a list", "an object"];

/// Reads an object into its type.
pub(crate) fn from_map<T: DeserializeOwned>(map: Map<String, Value>) -> Result<T, ApiError> {
    T::deserialize(JsonValue(map.into())).map_err(ApiError::from)
}

/// `must be …, not …`.
pub(crate) fn must_be(wanted: impl Display, found: &Value) -> String {
    let found = match found {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    };
    format!("must be {wanted}, not {found}")
}

/// A whole number; `5.0` is one, too (JSON Schema 2020-12, 6.1.1).
pub(crate) fn whole(value: &Value) -> Option<u64> {
    /// Above it, floats skip whole numbers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let from_float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=EXACT).contains(f));
    value.as_u64().or_else(|| from_float().and_then(|f| format!("{f:.0}").parse().ok()))
}

/// An unknown field, with the nearest known name.
pub(crate) fn unknown(name: &str, known: &[&str]) -> ApiError {
    FieldError::unknown_name(name, known).into()
}

/// A field that does not fit its type.
#[derive(Debug, thiserror::Error)]
#[error("{parent}: '{field}' {rule}")]
struct FieldError {
    /// Path of the object with the field; empty for the body itself.
    parent: String,
    /// The field, as in `content` or `tools[0]`.
    field: String,
    /// What the field must be, for the sentence after its name; of an unknown field the whole sentence.
    rule: String,
    is_unknown: bool,
}

impl FieldError {
    fn unknown_name(name: &str, known: &[&str]) -> Self {
        let meant = hint(name, known.iter().copied());
        let rule = format!("unknown field {}{meant} (known: {})", quoted(name), known.join(", "));
        Self { field: name.chars().take(KEY_CHARS).collect(), is_unknown: true, ..Self::custom(rule) }
    }

    /// The same error as seen from one level above: `step` is a key or an index like `[0]`.
    fn below(mut self, step: &str) -> Self {
        let is_named = !self.field.is_empty() && !self.field.starts_with('[');
        let path = if is_named { &mut self.parent } else { &mut self.field };
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        *path = format!("{step}{dot}{path}");
        self
    }
}

impl Error for FieldError {
    fn custom<T: Display>(rule: T) -> Self {
        Self { parent: String::new(), field: String::new(), rule: rule.to_string(), is_unknown: false }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { field: name.to_owned(), ..Self::custom("is missing") }
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::unknown_name(name, known)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        let meant = hint(word, known.iter().copied());
        Self::custom(format_args!("must be one of {}, not {}{meant}", known.join(", "), quoted(word)))
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        let FieldError { parent, field, rule, is_unknown } = error;
        let text = if is_unknown { rule } else { format!("'{field}' {rule}") };
        let (message, param) = if parent.is_empty() {
            (text, field)
        } else {
            (format!("{parent}: {text}"), format!("{parent}.{field}"))
        };
        let code = if is_unknown { "unknown_field" } else { "invalid_value" };
        Self::Invalid { message, param: Some(param), code }
    }
}

struct JsonValue(Value);

impl JsonValue {
    fn kind(&self) -> &'static str {
        let [flag, number, text, list, object] = KINDS;
        match self.0 {
            Value::Null => "null",
            Value::Bool(_) => flag,
            Value::Number(_) => number,
            Value::String(_) => text,
            Value::Array(_) => list,
            Value::Object(_) => object,
        }
    }
}

/// A method for each type that only one JSON type fits.
macro_rules! deserialize_checked {
    ($($method:ident: $is_right:ident, $wanted:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            if self.0.$is_right() {
                return self.deserialize_any(visitor);
            }
            Err(FieldError::custom(must_be($wanted, &self.0)))
        })*
    };
}

impl<'de> Deserializer<'de> for JsonValue {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => number.deserialize_any(visitor).map_err(FieldError::custom),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(ListAccess { items: items.into_iter(), index: 0 }),
            Value::Object(map) => {
                visitor.visit_map(ObjectAccess { fields: map.into_iter(), next: None, has_keys: true })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    deserialize_checked! {
        deserialize_bool: is_boolean, "true or false";
        deserialize_string: is_string, "a string";
        deserialize_seq: is_array, "a list";
        deserialize_map: is_object, "an object";
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match whole(&self.0) {
            Some(number) => visitor.visit_u64(number),
            None => Err(FieldError::custom(must_be("a whole number", &self.0))),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        if self.0.is_object() {
            return self.deserialize_any(visitor);
        }
        Err(FieldError::custom(must_be(format_args!("an object of {}", fields.join(", ")), &self.0)))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let kind = self.kind();
        if variants.contains(&kind) {
            let fields = Map::from_iter([(kind.to_owned(), self.0)]).into_iter();
            return visitor.visit_enum(MapAccessDeserializer::new(ObjectAccess {
                fields,
                next: None,
                has_keys: false,
            }));
        }
        if variants.iter().any(|variant| KINDS.contains(variant)) {
            return Err(FieldError::custom(must_be(variants.join(" or "), &self.0)));
        }
        match &self.0 {
            Value::String(word) => visitor.visit_enum(StrDeserializer::new(word)),
            other => Err(FieldError::custom(must_be(format_args!("one of {}", variants.join(", ")), other))),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

struct ListAccess {
    items: std::vec::IntoIter<Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for ListAccess {
    type Error = FieldError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, FieldError> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let index = self.index;
        self.index = self.index.saturating_add(1);
        seed.deserialize(JsonValue(item)).map(Some).map_err(|error| error.below(&format!("[{index}]")))
    }
}

struct ObjectAccess {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
    /// Whether the keys are part of paths.
    has_keys: bool,
}

impl<'de> MapAccess<'de> for ObjectAccess {
    type Error = FieldError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, FieldError> {
        self.next = self.fields.next();
        let Some((name, _)) = &self.next else { return Ok(None) };
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, FieldError> {
        let (name, value) = self.next.take().unwrap_or_default();
        let read = seed.deserialize(JsonValue(value));
        let key = || name.chars().take(KEY_CHARS).collect::<String>();
        read.map_err(|error| if self.has_keys { error.below(&key()) } else { error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        name: String,
        count: Option<u64>,
        either: Option<Either>,
        items: Option<Vec<Inner>>,
        pairs: Option<BTreeMap<String, String>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        flag: bool,
        word: Option<Word>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Red,
        Green,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Either {
        #[serde(rename = "true or false")]
        Flag(bool),
        #[serde(rename = "a list")]
        Names(Vec<String>),
    }

    fn read(value: Value) -> Result<Outer, ApiError> {
        let Value::Object(map) = value else { panic!("an object") };
        from_map(map)
    }

    #[test]
    fn null_is_absent_and_five_point_zero_is_a_whole_number() {
        let read = read(json!({"name": "n", "count": 5.0, "either": ["a"], "items": null}));
        let either = Some(Either::Names(vec!["a".to_owned()]));
        assert_eq!(
            read.expect("an object"),
            Outer { name: "n".to_owned(), count: Some(5), either, items: None, pairs: None }
        );
    }

    #[test]
    fn errors_name_the_path_and_what_was_wanted() {
        for (value, param, message) in [
            (json!({}), "name", "'name' is missing"),
            (json!({"name": 1}), "name", "'name' must be a string, not 1"),
            (json!({"name": "", "count": -1}), "count", "'count' must be a whole number, not -1"),
            (json!({"name": "", "either": 5}), "either", "'either' must be true or false or a list, not 5"),
            (json!({"name": "", "either": [{}]}), "either[0]", "'either[0]' must be a string, not an object"),
            (
                json!({"name": "", "items": [5]}),
                "items[0]",
                "'items[0]' must be an object of flag, word, not 5",
            ),
            (
                json!({"name": "", "items": [{"flag": 1}]}),
                "items[0].flag",
                "items[0]: 'flag' must be true or false, not 1",
            ),
            (
                json!({"name": "", "items": [{"flag": true}, {"flag": true, "word": "gren"}]}),
                "items[1].word",
                "items[1]: 'word' must be one of red, green, not 'gren'; did you mean 'green'?",
            ),
            (
                json!({"name": "", "items": [{"flags": true}]}),
                "items[0].flags",
                "items[0]: unknown field 'flags'; did you mean 'flag'? (known: flag, word)",
            ),
            (json!({"name": "", "pairs": {"k": 1}}), "pairs.k", "pairs: 'k' must be a string, not 1"),
        ] {
            match read(value.clone()) {
                Err(ApiError::Invalid { message: found, param: Some(place), .. }) => {
                    assert_eq!((place.as_str(), found.as_str()), (param, message), "{value}");
                }
                other => panic!("{value}: {other:?}"),
            }
        }
    }
}
