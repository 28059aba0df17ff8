//! One provider, as it is reached. Owns the headers of a request and the reading of a refusal; refuses to know what
//! the bodies say.

use super::coding;
use super::endpoint::Endpoint;
use super::failure::{self, Teller};
use super::post::Post;
use super::tether::Patience;
use crate::domain::secret::Secret;
use crate::ports::{CancelToken, ModelError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

/// The longest body of a refusal that is read, bytes.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// A request that was not answered well.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What it means.
    pub(crate) error: ModelError,
    /// The status, when it came to one.
    pub(crate) status: Option<StatusCode>,
    /// All that the provider said, in small letters; for judging, not for telling.
    pub(crate) words: String,
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { error, status: None, words: String::new() }
    }
}

fn unsayable(error: &serde_json::Error) -> ModelError {
    ModelError::Refused(format!("the request cannot be written as JSON: {error}"))
}

/// Where requests go, and what goes with each of them.
#[derive(Debug)]
pub(crate) struct Upstream {
    agent: Agent,
    endpoint: Endpoint,
    headers: Vec<(String, Secret)>,
    teller: Teller,
}

impl Upstream {
    /// The provider at this endpoint, asked over the shared client. Of the key it only knows that it must not be told.
    pub(crate) fn new(agent: Agent, endpoint: Endpoint, key: Secret, patience: Patience) -> Self {
        let in_query = endpoint.query_values().map(|value| Secret::from(value.to_owned()));
        let teller = Teller::new(&endpoint, key, patience).hiding(in_query);
        let headers =
            [("content-type", "application/json"), ("accept", "text/event-stream, application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), Secret::from(value.to_owned())));
        Self { agent, endpoint, headers: headers.into(), teller }
    }

    /// The same with this header in every request, instead of one of the same name.
    #[must_use]
    pub(crate) fn with_header(mut self, name: &str, value: Secret) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
        self
    }

    /// The same with these headers, each instead of one of the same name; what they say is told to nobody.
    #[must_use]
    pub(crate) fn with_secret_headers(mut self, headers: &BTreeMap<String, Secret>) -> Self {
        // Some providers quote a token without the scheme before it.
        let words = headers.values().flat_map(|value| value.reveal().split_whitespace());
        let words: Vec<Secret> = words.map(|word| Secret::from(word.to_owned())).collect();
        self.teller = self.teller.hiding(headers.values().cloned().chain(words));
        headers.iter().fold(self, |upstream, (name, value)| upstream.with_header(name, value.clone()))
    }

    /// The same; what these fields say is told to nobody.
    #[must_use]
    pub(crate) fn with_secret_fields(mut self, fields: &Map<String, Value>) -> Self {
        let texts = fields.values().flat_map(texts).map(|text| Secret::from(text.to_owned()));
        self.teller = self.teller.hiding(texts);
        self
    }

    /// What to tell of a failure.
    pub(crate) fn teller(&self) -> &Teller {
        &self.teller
    }

    /// Posts this; returns the body of an answer that began well. The cancel must be held
    /// ([`super::tether::hold`]).
    pub(crate) fn post(&self, body: &Post, cancel: &CancelToken) -> Result<impl Read + use<>, Refusal> {
        let text = body.text().map_err(|error| unsayable(&error))?;
        let mut call = self.agent.post(self.endpoint.uri());
        for (name, value) in &self.headers {
            call = call.header(name, value.reveal());
        }
        let response = call.send(text).map_err(|error| self.teller.wire(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response, cancel));
        }
        Ok(coding::reader(response)?)
    }

    fn refusal(&self, response: Response<Body>, cancel: &CancelToken) -> Refusal {
        let status = response.status();
        let wait = failure::wait_ms(status, response.headers(), cancel.clock().as_ref());
        let mut body = Vec::new();
        let read = match coding::reader(response) {
            Ok(reader) => reader.take(REFUSAL_BYTES).read_to_end(&mut body),
            Err(_) => Ok(0), // the status tells enough
        };
        match read {
            Err(error) if cancel.is_cancelled() => self.teller.read(&error).into(),
            // The status tells enough when its explanation breaks off.
            _ => {
                let body = String::from_utf8_lossy(&body);
                let error = self.teller.status(status, wait, &body);
                Refusal { error, status: Some(status), words: failure::words_of(&body) }
            }
        }
    }
}

/// The texts in a value, a level deep: what keys and tokens of `extra_body` are.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Object(fields) => fields.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
