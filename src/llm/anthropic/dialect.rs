//! One call in this dialect: request, stream, continuation after a pause, completion.

use super::answer::AnthropicAnswer;
use super::{error, request};
use crate::domain::secret::Secret;
use crate::llm::dialect_options::DialectOptions;
use crate::llm::transport::body;
use crate::llm::transport::endpoint::Endpoint;
use crate::llm::transport::error_mapper::ProviderFailure;
use crate::llm::transport::provider_client::ProviderClient;
use crate::llm::transport::request_body::ProviderRequestBody;
use crate::net::NetClient;
use crate::ports::{CancelToken, ChunkSink, Completion, ModelRequest};
use std::borrow::Cow;
use std::sync::Arc;

/// The only version of the dialect.
const VERSION: &str = "2023-06-01";
/// How often a paused answer is continued.
const MAX_PAUSES: usize = 5;

/// Reads a body without a network, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub(in crate::llm) fn read_body(
    mut body: impl std::io::Read,
    request: &ModelRequest,
    (errors, limits): (
        &crate::llm::transport::error_mapper::ErrorMapper,
        crate::llm::dialect_options::AnswerLimits,
    ),
    sink: ChunkSink<'_>,
) -> Result<Completion, crate::ports::ModelError> {
    let mut answer = AnthropicAnswer::new(sink, limits, errors, request);
    let slot = crate::net::CallSlot::default();
    let done = body::read(&mut body, &slot, &mut answer, limits.output_bytes);
    answer.check_end(done.map_err(|failure| failure.error)?)?;
    answer.finish()
}

/// A provider that is called in this dialect.
#[derive(Debug)]
pub(in crate::llm) struct AnthropicDialect {
    provider: ProviderClient,
    options: DialectOptions,
}

impl AnthropicDialect {
    /// The provider at this endpoint.
    pub(in crate::llm) fn new(client: Arc<NetClient>, endpoint: Endpoint, options: DialectOptions) -> Self {
        let mut provider = ProviderClient::new(client, endpoint, options.key.clone(), options.timeouts)
            .with_header("anthropic-version", Secret::from(VERSION.to_owned()));
        if !options.key.reveal().is_empty() {
            provider = provider.with_header("x-api-key", options.key.clone());
        }
        let provider =
            provider.with_secret_headers(&options.extra_headers).with_secret_fields(&options.extra_body);
        Self { provider, options }
    }

    /// Calls the model and passes pieces of the answer to `sink` as they arrive. An answer that its provider pauses
    /// (`pause_turn`: a tool of its own takes long) is continued with the same token and within the same limits.
    pub(in crate::llm) fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ProviderFailure> {
        let first = request::body(request, &self.options);
        let mut answer = AnthropicAnswer::new(sink, self.options.limits, self.provider.errors(), request);
        let mut body = Cow::Borrowed(&first);
        for _ in 0..MAX_PAUSES {
            self.read(&body, cancel, &mut answer)?;
            if !answer.is_paused() {
                return Ok(answer.finish()?);
            }
            body = Cow::Owned(request::continuation(&first, answer.begin_continuation(), answer.container()));
        }
        self.read(&body, cancel, &mut answer)?;
        Ok(answer.finish()?)
    }

    fn read(
        &self,
        body: &ProviderRequestBody,
        cancel: &CancelToken,
        answer: &mut AnthropicAnswer<'_>,
    ) -> Result<(), ProviderFailure> {
        let call = self.provider.call(cancel);
        let mut response = self
            .provider
            .post(body, (&call, cancel))
            .map_err(|failure| ProviderFailure { error: error::refine(failure.error.clone()), ..failure })?;
        let done = body::read(&mut response, call.slot(), answer, self.options.limits.output_bytes)?;
        Ok(answer.check_end(done)?)
    }
}
