//! Reads JSON bodies into the types of requests, with a bound on their number of values: in memory a value
//! takes about forty times its shortest text (`0,`), so a bound on bytes is not enough (P8).

use super::body::{self, BufferedBody, RequestBody};
use super::context::RequestContext;
use super::typed;
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// JSON values of one message: the object, its role, its content and one to spare.
const MESSAGE_VALUES: usize = 4;
/// JSON values of all other fields of a job.
const OTHER_VALUES: usize = 4_096;
/// JSON values of a small body.
const SMALL_VALUES: usize = 256;

#[derive(Debug)]
pub(crate) enum JsonObjectError {
    /// Not JSON.
    Syntax(serde_json::Error),
    /// JSON, but no object.
    NoObject,
    /// More values than this bound.
    TooMany(usize),
}

impl From<JsonObjectError> for ApiError {
    fn from(fault: JsonObjectError) -> Self {
        Self::malformed(match fault {
            JsonObjectError::Syntax(error) => format!("the request body is not JSON: {error}"),
            JsonObjectError::NoObject => "the request body must be a JSON object".to_owned(),
            JsonObjectError::TooMany(most) => format!("the request body holds more than {most} JSON values"),
        })
    }
}

/// The most JSON values of a job.
pub(crate) fn most_values(limits: &Limits) -> usize {
    limits.input_messages.saturating_mul(MESSAGE_VALUES).saturating_add(OTHER_VALUES)
}

/// Reads a small body.
pub(crate) async fn read<T: DeserializeOwned>(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
) -> Result<T, ApiError> {
    read_up_to(context, request, body, (context.app.limits.body_bytes, SMALL_VALUES)).await
}

/// Reads a body of at most so many bytes and JSON values.
pub(crate) async fn read_up_to<T: DeserializeOwned>(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
    (most_bytes, most_values): (usize, usize),
) -> Result<T, ApiError> {
    let body = body::read_up_to(context, &request.headers, body, most_bytes).await?;
    parse(&body.bytes, most_values)
}

/// Parses a body that may be large, on a thread that may block. The body counts against
/// `limits.bodies_bytes` until then.
pub(crate) async fn read_large<B, T, F>(
    context: &Arc<ServerContext>,
    user: UserId,
    body: BufferedBody,
    convert: F,
) -> Result<T, ApiError>
where
    B: DeserializeOwned,
    T: Send + 'static,
    F: FnOnce(B, &AppDependencies) -> Result<T, ApiError> + Send + 'static,
{
    let app = Arc::clone(&context.app);
    let parsing = context.app.blocking(user, move || {
        let BufferedBody { bytes, place } = body;
        let read = parse(&bytes, most_values(&app.limits)).and_then(|request| convert(request, &app));
        drop(place);
        read
    });
    parsing.await?
}

/// Parses a body into its type. No body is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8], most_values: usize) -> Result<T, ApiError> {
    let is_empty = body.iter().all(u8::is_ascii_whitespace);
    typed::from_map(if is_empty { Map::new() } else { object(body, most_values)? })
}

/// Parses a JSON object.
pub(crate) fn object(body: &[u8], most: usize) -> Result<Map<String, Value>, JsonObjectError> {
    match value(body, most)? {
        Value::Object(map) => Ok(map),
        _ => Err(JsonObjectError::NoObject),
    }
}

/// Parses JSON of at most `most` values.
pub(crate) fn value(body: &[u8], most: usize) -> Result<Value, JsonObjectError> {
    let (left, passed) = (Cell::new(most), Cell::new(false));
    let mut reader = serde_json::Deserializer::from_slice(body);
    let counted = CountedValue { left: &left, passed: &passed };
    match counted.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        // Checking the rest costs time but no memory.
        Err(_) if passed.get() => match serde_json::from_slice::<IgnoredAny>(body) {
            Ok(IgnoredAny) => Err(JsonObjectError::TooMany(most)),
            Err(error) => Err(JsonObjectError::Syntax(error)),
        },
        Err(error) => Err(JsonObjectError::Syntax(error)),
    }
}

/// Reads a value and counts it.
#[derive(Clone, Copy)]
struct CountedValue<'c> {
    left: &'c Cell<usize>,
    passed: &'c Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for CountedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            self.passed.set(true);
            return Err(D::Error::custom("too many values"));
        };
        self.left.set(left);
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            map.insert(name, object.next_value_seed(self)?);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_within_the_limit_parses_like_serde_json() {
        let text = r#" {"a":[1,-2,2.5,true,null,"é\n",{"b":{}}],"a2":18446744073709551615,"a2":"last"} "#;
        let whole: Value = serde_json::from_str(text).unwrap();
        assert_eq!(object(text.as_bytes(), 12).map(Value::Object).unwrap(), whole);
        assert!(matches!(object(text.as_bytes(), 11), Err(JsonObjectError::TooMany(11))));
    }

    #[test]
    fn p8_json_with_too_many_values_is_refused_while_parsing() {
        let zeros = format!(r#"{{"metadata":[0{}]}}"#, ",0".repeat(5_000_000));
        let most = most_values(&Limits::default());
        assert!(matches!(object(zeros.as_bytes(), most), Err(JsonObjectError::TooMany(_))));
        let broken = format!("{zeros}]");
        assert!(
            matches!(object(broken.as_bytes(), most), Err(JsonObjectError::Syntax(_))),
            "a prompt may look like it"
        );
        let left = Cell::new(most);
        let passed = Cell::new(false);
        let counted = CountedValue { left: &left, passed: &passed };
        let mut reader = serde_json::Deserializer::from_str(&zeros);
        assert!(counted.deserialize(&mut reader).is_err() && left.get() == 0, "given up at the bound");
    }

    #[test]
    fn other_json_and_broken_json_are_different_errors() {
        for text in ["[]", "1", "null", "\"x\""] {
            assert!(matches!(object(text.as_bytes(), 9), Err(JsonObjectError::NoObject)), "{text}");
        }
        for text in ["", "{", "{} x", "{\"a\":1e999}", &"[".repeat(500)] {
            assert!(matches!(object(text.as_bytes(), 9_000), Err(JsonObjectError::Syntax(_))), "{text}");
        }
    }
}
