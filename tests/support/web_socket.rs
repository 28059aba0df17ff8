//! A client of the WebSocket.

use super::Server;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::Duration;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::HeaderName;
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

/// A connection to `GET /v1/responses`.
pub(crate) struct ResponseSocket(WebSocket<TcpStream>);

/// What comes in.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Event(Value),
    /// A close frame with this code.
    Closed(u16),
    /// The end without one.
    Gone,
}

impl ResponseSocket {
    pub(crate) fn open(server: &Server) -> Self {
        Self::open_with(server, &[]).expect("a WebSocket")
    }

    /// Opens one with these headers; else the status and the body of the refusal.
    pub(crate) fn open_with(server: &Server, headers: &[(&str, &str)]) -> Result<Self, (u16, String)> {
        let address = server.url.strip_prefix("http://").expect("an address");
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let mut request = format!("ws://{address}/v1/responses").into_client_request().expect("a request");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a value"));
        }
        match client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(Error::Http(refusal))) => {
                let body = refusal.body().clone().unwrap_or_default();
                Err((refusal.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.0.send(message).expect("sends");
    }

    pub(crate) fn send_json(&mut self, message: &Value) {
        self.send(Message::text(message.to_string()));
    }

    pub(crate) fn next(&mut self) -> Incoming {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => {
                    return Incoming::Event(serde_json::from_str(&text).expect("JSON"));
                }
                Ok(Message::Close(frame)) => {
                    drop(self.0.flush());
                    return frame.map_or(Incoming::Gone, |frame| Incoming::Closed(frame.code.into()));
                }
                Ok(_) => {}
                Err(_) => return Incoming::Gone,
            }
        }
    }

    pub(crate) fn event(&mut self) -> Value {
        match self.next() {
            Incoming::Event(event) => event,
            other => panic!("no event, but {other:?}"),
        }
    }

    /// The events of the response under way, up to the last.
    pub(crate) fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.event());
            let kind = events.last().and_then(|last| last["type"].as_str()).expect("a type");
            if ["response.completed", "response.incomplete", "response.failed", "error"].contains(&kind) {
                return events;
            }
        }
    }

    /// Asks for a response with these fields, and returns its events.
    pub(crate) fn ask(&mut self, fields: &Value) -> Vec<Value> {
        self.send_json(&create(fields));
        self.events()
    }

    /// The answer to such a message, which is no response.
    pub(crate) fn refusal(&mut self, fields: &Value) -> (u64, String) {
        let events = self.ask(fields);
        let [error] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(error["type"], "error", "{error}");
        (
            error["status"].as_u64().expect("a status"),
            error["error"]["code"].as_str().expect("a code").to_owned(),
        )
    }

    /// Cuts the connection without a close frame.
    pub(crate) fn cut(self) {
        self.0.get_ref().shutdown(std::net::Shutdown::Both).expect("cuts");
    }
}

/// The message `response.create` with these fields.
pub(crate) fn create(fields: &Value) -> Value {
    let mut message = json!({"type": "response.create", "model": "scripted", "input": "go"});
    for (name, value) in fields.as_object().expect("an object") {
        message[name] = value.clone();
    }
    message
}
