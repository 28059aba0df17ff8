//! One call in this dialect: request, stream, continuation after a pause, completion.

use super::answer::AnthropicAnswer;
use super::request;
use crate::llm::answer_output::AnswerOutput;
use crate::llm::dialect_options::DialectOptions;
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
pub(in crate::llm) fn read_body<'a>(
    mut body: impl std::io::Read,
    request: &'a ModelRequest,
    errors: &'a crate::llm::transport::error_mapper::ErrorMapper,
    output: AnswerOutput<'a>,
) -> Result<Completion, crate::ports::ModelError> {
    let mut answer = AnthropicAnswer::new(output, errors, request);
    answer.read(&mut body, &crate::net::CallSlot::default()).map_err(|failure| failure.error)?;
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
        let key = options.key.reveal();
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        headers.extend((!key.is_empty()).then(|| ("x-api-key", key.to_owned())));
        let provider = ProviderClient::new(client, endpoint, &options, &headers);
        Self { provider, options }
    }

    /// Calls the model and passes pieces of the answer to `sink` as they arrive. The provider pauses an
    /// answer while a tool of its own takes long (`pause_turn`). It is continued with the same token and
    /// within the same limits.
    pub(in crate::llm) fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ProviderFailure> {
        let first = request::body(request, &self.options);
        let output = AnswerOutput::new(sink, self.options.limits);
        let mut answer = AnthropicAnswer::new(output, self.provider.errors(), request);
        let mut body = Cow::Borrowed(&first);
        for _ in 0..MAX_PAUSES {
            self.read(&body, cancel, &mut answer)?;
            if !answer.is_paused() {
                return Ok(answer.finish()?.of_model(&self.options.upstream_id));
            }
            body = Cow::Owned(request::continuation(&first, answer.begin_continuation(), answer.container()));
        }
        self.read(&body, cancel, &mut answer)?;
        Ok(answer.finish()?.of_model(&self.options.upstream_id))
    }

    fn read(
        &self,
        body: &ProviderRequestBody,
        cancel: &CancelToken,
        answer: &mut AnthropicAnswer<'_>,
    ) -> Result<(), ProviderFailure> {
        let call = self.provider.call(cancel);
        let mut response = self.provider.post(body, (&call, cancel))?;
        answer.read(&mut response, call.slot())
    }
}
