//! What a client may send on a WebSocket: `response.create`.

use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::responses::request::{self, ResponsesRequest};
use serde_json::{Map, Value, json};

/// The only event.
const CREATE: &str = "response.create";
/// Fields of the route that a message must not have, with the value that changes nothing.
const TRANSPORT: [(&str, Option<bool>); 3] =
    [("stream", Some(true)), ("stream_options", None), ("background", Some(false))];

/// Reads a message as the body of a streamed `POST /v1/responses`.
pub(super) fn read(mut message: Map<String, Value>) -> Result<ResponsesRequest, ApiError> {
    let kind = message.remove("type");
    if kind.as_ref().and_then(Value::as_str) != Some(CREATE) {
        let given = kind.map_or_else(|| "missing".to_owned(), |kind| quoted(&kind.to_string()));
        let text = format!(
            "'type' must be '{CREATE}', but is {given}; a response is cancelled with POST /v1/responses/ID/cancel"
        );
        return Err(ApiError::value("type", text));
    }
    for (name, neutral) in TRANSPORT {
        let given = message.remove(name).filter(|given| !given.is_null());
        if given.is_some_and(|given| neutral.is_none_or(|neutral| given != Value::Bool(neutral))) {
            let text =
                format!("'{name}' is for POST /v1/responses: on a WebSocket every response is a stream");
            return Err(unsupported(name, text));
        }
    }
    if message.contains_key("stream_id") {
        let text = "'stream_id' is not supported: the responses of a connection follow each other";
        return Err(unsupported("stream_id", text));
    }
    message.insert("stream".to_owned(), json!(true));
    request::read(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: Value) -> (String, String) {
        let Value::Object(message) = message else { panic!("an object") };
        let error = read(message).expect_err("refused");
        (error.code().to_owned(), error.param().unwrap_or_default().to_owned())
    }

    fn with(name: &str, value: Value) -> Value {
        let mut message = json!({"type": "response.create", "model": "m", "input": "x"});
        message[name] = value;
        message
    }

    #[test]
    fn a_message_has_the_fields_of_the_route_except_those_of_its_transport() {
        let refusal = |code: &str, param: &str| (code.to_owned(), param.to_owned());
        for (name, value) in [
            ("stream", json!(false)),
            ("stream", json!("")),
            ("stream_options", json!({})),
            ("background", json!(true)),
            ("stream_id", json!("a")),
            ("no_such_field", json!(1)),
        ] {
            assert_eq!(refused(with(name, value)), refusal("unsupported_parameter", name));
        }
        for kind in [json!("response.cancel"), json!(7), Value::Null] {
            assert_eq!(refused(with("type", kind)), refusal("invalid_value", "type"));
        }
        for (name, value) in
            [("stream", json!(true)), ("background", json!(false)), ("stream_options", Value::Null)]
        {
            let Value::Object(message) = with(name, value) else { panic!("an object") };
            assert!(read(message).is_ok(), "{name} says what is so anyway");
        }
    }
}
