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

use super::terms::{Bounds, Terms};
use super::wire::endpoint::Endpoint;
use super::wire::tether::{self, Patience};
use super::wire::upstream::Upstream;
use crate::domain::secret::Secret;
use crate::ports::{Completion, Leash, ModelError, ModelRequest, Sink};
use answer::Answer;
use quirks::Quirks;
use ureq::Agent;

/// A provider that is asked in this dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    upstream: Upstream,
    quirks: Quirks,
    max_output_tokens: Option<u32>,
    patience: Patience,
    bounds: Bounds,
}

impl Dialect {
    /// The provider at this endpoint, asked over the shared client.
    pub(super) fn new(agent: Agent, endpoint: Endpoint, terms: Terms) -> Self {
        let Terms { key, max_output_tokens, patience, bounds, .. } = terms;
        let quirks = Quirks::of_host(endpoint.host());
        let mut upstream = Upstream::new(agent, endpoint, key.clone(), patience);
        if !key.reveal().is_empty() {
            upstream =
                upstream.with_header("authorization", Secret::from(format!("Bearer {}", key.reveal())));
        }
        Self { upstream, quirks, max_output_tokens, patience, bounds }
    }

    /// Asks, and hands on pieces as they arrive.
    pub(super) fn ask(
        &self,
        request: &ModelRequest,
        leash: &Leash,
        sink: Sink<'_>,
    ) -> Result<Completion, ModelError> {
        let _held = tether::hold(leash, self.patience);
        let body = request::body(request, self.max_output_tokens, &self.quirks).to_string();
        let read = self.upstream.post(&body, leash)?;
        stream::read(read, Answer::new(sink, self.bounds, self.upstream.teller(), request), self.bounds)
    }
}
