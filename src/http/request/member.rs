//! Reads members of JSON objects whose type another member chooses, so that no Rust type stands for them.
//! Errors name the path of the member. `null` is the same as absent.

use super::typed::must_be;
use crate::http::error::ApiError;
use serde_json::{Map, Value};

/// Fails unless the value is an object.
pub(crate) fn check_object(path: &str, value: &Value) -> Result<(), ApiError> {
    if value.is_object() {
        return Ok(());
    }
    Err(ApiError::value(path, format!("'{path}' {}", must_be("an object", value))))
}

/// A text that must be there.
pub(crate) fn text<'v>(path: &str, object: &'v Value, name: &str) -> Result<&'v str, ApiError> {
    required(path, name, optional_text(path, object, name)?)
}

/// A text that may be absent.
pub(crate) fn optional_text<'v>(
    path: &str,
    object: &'v Value,
    name: &str,
) -> Result<Option<&'v str>, ApiError> {
    optional((path, name), object, "a string", Value::as_str)
}

/// A truth value that must be there.
pub(crate) fn flag(path: &str, object: &Value, name: &str) -> Result<bool, ApiError> {
    required(path, name, optional_flag(path, object, name)?)
}

/// A truth value that may be absent.
pub(crate) fn optional_flag(path: &str, object: &Value, name: &str) -> Result<Option<bool>, ApiError> {
    optional((path, name), object, "true or false", Value::as_bool)
}

/// An object that must be there.
pub(crate) fn object<'v>(
    path: &str,
    object: &'v Value,
    name: &str,
) -> Result<&'v Map<String, Value>, ApiError> {
    required(path, name, optional_object(path, object, name)?)
}

/// An object that may be absent.
pub(crate) fn optional_object<'v>(
    path: &str,
    object: &'v Value,
    name: &str,
) -> Result<Option<&'v Map<String, Value>>, ApiError> {
    optional((path, name), object, "an object", Value::as_object)
}

/// A list; an absent one is empty.
pub(crate) fn list<'v>(path: &str, object: &'v Value, name: &str) -> Result<&'v [Value], ApiError> {
    let found = optional((path, name), object, "a list", Value::as_array)?;
    Ok(found.map(Vec::as_slice).unwrap_or_default())
}

fn optional<'v, T>(
    (path, name): (&str, &str),
    object: &'v Value,
    wanted: &str,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let path = path_of(path, name);
    let error = || ApiError::value(&path, format!("'{path}' {}", must_be(wanted, value)));
    read(value).map(Some).ok_or_else(error)
}

fn required<T>(path: &str, name: &str, found: Option<T>) -> Result<T, ApiError> {
    let path = path_of(path, name);
    found.ok_or_else(|| ApiError::value(&path, format!("'{path}' is missing")))
}

fn path_of(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_of_another_type_and_missing_ones_are_named() {
        let object = json!({"text": "t", "number": 5, "none": null, "list": [1]});
        assert_eq!(text("a[0]", &object, "text").ok(), Some("t"));
        assert_eq!(optional_text("a[0]", &object, "none").ok(), Some(None));
        assert_eq!(list("a[0]", &object, "list").ok(), Some([json!(1)].as_slice()));
        assert_eq!(list("a[0]", &object, "absent").ok(), Some([].as_slice()));
        for (error, param, message) in [
            (text("a[0]", &object, "number").err(), "a[0].number", "'a[0].number' must be a string, not 5"),
            (text("a[0]", &object, "none").err(), "a[0].none", "'a[0].none' is missing"),
            (flag("", &object, "text").err(), "text", "'text' must be true or false, not 't'"),
            (super::object("a", &object, "list").err(), "a.list", "'a.list' must be an object, not a list"),
            (check_object("a[1]", &json!(7)).err(), "a[1]", "'a[1]' must be an object, not 7"),
        ] {
            let error = error.expect("refused");
            assert_eq!((error.param(), error.to_string().as_str()), (Some(param), message));
        }
    }
}
