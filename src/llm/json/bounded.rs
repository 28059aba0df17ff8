//! Parses JSON of any depth down to a limit. Deeper values are skipped without recursion and become `null`.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The most values of a text: each takes many times its bytes in memory.
const NODES: usize = 250_000;

/// The value, or `None` if the text is no JSON or has too many values.
pub(super) fn parse(text: &str, depth: usize) -> Option<Value> {
    if NODES < text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = DepthLimit(depth).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(value)
}

/// Reads a value with this many levels left.
#[derive(Clone, Copy)]
struct DepthLimit(usize);

impl<'de> DeserializeSeed<'de> for DepthLimit {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        if self.0 == 0 {
            return IgnoredAny::deserialize(reader).map(|_| Value::Null);
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DepthLimit {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self(self.0.saturating_sub(1)))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            map.insert(key, fields.next_value_seed(Self(self.0.saturating_sub(1)))?);
        }
        Ok(Value::Object(map))
    }
}
