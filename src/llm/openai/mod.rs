//! Chat completions as `OpenAI` defined them and many providers speak them. Owns the way of one call: request,
//! stream, completion; refuses to retry it.

mod answer;
mod calls;
mod chunk;
mod dislikes;
mod echo;
mod naming;
mod quirks;
#[cfg(test)]
mod replay;
mod request;
#[cfg(test)]
mod robust;
mod stream;

use super::options::Provider;
use super::terms::{Bounds, Terms};
use super::wire::endpoint::Endpoint;
use super::wire::failure;
use super::wire::tether::{self, Patience};
use super::wire::upstream::Upstream;
use crate::domain::secret::Secret;
use crate::ports::{CancelToken, ChunkSink, Completion, ModelError, ModelRequest};
use answer::Answer;
use dislikes::Memory;
use quirks::Quirks;
use request::Shape;
use std::io::Read;
use ureq::Agent;

/// How often a request is sent, each time without what the last refusal named.
const TRIES: usize = 4;
/// Reads a body without a network: what the fuzzer does.
#[cfg(feature = "fuzzing")]
pub(super) fn read_body(
    body: impl Read,
    request: &ModelRequest,
    terms: (&failure::Teller, Bounds),
    text_calls: bool,
    sink: ChunkSink<'_>,
) -> Result<Completion, ModelError> {
    let (teller, bounds) = terms;
    let answer = Answer::new(sink, bounds, teller, request);
    let answer = if text_calls { answer.reading_text_calls() } else { answer };
    stream::read(body, answer, bounds)
}

/// A provider that is asked in this dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    upstream: Upstream,
    shape: Shape,
    dislikes: Memory,
    patience: Patience,
    bounds: Bounds,
    text_calls: bool,
}

impl Dialect {
    /// The provider at this endpoint, asked over the shared client. `provider` says whose ways are followed.
    pub(super) fn new(agent: Agent, endpoint: Endpoint, provider: Provider, terms: Terms) -> Self {
        let Terms { key, upstream_id, max_output_tokens, patience, bounds, text_calls, .. } = terms;
        let quirks = Quirks::of(provider, endpoint.host());
        let mut upstream = Upstream::new(agent, endpoint, key.clone(), patience);
        if !key.reveal().is_empty() {
            upstream =
                upstream.with_header("authorization", Secret::from(format!("Bearer {}", key.reveal())));
        }
        let upstream =
            upstream.with_secret_headers(&terms.extra_headers).with_secret_fields(&terms.extra_body);
        let shape = Shape { upstream_id, quirks, max_output_tokens, extra: terms.extra_body };
        Self { upstream, shape, dislikes: Memory::default(), patience, bounds, text_calls }
    }

    /// Asks, and hands on pieces as they arrive.
    pub(super) fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let _held = tether::hold(cancel, self.patience);
        let body = self.send_as_liked(request, cancel)?;
        let answer = Answer::new(sink, self.bounds, self.upstream.teller(), request);
        let answer = if self.text_calls { answer.reading_text_calls() } else { answer };
        stream::read(body, answer, self.bounds)
    }

    /// Sends the request, and again without what the provider says that it does not know. What has helped is
    /// remembered for this model.
    fn send_as_liked(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
    ) -> Result<impl Read + use<>, ModelError> {
        let mut dislikes = self.dislikes.known();
        let mut body = request::body(request, &self.shape, dislikes);
        for tries_left in (0..TRIES).rev() {
            let refusal = match self.upstream.post(&body, cancel) {
                Ok(answer) => {
                    self.dislikes.learn(dislikes);
                    return Ok(answer);
                }
                Err(refusal) => refusal,
            };
            let named = refusal.status.map_or(dislikes, |status| dislikes.with_named(status, &refusal.words));
            let other = request::body(request, &self.shape, named);
            let is_hopeless = tries_left == 0 || other == body || cancel.is_cancelled();
            if is_hopeless || !matches!(refusal.error, ModelError::Refused(_)) {
                return Err(refusal.error);
            }
            (dislikes, body) = (named, other);
        }
        Err(failure::unavailable("the model's provider refused every form of the request"))
    }
}
