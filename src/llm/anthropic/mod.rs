//! Messages as Anthropic defined them and some other providers speak them. Owns the way of one call: request, stream,
//! the going on after a pause, completion; refuses to retry it.

mod answer;
#[cfg(test)]
mod answer_tests;
mod block;
mod event;
mod failure;
#[cfg(test)]
mod replay;
mod request;
#[cfg(test)]
mod request_tests;
mod turns;

use super::terms::Terms;
use super::wire::body;
use super::wire::endpoint::Endpoint;
use super::wire::post::Post;
use super::wire::tether;
use super::wire::upstream::Upstream;
use crate::domain::secret::Secret;
use crate::ports::{CancelToken, ChunkSink, Completion, ModelError, ModelRequest};
use answer::Answer;
use std::borrow::Cow;
use ureq::Agent;

/// The dialect's version; there is only this one.
const VERSION: &str = "2023-06-01";
/// How often a paused answer is gone on with.
const PAUSES: usize = 5;

/// Reads a body without a network: what the fuzzer does.
#[cfg(feature = "fuzzing")]
pub(super) fn read_body(
    mut body: impl std::io::Read,
    request: &ModelRequest,
    terms: (&super::wire::failure::Teller, super::terms::Bounds),
    sink: ChunkSink<'_>,
) -> Result<Completion, ModelError> {
    let (teller, bounds) = terms;
    let mut answer = Answer::new(sink, bounds, teller, request);
    let done = body::read(&mut body, &mut answer, bounds.output_bytes)?;
    answer.check_end(done)?;
    answer.finish()
}

/// A provider that is asked in this dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    upstream: Upstream,
    terms: Terms,
}

impl Dialect {
    /// The provider at this endpoint, asked over the shared client.
    pub(super) fn new(agent: Agent, endpoint: Endpoint, terms: Terms) -> Self {
        let mut upstream = Upstream::new(agent, endpoint, terms.key.clone(), terms.patience)
            .with_header("anthropic-version", Secret::from(VERSION.to_owned()));
        if !terms.key.reveal().is_empty() {
            upstream = upstream.with_header("x-api-key", terms.key.clone());
        }
        let upstream =
            upstream.with_secret_headers(&terms.extra_headers).with_secret_fields(&terms.extra_body);
        Self { upstream, terms }
    }

    /// Asks, and hands on pieces as they arrive. An answer that its provider pauses (`pause_turn`: a tool of its own
    /// takes long) is one answer still: it is gone on with on the same cancel and within the same bounds.
    pub(super) fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let first = request::body(request, &self.terms);
        let mut answer = Answer::new(sink, self.terms.bounds, self.upstream.teller(), request);
        let mut body = Cow::Borrowed(&first);
        for _ in 0..PAUSES {
            self.read(&body, cancel, &mut answer)?;
            if !answer.is_paused() {
                return answer.finish();
            }
            body = Cow::Owned(request::going_on(&first, answer.turn_page(), answer.container()));
        }
        self.read(&body, cancel, &mut answer)?;
        answer.finish()
    }

    fn read(&self, body: &Post, cancel: &CancelToken, answer: &mut Answer<'_>) -> Result<(), ModelError> {
        let _held = tether::hold(cancel, self.terms.patience);
        let mut read = self.upstream.post(body, cancel).map_err(|refusal| failure::judge(refusal.error))?;
        let done = body::read(&mut read, answer, self.terms.bounds.output_bytes)?;
        answer.check_end(done)
    }
}
