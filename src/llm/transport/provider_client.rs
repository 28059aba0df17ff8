//! Sends requests to one provider: headers, the HTTP exchange, and the reading of error responses.

use super::content_encoding;
use super::endpoint::Endpoint;
use super::error_mapper::{self, ErrorMapper, ProviderFailure};
use super::request_body::ProviderRequestBody;
use crate::domain::secret::Secret;
use crate::net::{CallTimeouts, NetCall, NetClient};
use crate::ports::{CancelToken, ModelError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use ureq::Body;
use ureq::http::{Response, StatusCode};

/// The most that is read of an error response, bytes.
const ERROR_BODY_BYTES: u64 = 64 * 1024;

fn unserializable(error: &serde_json::Error) -> ModelError {
    ModelError::Refused(format!("the request cannot be written as JSON: {error}"))
}

/// An HTTP client for one endpoint with its headers.
#[derive(Debug)]
pub(crate) struct ProviderClient {
    client: Arc<NetClient>,
    timeouts: CallTimeouts,
    endpoint: Endpoint,
    headers: Vec<(String, Secret)>,
    errors: ErrorMapper,
}

impl ProviderClient {
    /// A client for this endpoint. The key is only used to hide it in messages.
    pub(crate) fn new(
        client: Arc<NetClient>,
        endpoint: Endpoint,
        key: Secret,
        timeouts: CallTimeouts,
    ) -> Self {
        let in_query = endpoint.query_values().map(|value| Secret::from(value.to_owned()));
        let errors = ErrorMapper::new(&endpoint, key, timeouts).hiding(in_query);
        let headers =
            [("content-type", "application/json"), ("accept", "text/event-stream, application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), Secret::from(value.to_owned())));
        Self { client, timeouts, endpoint, headers: headers.into(), errors }
    }

    /// The same client with this header in every request; it replaces one of the same name.
    #[must_use]
    pub(crate) fn with_header(mut self, name: &str, value: Secret) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
        self
    }

    /// The same client with these headers, whose values no message may quote.
    #[must_use]
    pub(crate) fn with_secret_headers(mut self, headers: &BTreeMap<String, Secret>) -> Self {
        // Some providers quote a token without the scheme before it.
        let words = headers.values().flat_map(|value| value.reveal().split_whitespace());
        let words: Vec<Secret> = words.map(|word| Secret::from(word.to_owned())).collect();
        self.errors = self.errors.hiding(headers.values().cloned().chain(words));
        headers.iter().fold(self, |provider, (name, value)| provider.with_header(name, value.clone()))
    }

    /// The same client, whose messages quote no text of these fields.
    #[must_use]
    pub(crate) fn with_secret_fields(mut self, fields: &Map<String, Value>) -> Self {
        let texts = fields.values().flat_map(texts).map(|text| Secret::from(text.to_owned()));
        self.errors = self.errors.hiding(texts);
        self
    }

    /// Maps failures to errors.
    pub(crate) fn errors(&self) -> &ErrorMapper {
        &self.errors
    }

    /// Begins a call, which must outlive the body that [`Self::post`] returns.
    pub(crate) fn call(&self, cancel: &CancelToken) -> NetCall<'_> {
        self.client.call(self.endpoint.host(), cancel, self.timeouts)
    }

    /// Posts a request; returns the body of a successful response.
    pub(crate) fn post(
        &self,
        body: &ProviderRequestBody,
        (call, cancel): (&NetCall<'_>, &CancelToken),
    ) -> Result<impl Read + use<>, ProviderFailure> {
        let text = body.text().map_err(|error| unserializable(&error))?;
        let mut request = call.agent().post(self.endpoint.uri());
        for (name, value) in &self.headers {
            request = request.header(name, value.reveal());
        }
        let response = request.send(text).map_err(|error| self.errors.wire(error))?;
        if !response.status().is_success() {
            return Err(self.read_failure(response, cancel));
        }
        Ok(content_encoding::reader(response)?)
    }

    fn read_failure(&self, response: Response<Body>, cancel: &CancelToken) -> ProviderFailure {
        let status = response.status();
        let wait = error_mapper::wait_ms(status, response.headers(), cancel.clock().as_ref());
        let mut body = Vec::new();
        let read = match content_encoding::reader(response) {
            Ok(reader) => reader.take(ERROR_BODY_BYTES).read_to_end(&mut body),
            Err(_) => Ok(0), // the status is enough
        };
        match read {
            Err(error) if cancel.is_cancelled() => self.errors.read(&error).into(),
            // The status is enough when the body breaks off.
            _ => {
                let body = String::from_utf8_lossy(&body);
                let error = self.errors.status(status, wait, &body);
                ProviderFailure {
                    error,
                    status: Some(status),
                    words: error_mapper::words_of(&body),
                    is_rate_limited: status == StatusCode::TOO_MANY_REQUESTS,
                }
            }
        }
    }
}

/// The strings in a value, one level deep: keys and tokens of `extra_body`.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Object(fields) => fields.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
