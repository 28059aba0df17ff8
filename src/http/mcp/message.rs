//! Messages of JSON-RPC 2.0 as MCP uses them. A body is one message, or a batch in the versions that have
//! batches.

use crate::http::error::ApiError;
use crate::http::request::json::{self, JsonObjectError};
use crate::http::request::quoted::quoted;
use serde_json::{Map, Value, json};
use std::fmt;

const VERSION: &str = "2.0";
/// The longest id of a request, bytes.
const ID_BYTES: usize = 256;

/// Characters of an unknown URI in its error.
const URI_CHARS: usize = 1_024;

/// Maximum messages of a batch.
pub(in crate::http) const BATCH_MESSAGES: usize = 64;

/// What a client sends at once.
#[derive(Debug)]
pub(super) enum SentMessages {
    One(ClientMessage),
    /// Messages, and why some are none.
    Batch(Vec<Result<ClientMessage, RpcError>>),
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum ClientMessage {
    /// Wants a reply.
    Request { id: RpcId, call: RpcCall },
    /// A request that cannot be read, but for its id.
    Refused { id: RpcId, error: RpcError },
    /// Wants none.
    Notification(RpcCall),
    /// Replies to a request of the server.
    Reply,
}

/// A method with its parameters.
#[derive(Debug)]
pub(super) struct RpcCall {
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// The id of a request: a text or a whole number. Shown as JSON, so `1` and `"1"` differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcId(Value);

impl RpcId {
    fn new(value: &Value) -> Option<Self> {
        let is_id = value.is_string() || value.is_i64() || value.is_u64();
        (is_id && value.to_string().len() <= ID_BYTES).then(|| Self(value.clone()))
    }
}

impl fmt::Display for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a message gets an error instead of a result.
#[derive(Debug, thiserror::Error)]
pub(super) enum RpcError {
    /// The body is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// The body is JSON, but no message.
    #[error("{0}")]
    Request(String),
    /// There is no such method.
    #[error("there is no method {0}")]
    Method(String),
    /// The parameters do not fit the method.
    #[error("{0}")]
    Params(String),
    /// There is no such resource, or it belongs to another user (P7).
    #[error("there is no resource {}", quoted(.0))]
    Resource(String),
    /// The server cannot do it.
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
}

impl RpcError {
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::Request(message.into())
    }

    fn code(&self) -> i32 {
        match self {
            Self::Syntax(_) => -32_700,
            Self::Request(_) => -32_600,
            Self::Method(_) => -32_601,
            Self::Params(_) => -32_602,
            Self::Resource(_) => -32_002,
            Self::Api(error) if error.class().0.is_client_error() => -32_602,
            Self::Api(_) => -32_603,
        }
    }

    fn to_value(&self) -> Value {
        let mut error = json!({"code": self.code(), "message": self.to_string()});
        let data = match self {
            Self::Api(error) => json!({"code": error.code(), "param": error.param()}),
            Self::Resource(uri) => json!({"uri": uri.chars().take(URI_CHARS).collect::<String>()}),
            _ => return error,
        };
        if let Some(fields) = error.as_object_mut() {
            fields.insert("data".to_owned(), data);
        }
        error
    }
}

impl SentMessages {
    /// Parses a body of at most `most_values` JSON values.
    pub(super) fn parse(body: &[u8], most_values: usize) -> Result<Self, RpcError> {
        let value = json::value(body, most_values).map_err(|error| match error {
            JsonObjectError::Syntax(_) => RpcError::Syntax(ApiError::from(error).message()),
            JsonObjectError::NoObject | JsonObjectError::TooMany(_) => {
                RpcError::Request(ApiError::from(error).message())
            }
        })?;
        match value {
            Value::Array(messages) if messages.is_empty() || messages.len() > BATCH_MESSAGES => {
                Err(RpcError::request(format!("a batch must have 1 to {BATCH_MESSAGES} messages")))
            }
            Value::Array(messages) => {
                Ok(Self::Batch(messages.into_iter().map(ClientMessage::of_value).collect()))
            }
            message => ClientMessage::of_value(message).map(Self::One),
        }
    }
}

impl ClientMessage {
    fn of_value(value: Value) -> Result<Self, RpcError> {
        match value {
            Value::Object(object) => Self::of_object(object),
            _ => Err(RpcError::Request(ApiError::from(JsonObjectError::NoObject).message())),
        }
    }

    fn of_object(object: Map<String, Value>) -> Result<Self, RpcError> {
        if object.get("jsonrpc").and_then(Value::as_str) != Some(VERSION) {
            return Err(RpcError::request("'jsonrpc' must be \"2.0\""));
        }
        let id = object.get("id").map(|id| {
            RpcId::new(id).ok_or_else(|| {
                RpcError::request(format!(
                    "'id' must be a string or a whole number of at most {ID_BYTES} bytes"
                ))
            })
        });
        let is_reply = object.contains_key("result") || object.contains_key("error");
        if is_reply && !object.contains_key("method") {
            return Ok(Self::Reply);
        }
        let id = id.transpose()?;
        match (RpcCall::of_object(object), id) {
            (Ok(call), Some(id)) => Ok(Self::Request { id, call }),
            (Ok(call), None) => Ok(Self::Notification(call)),
            (Err(error), Some(id)) => Ok(Self::Refused { id, error }),
            (Err(error), None) => Err(error),
        }
    }
}

impl RpcCall {
    fn of_object(mut object: Map<String, Value>) -> Result<Self, RpcError> {
        let Some(Value::String(method)) = object.remove("method") else {
            return Err(RpcError::request("'method' must be a string"));
        };
        match object.remove("params") {
            Some(Value::Object(params)) => Ok(Self { method, params }),
            None | Some(Value::Null) => Ok(Self { method, params: Map::new() }),
            Some(_) => Err(RpcError::request("'params' must be an object")),
        }
    }
}

/// The reply to a request.
pub(super) fn reply(id: &RpcId, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": VERSION, "id": id.0, "result": result}),
        Err(error) => json!({"jsonrpc": VERSION, "id": id.0, "error": error.to_value()}),
    }
}

/// The reply to what is no request.
pub(super) fn refusal(error: &RpcError) -> Value {
    json!({"jsonrpc": VERSION, "id": null, "error": error.to_value()})
}

/// A notification of the server.
pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": VERSION, "method": method, "params": params})
}

/// The request that `notifications/cancelled` names.
pub(super) fn cancelled_request(call: &RpcCall) -> Option<RpcId> {
    (call.method == "notifications/cancelled").then(|| RpcId::new(call.params.get("requestId")?))?
}

/// The token under which the client wants to see the progress.
pub(super) fn progress_token(call: &RpcCall) -> Option<Value> {
    RpcId::new(call.params.get("_meta")?.get("progressToken")?).map(|token| token.0)
}

/// A method that does not exist.
pub(super) fn unknown_method(method: &str) -> RpcError {
    RpcError::Method(quoted(method))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<ClientMessage, i32> {
        match SentMessages::parse(body.as_bytes(), 1_000).map_err(|error| error.code())? {
            SentMessages::One(ClientMessage::Refused { error, .. }) => Err(error.code()),
            SentMessages::One(message) => Ok(message),
            SentMessages::Batch(_) => Err(0),
        }
    }

    #[test]
    fn only_one_message_of_json_rpc_is_accepted() {
        let bad = [
            ("", -32_700),
            ("{", -32_700),
            ("[]", -32_600),
            ("7", -32_600),
            (r#"{"id":1,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32_600),
        ];
        for (body, code) in bad {
            assert_eq!(parse(body).expect_err(body), code, "{body}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(ID_BYTES));
        assert_eq!(parse(&long).expect_err("too long"), -32_600);
        let many = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":[{}0]}}}}"#, "0,".repeat(2_000));
        assert_eq!(parse(&many).expect_err("too many values"), -32_600);
    }

    #[test]
    fn a_batch_has_its_messages_and_names_what_is_none() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let batch = format!(" [{ping}, 7, {{}}, {ping}]");
        let Ok(SentMessages::Batch(messages)) = SentMessages::parse(batch.as_bytes(), 1_000) else {
            panic!("a batch");
        };
        assert_eq!(messages.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, true]);
        let many = format!("[{}]", vec![ping; BATCH_MESSAGES + 1].join(","));
        assert!(SentMessages::parse(many.as_bytes(), 1_000).is_err());
    }

    #[test]
    fn requests_notifications_and_replies_are_told_apart() {
        let request = parse(r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":null}"#);
        assert!(matches!(request, Ok(ClientMessage::Request { call, .. }) if call.method == "ping"));
        let notified = parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(notified, Ok(ClientMessage::Notification(_))));
        let reply = parse(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(matches!(reply, Ok(ClientMessage::Reply)));
    }

    #[test]
    fn a_refused_request_keeps_its_id() {
        for body in [r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, r#"{"jsonrpc":"2.0","id":7}"#]
        {
            let sent = SentMessages::parse(body.as_bytes(), 1_000).expect("a message");
            let is_named = |id: &RpcId| *id == RpcId(json!(7));
            assert!(matches!(&sent, SentMessages::One(ClientMessage::Refused { id, .. }) if is_named(id)));
        }
    }

    #[test]
    fn ids_that_only_look_alike_differ() {
        let id = |value: Value| RpcId::new(&value).expect("an id").to_string();
        assert_ne!(id(json!(1)), id(json!("1")));
        assert_eq!(reply(&RpcId(json!("1")), Ok(json!({})))["id"], "1");
    }
}
