//! Sends requests to one provider: headers, the HTTP exchange, and the reading of error responses.

use super::endpoint::{CHAT, Endpoint};
use super::error_mapper::{self, ErrorMapper, ProviderFailure, unavailable};
use super::request_body::ProviderRequestBody;
use crate::domain::secret::Secret;
use crate::llm::dialect_options::DialectOptions;
use crate::net::{CallTimeouts, NetCall, NetClient, decoded};
use crate::ports::{CancelToken, ModelError};
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;
use ureq::Body;
use ureq::http::{Response, Uri};

/// Bytes that are read of an error response.
const ERROR_BODY_BYTES: u64 = 64 * 1024;

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
    /// A client for this endpoint that sends the dialect's headers and those of the options. No message of it
    /// quotes a key, a header of the options, or a text in their fields.
    pub(crate) fn new(
        client: Arc<NetClient>,
        endpoint: Endpoint,
        options: &DialectOptions,
        dialect_headers: &[(&str, String)],
    ) -> Self {
        let extra = || options.extra_headers.values().map(Secret::reveal);
        // Some providers quote a token without the scheme before it.
        let tokens = extra().flat_map(str::split_whitespace);
        let fields = options.extra_body.values().flat_map(texts);
        let secrets = endpoint.query_values().chain(extra()).chain(tokens).chain(fields);
        let secrets = secrets.map(|text| Secret::from(text.to_owned()));
        let errors = ErrorMapper::new(&endpoint, options.key.clone(), options.timeouts).hiding(secrets);
        let fixed = [("content-type", "application/json"), ("accept", "text/event-stream, application/json")];
        let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
        let replaced =
            |name: &str| options.extra_headers.keys().any(|other| other.eq_ignore_ascii_case(name));
        let headers = fixed.iter().chain(dialect_headers).filter(|(name, _)| !replaced(name));
        let headers = headers.map(|(name, value)| ((*name).to_owned(), Secret::from(value.clone())));
        let extra = options.extra_headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { client, timeouts: options.timeouts, headers: headers.chain(extra).collect(), endpoint, errors }
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
        call: (&NetCall<'_>, &CancelToken),
    ) -> Result<Box<dyn Read>, ProviderFailure> {
        self.post_to(self.endpoint.uri(), body, call)
    }

    /// The same to another path of the API, beside that of chats.
    pub(crate) fn post_beside(
        &self,
        path: &str,
        body: &ProviderRequestBody,
        call: (&NetCall<'_>, &CancelToken),
    ) -> Result<Box<dyn Read>, ProviderFailure> {
        let uri = self.endpoint.beside(CHAT, path);
        let uri =
            uri.ok_or_else(|| ModelError::Refused(format!("there is no {path} beside this api_url")))?;
        self.post_to(&uri, body, call)
    }

    fn post_to(
        &self,
        uri: &Uri,
        body: &ProviderRequestBody,
        (call, cancel): (&NetCall<'_>, &CancelToken),
    ) -> Result<Box<dyn Read>, ProviderFailure> {
        let text = body.text().map_err(|error| {
            ModelError::Refused(format!("the request cannot be written as JSON: {error}"))
        })?;
        let mut request = call.agent().post(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value.reveal());
        }
        let response = request.send(text).map_err(|error| self.errors.wire(error))?;
        if !response.status().is_success() {
            return Err(self.read_failure(response, cancel));
        }
        let unknown = "the model's provider answers in a content coding that was not asked for";
        Ok(decoded(response).ok_or_else(|| unavailable(unknown))?)
    }

    fn read_failure(&self, response: Response<Body>, cancel: &CancelToken) -> ProviderFailure {
        let status = response.status();
        let wait = error_mapper::wait_ms(status, response.headers(), cancel.clock().as_ref());
        let mut body = Vec::new();
        // The status is enough when the body cannot be decoded.
        let read =
            decoded(response).map_or(Ok(0), |reader| reader.take(ERROR_BODY_BYTES).read_to_end(&mut body));
        match read {
            Err(error) if cancel.is_cancelled() => self.errors.read(&error).into(),
            // It is also enough when the body breaks off.
            _ => {
                let body = String::from_utf8_lossy(&body);
                let error = self.errors.status(status, wait, &body);
                ProviderFailure { error, status: Some(status), words: error_mapper::words_of(&body) }
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
