//! Chat completions as `OpenAI` defined them and many providers speak them. Owns the way of one call: request,
//! stream, completion; refuses to retry it.

mod answer;
mod calls;
mod chunk;
mod dislikes;
mod echo;
mod headers;
mod quirks;
#[cfg(test)]
mod replay;
mod request;
#[cfg(test)]
mod robust;
mod stream;

use super::options::Provider;
use super::wire::coding;
use super::wire::endpoint::Endpoint;
use super::wire::failure::{self, Teller};
use super::wire::tether::{self, Patience};
use crate::domain::secret::Secret;
use crate::ports::{Completion, Leash, ModelError, ModelRequest, Sink};
use answer::Answer;
use dislikes::{Dislikes, Memory};
use headers::Headers;
use quirks::Quirks;
use request::Shape;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use ureq::http::Response;
use ureq::{Agent, Body};

/// How often a request is sent, each time without what the last refusal named.
const TRIES: usize = 4;
/// The longest body of a refusal that is read, bytes.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// Bounds of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Text, thinking and arguments together, bytes.
    pub(super) output_bytes: usize,
    /// Calls.
    pub(super) tool_calls: usize,
    /// Arguments of one call, bytes.
    pub(super) tool_arguments_bytes: usize,
}

/// Reads a body without a network: what the fuzzer does.
#[cfg(feature = "fuzzing")]
pub(super) fn read_body(
    body: impl Read,
    request: &ModelRequest,
    bounds: Bounds,
    text_calls: bool,
    sink: Sink<'_>,
) -> Result<Completion, ModelError> {
    let second = std::time::Duration::from_secs(1);
    let endpoint = Endpoint::parse("http://127.0.0.1/v1").map_err(failure::unavailable)?;
    let teller = Teller::new(&endpoint, Secret::default(), Patience { connect: second, idle: second });
    let answer = Answer::new(sink, bounds, &teller, request);
    let answer = if text_calls { answer.reading_text_calls() } else { answer };
    stream::read(body, answer, bounds)
}

/// A provider that is asked in this dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    agent: Agent,
    endpoint: Endpoint,
    headers: Headers,
    shape: Shape,
    dislikes: Memory,
    patience: Patience,
    bounds: Bounds,
    text_calls: bool,
    teller: Teller,
}

/// What a provider needs beside its endpoint.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The bearer token; empty for none.
    pub(super) key: Secret,
    /// Whose ways are followed.
    pub(super) provider: Provider,
    /// What the provider is asked for.
    pub(super) upstream_id: String,
    /// The configured bound of one answer, tokens.
    pub(super) max_output_tokens: Option<u32>,
    /// Fields over ours in every request.
    pub(super) extra_body: Map<String, Value>,
    /// Headers over ours in every request.
    pub(super) extra_headers: BTreeMap<String, Secret>,
    /// Whether calls that are written as text are taken for calls.
    pub(super) text_calls: bool,
    /// How long to wait.
    pub(super) patience: Patience,
    /// How much to take.
    pub(super) bounds: Bounds,
}

impl Dialect {
    /// The provider at this endpoint, asked over the shared client; or which extra header is bad, and why.
    pub(super) fn new(
        agent: Agent,
        endpoint: Endpoint,
        terms: Terms,
    ) -> Result<Self, (String, &'static str)> {
        let Terms { key, upstream_id, max_output_tokens, patience, bounds, text_calls, .. } = terms;
        let headers = Headers::new(&key, &terms.extra_headers)?;
        let quirks = Quirks::of(terms.provider, endpoint.host());
        let teller = Teller::new(&endpoint, key, patience).hiding(terms.extra_headers.into_values());
        let shape = Shape { upstream_id, quirks, max_output_tokens, extra: terms.extra_body };
        let dislikes = Memory::default();
        Ok(Self { agent, endpoint, headers, shape, dislikes, patience, bounds, text_calls, teller })
    }

    /// Asks, and hands on pieces as they arrive.
    pub(super) fn ask(
        &self,
        request: &ModelRequest,
        leash: &Leash,
        sink: Sink<'_>,
    ) -> Result<Completion, ModelError> {
        let _held = tether::hold(leash, self.patience);
        let response = self.send_as_liked(request, leash)?;
        let answer = Answer::new(sink, self.bounds, &self.teller, request);
        let answer = if self.text_calls { answer.reading_text_calls() } else { answer };
        stream::read(coding::reader(response)?, answer, self.bounds)
    }

    /// Sends the request, and again without what the provider says that it does not know. What has helped is
    /// remembered for this model.
    fn send_as_liked(&self, request: &ModelRequest, leash: &Leash) -> Result<Response<Body>, ModelError> {
        let mut dislikes = self.dislikes.known();
        let mut body = request::body(request, &self.shape, dislikes);
        for tries_left in (0..TRIES).rev() {
            let response = self.send(&body)?;
            if response.status().is_success() {
                self.dislikes.learn(dislikes);
                return Ok(response);
            }
            let (error, named) = self.refusal(response, leash, dislikes);
            let other = request::body(request, &self.shape, named);
            if tries_left == 0
                || other == body
                || !matches!(error, ModelError::Refused(_))
                || leash.is_pulled()
            {
                return Err(error);
            }
            (dislikes, body) = (named, other);
        }
        Err(failure::unavailable("the model's provider refused every form of the request"))
    }

    fn send(&self, body: &Value) -> Result<Response<Body>, ModelError> {
        let call = self.headers.put_on(self.agent.post(self.endpoint.uri()));
        call.send(&body.to_string()).map_err(|error| self.teller.wire(error))
    }

    /// What a refusal means, and the fields that it names among those that the provider does not like.
    fn refusal(&self, response: Response<Body>, leash: &Leash, dislikes: Dislikes) -> (ModelError, Dislikes) {
        let status = response.status();
        let wait = failure::wait_ms(status, response.headers(), leash.clock.as_ref());
        let mut body = Vec::new();
        let read = match coding::reader(response) {
            Ok(reader) => reader.take(REFUSAL_BYTES).read_to_end(&mut body),
            Err(_) => Ok(0), // the status tells enough
        };
        match read {
            Err(error) if leash.is_pulled() => (self.teller.read(&error), dislikes),
            // The status tells enough when its explanation breaks off.
            _ => {
                let body = String::from_utf8_lossy(&body);
                let named = dislikes.with_named(status, &failure::words_of(&body));
                (self.teller.status(status, wait, &body), named)
            }
        }
    }
}
