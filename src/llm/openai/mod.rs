//! Chat completions as `OpenAI` defined them and many providers speak them. Owns the way of one call: request,
//! stream, completion; refuses to retry it.

mod answer;
mod calls;
mod chunk;
mod quirks;
#[cfg(test)]
mod replay;
mod request;
mod stream;

use super::wire::endpoint::Endpoint;
use super::wire::failure::{self, Teller};
use super::wire::tether::{self, Patience};
use crate::domain::secret::Secret;
use crate::ports::{Completion, Leash, ModelError, ModelRequest, Sink};
use answer::Answer;
use quirks::Quirks;
use std::io::Read;
use ureq::http::Response;
use ureq::{Agent, Body};

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

/// A provider that is asked in this dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    agent: Agent,
    endpoint: Endpoint,
    key: Secret,
    quirks: Quirks,
    max_output_tokens: Option<u32>,
    patience: Patience,
    bounds: Bounds,
    teller: Teller,
}

/// What a provider needs beside its endpoint.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The bearer token; empty for none.
    pub(super) key: Secret,
    /// The provider's bound of one answer.
    pub(super) max_output_tokens: Option<u32>,
    /// How long to wait.
    pub(super) patience: Patience,
    /// How much to take.
    pub(super) bounds: Bounds,
}

impl Dialect {
    /// The provider at this endpoint, asked over the shared client.
    pub(super) fn new(agent: Agent, endpoint: Endpoint, terms: Terms) -> Self {
        let Terms { key, max_output_tokens, patience, bounds } = terms;
        let quirks = Quirks::of_host(endpoint.host());
        let teller = Teller::new(&endpoint, key.clone(), patience);
        Self { agent, endpoint, key, quirks, max_output_tokens, patience, bounds, teller }
    }

    /// Asks, and hands on pieces as they arrive.
    pub(super) fn ask(
        &self,
        request: &ModelRequest,
        leash: &Leash,
        sink: Sink<'_>,
    ) -> Result<Completion, ModelError> {
        let _held = tether::hold(leash, self.patience);
        let response = self.send(request)?;
        if !response.status().is_success() {
            return Err(self.refusal(response, leash));
        }
        let answer = Answer::new(sink, self.bounds, &self.teller, request);
        stream::read(response.into_body().into_reader(), answer, self.bounds)
    }

    fn send(&self, request: &ModelRequest) -> Result<Response<Body>, ModelError> {
        let body = request::body(request, self.max_output_tokens, &self.quirks).to_string();
        let mut call = self.agent.post(self.endpoint.uri()).header("content-type", "application/json");
        call = call.header("accept", "text/event-stream, application/json");
        if !self.key.reveal().is_empty() {
            call = call.header("authorization", format!("Bearer {}", self.key.reveal()));
        }
        call.send(&body).map_err(|error| self.teller.wire(error))
    }

    fn refusal(&self, response: Response<Body>, leash: &Leash) -> ModelError {
        let status = response.status();
        let wait = failure::retry_after_ms(response.headers(), leash.clock.as_ref());
        let mut body = Vec::new();
        match response.into_body().into_reader().take(REFUSAL_BYTES).read_to_end(&mut body) {
            Err(error) if leash.is_pulled() => self.teller.read(&error),
            // The status tells enough when its explanation breaks off.
            _ => self.teller.status(status, wait, &String::from_utf8_lossy(&body)),
        }
    }
}
