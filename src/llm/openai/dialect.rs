//! One call in this dialect: request, stream, completion.

use super::answer::OpenAiAnswer;
use super::forward::{self, ForwardedAnswer};
use super::quirks::ProviderQuirks;
use super::request::{self, RequestShape};
use super::unsupported::KnownUnsupported;
use crate::llm::answer_output::{AnswerLimits, AnswerOutput};
use crate::llm::dialect_options::DialectOptions;
use crate::llm::options::Provider;
use crate::llm::transport::endpoint::Endpoint;
use crate::llm::transport::error_mapper::{ProviderFailure, unavailable};
use crate::llm::transport::provider_client::ProviderClient;
use crate::llm::transport::request_body::ProviderRequestBody;
use crate::net::{NetCall, NetClient};
use crate::ports::{CancelToken, ChunkSink, Completion, ForwardRequest, ModelError, ModelRequest};
use std::io::Read;
use std::sync::Arc;

/// How often a request is sent, each time without the parameters that the last refusal named.
const TRIES: usize = 4;

/// Reads a body without a network, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub(in crate::llm) fn read_body<'a>(
    body: impl Read,
    request: &'a ModelRequest,
    errors: &'a crate::llm::transport::error_mapper::ErrorMapper,
    text_calls: bool,
    output: AnswerOutput<'a>,
) -> Result<Completion, ModelError> {
    let answer = OpenAiAnswer::new(output, errors, request, text_calls);
    answer.read(body, &crate::net::CallSlot::default()).map_err(|failure| failure.error)
}

/// A provider that is called in this dialect.
#[derive(Debug)]
pub(in crate::llm) struct OpenAiDialect {
    provider: ProviderClient,
    shape: RequestShape,
    unsupported: KnownUnsupported,
    limits: AnswerLimits,
    text_calls: bool,
}

impl OpenAiDialect {
    /// The provider at this endpoint. `provider` says whose quirks apply.
    pub(in crate::llm) fn new(
        client: Arc<NetClient>,
        endpoint: Endpoint,
        provider: Provider,
        options: DialectOptions,
    ) -> Self {
        let quirks = ProviderQuirks::of(provider, endpoint.host());
        let key = options.key.reveal();
        let authorization = (!key.is_empty()).then(|| ("authorization", format!("Bearer {key}")));
        let provider = ProviderClient::new(client, endpoint, &options, authorization.as_slice());
        let DialectOptions { upstream_id, max_output_tokens, extra_body, limits, text_calls, .. } = options;
        let shape = RequestShape { upstream_id, quirks, max_output_tokens, extra: extra_body };
        Self { provider, shape, unsupported: KnownUnsupported::default(), limits, text_calls }
    }

    /// Calls the model and passes pieces of the answer to `sink` as they arrive.
    pub(in crate::llm) fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ProviderFailure> {
        let call = self.provider.call(cancel);
        let body = self.send(request, &call, cancel)?;
        let output = AnswerOutput::new(sink, self.limits);
        let answer = OpenAiAnswer::new(output, self.provider.errors(), request, self.text_calls);
        let completion = answer.read(body, call.slot())?;
        Ok(completion.of_model(&self.shape.upstream_id))
    }

    /// Passes a request on to another endpoint of the provider.
    pub(in crate::llm) fn forward(
        &self,
        request: &ForwardRequest,
        cancel: &CancelToken,
        answer: &mut ForwardedAnswer<'_>,
    ) -> Result<(), ProviderFailure> {
        let body = forward::body(request, &self.shape.upstream_id, self.shape.max_output_tokens);
        let call = self.provider.call(cancel);
        let path = request.endpoint.path();
        let body = ProviderRequestBody::new(body);
        let mut response = self.provider.post_beside(path, &body, (&call, cancel))?;
        answer.read(&mut response, (self.provider.errors(), call.slot()))
    }

    /// Sends the request, and again without the parameters that the provider does not support. A form that
    /// succeeds is remembered for this model.
    fn send(
        &self,
        request: &ModelRequest,
        call: &NetCall<'_>,
        cancel: &CancelToken,
    ) -> Result<Box<dyn Read>, ProviderFailure> {
        let mut unsupported = self.unsupported.known();
        let mut body = request::body(request, &self.shape, unsupported);
        for tries_left in (0..TRIES).rev() {
            let failure = match self.provider.post(&body, (call, cancel)) {
                Ok(answer) => {
                    self.unsupported.learn(unsupported);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let named =
                failure.status.map_or(unsupported, |status| unsupported.with_named(status, &failure.words));
            let other = request::body(request, &self.shape, named);
            let is_hopeless = tries_left == 0 || other == body || cancel.is_cancelled();
            if is_hopeless || !matches!(failure.error, ModelError::Refused(_)) {
                return Err(failure);
            }
            (unsupported, body) = (named, other);
        }
        Err(unavailable("the model's provider refused every form of the request").into())
    }
}
