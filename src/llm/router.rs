//! The configured models and how each is called: rate limiter, metrics, dialect.

use super::answer_output::AnswerLimits;
use super::anthropic::AnthropicDialect;
use super::call_metrics::{self, CallMetrics};
use super::dialect_options::{DialectOptions, call_timeouts};
use super::error::ModelConfigError;
use super::last_call::{LastCall, LastCallEnd};
use super::openai::{ForwardedAnswer, OpenAiDialect, as_model_request};
use super::options::{ModelOptions, Provider};
use super::rate_limit::{LimiterRegistry, ProviderHealth, ProviderLimiter};
use super::transport::endpoint::{CHAT, Endpoint, EndpointPath, MESSAGES};
use super::transport::error_mapper::ProviderFailure;
use super::{catalogue, demo, transport};
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::domain::usage::Price;
use crate::net::NetClient;
use crate::ports::{
    CancelToken, Chunk, ChunkSink, Completion, ForwardError, ForwardOutcome, ForwardRequest, ForwardSink,
    Meter, Model, ModelError, ModelHealth, ModelInfo, ModelRequest, ModelState, NoopMeter, ProviderCluster,
};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Headers of `extra_headers` that carry a key.
const KEY_HEADERS: [&str; 3] = ["authorization", "api-key", "x-api-key"];
/// Headers that the request itself sets.
const OWN_HEADERS: [&str; 5] = ["content-type", "content-length", "host", "transfer-encoding", "connection"];

/// The configured models.
#[derive(Debug)]
pub struct Router {
    routes: Vec<ModelRoute>,
    meter: Arc<dyn Meter>,
}

#[derive(Debug)]
struct ModelRoute {
    info: ModelInfo,
    dialect: ModelDialect,
    /// Shared by all models of a provider; the demo model has none.
    limiter: Option<Arc<ProviderLimiter>>,
    last_call: LastCall,
    meter: Arc<dyn Meter>,
}

#[derive(Debug)]
enum ModelDialect {
    Demo,
    Openai(Box<OpenAiDialect>),
    Anthropic(Box<AnthropicDialect>),
}

impl Router {
    /// Validates the models, in configured order. Uses these `limits`: connect and idle timeouts, the limits
    /// of one answer, the wait for a provider and its circuit breaker.
    pub fn new(models: Vec<ModelOptions>, limits: &Limits) -> Result<Self, ModelConfigError> {
        let client = Arc::new(transport::client());
        catalogue::check(&models)?;
        let mut registry = LimiterRegistry::new(limits);
        let mut routes: Vec<ModelRoute> = Vec::with_capacity(models.len());
        for mut model in models {
            model.api_key = model.key_from_file.take().or(model.api_key);
            let rate = model.rate;
            let url = model.api_url.clone();
            let key = account(&model);
            let mut route = ModelRoute::new(model, limits, &client)?;
            if !matches!(route.dialect, ModelDialect::Demo) {
                route.limiter = url.map(|url| registry.limiter(&url, &key, &rate));
            }
            routes.push(route);
        }
        Ok(Self { routes, meter: Arc::new(NoopMeter) })
    }

    /// The same router that reports calls and circuit states to `meter`.
    #[must_use]
    pub fn with_meter(mut self, meter: &Arc<dyn Meter>) -> Self {
        for route in &mut self.routes {
            route.meter = Arc::clone(meter);
            if let Some(limiter) = &route.limiter {
                limiter.record_state(&**meter);
            }
        }
        Self { meter: Arc::clone(meter), ..self }
    }

    /// The same router, which shares its providers with the other nodes of a cluster.
    #[must_use]
    pub fn in_cluster(self, cluster: Option<&Arc<dyn ProviderCluster>>) -> Self {
        if let Some(cluster) = cluster {
            let limiters = self.routes.iter().filter_map(|route| route.limiter.as_ref());
            limiters.for_each(|limiter| limiter.join_cluster(cluster));
        }
        self
    }

    fn route(&self, id: &str) -> Option<&ModelRoute> {
        self.routes.iter().find(|route| route.info.id == id)
    }
}

impl ModelRoute {
    fn new(model: ModelOptions, limits: &Limits, client: &Arc<NetClient>) -> Result<Self, ModelConfigError> {
        let provider = model
            .provider
            .or_else(|| guess(&model))
            .ok_or_else(|| ModelConfigError::NoUrl(model.id.clone()))?;
        let takes_input_examples = provider == Provider::Anthropic;
        let info = ModelInfo { takes_input_examples, ..catalogue::info(&model)? };
        let client = Arc::clone(client);
        let dialect = match provider {
            Provider::Demo => ModelDialect::Demo,
            Provider::Anthropic => {
                let (endpoint, options) = dialect_options(model, MESSAGES, limits)?;
                ModelDialect::Anthropic(Box::new(AnthropicDialect::new(client, endpoint, options)))
            }
            Provider::Openai | Provider::Deepseek | Provider::Glm => {
                let (endpoint, options) = dialect_options(model, CHAT, limits)?;
                ModelDialect::Openai(Box::new(OpenAiDialect::new(client, endpoint, provider, options)))
            }
        };
        let (last_call, meter) = (LastCall::default(), Arc::new(NoopMeter));
        Ok(Self { info, dialect, limiter: None, last_call, meter })
    }

    /// Waits for the rate limiter, if there is one, and makes the call.
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let Some(limiter) = &self.limiter else {
            return self.call(request, cancel, sink).map_err(|failure| failure.error);
        };
        let acquired = limiter.acquire(request, cancel).inspect_err(|error| {
            call_metrics::not_admitted(&*self.meter, &self.info.id, error);
        });
        limiter.record_state(&*self.meter);
        let mut permit = acquired?;
        let result = self.call(request, cancel, &mut |chunk| {
            match chunk {
                Chunk::Spent(usage) => permit.report_usage(usage),
                Chunk::Thinking(_) | Chunk::Text(_) if permit.answered() => {
                    limiter.record_state(&*self.meter);
                }
                Chunk::Thinking(_)
                | Chunk::Text(_)
                | Chunk::TextWasThinking
                | Chunk::Call { .. }
                | Chunk::CaughtUp => {}
            }
            sink(chunk)
        });
        permit.finish(result.as_ref().map(|_| ()));
        drop(permit);
        limiter.record_state(&*self.meter);
        result.map_err(|failure| failure.error)
    }

    /// Passes a request on, within the same limits as calls.
    fn forward(
        &self,
        request: &ForwardRequest,
        cancel: &CancelToken,
        sink: ForwardSink<'_>,
    ) -> ForwardOutcome {
        let ModelDialect::Openai(dialect) = &self.dialect else {
            let (path, place) = (request.endpoint.path(), self.info.place());
            let text =
                format!("{place}: its provider has no {path}; only OpenAI-style providers may have it");
            return ForwardOutcome::failed(ForwardError::NotOffered(text));
        };
        let estimated = as_model_request(request);
        let acquired = self.limiter.as_ref().map(|limiter| limiter.acquire(&estimated, cancel)).transpose();
        let mut permit = match acquired {
            Ok(permit) => permit,
            Err(error) => {
                call_metrics::not_admitted(&*self.meter, &self.info.id, &error);
                return ForwardOutcome::failed(error.at(&self.info));
            }
        };
        let metrics = CallMetrics::begin(&*self.meter, &**cancel.clock(), &self.info.id);
        let mut answer = ForwardedAnswer::new(request, sink);
        let result = dialect.forward(request, cancel, &mut answer);
        let usage = answer.usage(&estimated).priced(self.info.price.unwrap_or_default());
        let outcome = result.as_ref().copied().map_err(|failure| &failure.error);
        metrics.end(outcome);
        // A missing endpoint says nothing about the model.
        if !result.as_ref().is_err_and(is_unknown_path) {
            self.last_call.note(outcome);
        }
        if let Some(permit) = &mut permit {
            permit.report_usage(usage);
            permit.finish(result.as_ref().copied());
        }
        drop(permit);
        if let Some(limiter) = &self.limiter {
            limiter.record_state(&*self.meter);
        }
        ForwardOutcome { usage, result: result.map_err(|failure| self.forward_error(failure)) }
    }

    /// A provider without the endpoint answers it like any other unknown path.
    fn forward_error(&self, failure: ProviderFailure) -> ForwardError {
        let is_unknown = is_unknown_path(&failure);
        let error = failure.error.at(&self.info);
        if is_unknown { ForwardError::NotOffered(error.to_string()) } else { error.into() }
    }

    /// Makes the call in the model's dialect and measures it. Usage is priced.
    fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ProviderFailure> {
        let price = self.info.price.unwrap_or_default();
        let mut metrics = CallMetrics::begin(&*self.meter, &**cancel.clock(), &self.info.id);
        let sink = &mut |chunk: Chunk<'_>| {
            metrics.chunk_arrived(&chunk);
            sink(priced(chunk, price))
        };
        let result = match &self.dialect {
            ModelDialect::Demo => demo::ask(request, cancel, sink).map_err(ProviderFailure::from),
            ModelDialect::Openai(dialect) => dialect.ask(request, cancel, sink),
            ModelDialect::Anthropic(dialect) => dialect.ask(request, cancel, sink),
        };
        let outcome = result.as_ref().map(|_| ()).map_err(|failure| &failure.error);
        metrics.end(outcome);
        self.last_call.note(outcome);
        result
    }

    /// The provider's limiter counts first: it decides whether the next call is made.
    fn health(&self, now_ms: u64) -> ModelHealth {
        let id = self.info.id.clone();
        let provider = self.limiter.as_ref().map_or(ProviderHealth::Open, |limiter| limiter.health(now_ms));
        let (state, left_ms, cause) = match (provider, self.last_call.end()) {
            (ProviderHealth::Broken { left_ms }, end) => (ModelState::Unreachable, left_ms, end.into_cause()),
            (ProviderHealth::Paused { left_ms }, end) => (ModelState::CoolingDown, left_ms, end.into_cause()),
            (ProviderHealth::Open, LastCallEnd::Failed(cause)) => (ModelState::Failing, 0, Some(cause)),
            (ProviderHealth::Open, LastCallEnd::Answered) => (ModelState::Ok, 0, None),
            (ProviderHealth::Open, LastCallEnd::None) => (ModelState::Unknown, 0, None),
        };
        let reason = cause.or_else(|| reason_of(state).map(str::to_owned));
        ModelHealth { id, state, retry_in_ms: Some(left_ms).filter(|left_ms| *left_ms > 0), reason }
    }
}

fn priced(chunk: Chunk<'_>, price: Price) -> Chunk<'_> {
    match chunk {
        Chunk::Spent(usage) => Chunk::Spent(usage.priced(price)),
        piece => piece,
    }
}

/// Whether the provider knows no such endpoint, or no such model.
fn is_unknown_path(failure: &ProviderFailure) -> bool {
    failure.status.is_some_and(|status| matches!(status.as_u16(), 404 | 405 | 501))
}

/// The reason where this model's own calls give none.
fn reason_of(state: ModelState) -> Option<&'static str> {
    match state {
        ModelState::Unreachable => Some("calls of other models to the same provider have failed"),
        ModelState::CoolingDown => Some("the provider limits calls"),
        ModelState::Failing | ModelState::Ok | ModelState::Unknown => None,
    }
}

pub(super) fn guess(model: &ModelOptions) -> Option<Provider> {
    match &model.api_url {
        Some(url) if speaks_messages(url) => Some(Provider::Anthropic),
        Some(_) => Some(Provider::Openai),
        None => (model.id == demo::ID).then_some(Provider::Demo),
    }
}

/// Whether the address is Anthropic's or ends with the path of its dialect.
fn speaks_messages(url: &str) -> bool {
    let Ok(uri) = url.trim().parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    host == "anthropic.com"
        || host.ends_with(".anthropic.com")
        || uri.path().trim_end_matches('/').ends_with(MESSAGES.path)
}

/// The account at the provider: the key and the keys in headers.
fn account(model: &ModelOptions) -> Secret {
    let key = model.api_key.clone().unwrap_or_default();
    let in_headers = model.extra_headers.iter().filter(|(name, _)| is_key_header(name));
    let all = in_headers
        .fold(key.reveal().trim().to_owned(), |all, (_, value)| format!("{all}\n{}", value.reveal()));
    Secret::from(all)
}

fn is_key_header(name: &str) -> bool {
    KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str())
}

/// The endpoint of a model and the options of its dialect.
fn dialect_options(
    model: ModelOptions,
    path: EndpointPath,
    limits: &Limits,
) -> Result<(Endpoint, DialectOptions), ModelConfigError> {
    let id = model.id;
    let url = model.api_url.ok_or_else(|| ModelConfigError::NoUrl(id.clone()))?;
    let endpoint =
        Endpoint::parse(&url, path).map_err(|reason| ModelConfigError::BadUrl { id: id.clone(), reason })?;
    let key = Secret::from(model.api_key.unwrap_or_default().reveal().trim().to_owned());
    let has_key = !key.reveal().is_empty() || model.extra_headers.keys().any(|name| is_key_header(name));
    if !has_key && !endpoint.is_loopback() {
        return Err(ModelConfigError::NoKey(id));
    }
    if !key.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ModelConfigError::BadKey(id));
    }
    for (name, value) in &model.extra_headers {
        check_header(name, value).map_err(|reason| ModelConfigError::BadHeader {
            id: id.clone(),
            name: name.clone(),
            reason,
        })?;
    }
    let options = DialectOptions {
        key,
        upstream_id: model.upstream_id.unwrap_or(id),
        max_output_tokens: model.max_output_tokens,
        extra_body: model.extra_body,
        extra_headers: model.extra_headers,
        text_calls: model.text_tool_calls,
        timeouts: call_timeouts(
            Duration::from_secs(limits.model_connect_timeout_s),
            Duration::from_secs(limits.model_idle_timeout_s),
        ),
        limits: AnswerLimits {
            output_bytes: limits.output_bytes,
            tool_calls: limits.tool_calls,
            tool_arguments_bytes: limits.tool_arguments_bytes,
        },
    };
    Ok((endpoint, options))
}

fn check_header(name: &str, value: &Secret) -> Result<(), &'static str> {
    let parsed: HeaderName = name.parse().map_err(|_| "it is no name of a header")?;
    if OWN_HEADERS.contains(&parsed.as_str()) {
        return Err("the request itself sets it");
    }
    HeaderValue::from_str(value.reveal()).map_err(|_| "its value has characters that no header may have")?;
    Ok(())
}

impl Model for Router {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        if cancel.is_cancelled() {
            return Err(ModelError::Stopped);
        }
        match self.route(&request.model) {
            None => {
                let error = ModelError::NotFound(request.model.clone());
                call_metrics::not_called(&*self.meter, &error);
                Err(error)
            }
            Some(route) => route.ask(request, cancel, sink),
        }
    }

    fn forward(
        &self,
        request: &ForwardRequest,
        cancel: &CancelToken,
        sink: ForwardSink<'_>,
    ) -> ForwardOutcome {
        match self.route(&request.model) {
            None => ForwardOutcome::failed(ModelError::NotFound(request.model.clone())),
            Some(route) => route.forward(request, cancel, sink),
        }
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.routes.iter().map(|route| route.info.clone()).collect()
    }

    fn health(&self, now_ms: u64) -> Vec<ModelHealth> {
        self.routes.iter().map(|route| route.health(now_ms)).collect()
    }

    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.route(id).map(|route| route.info.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn route(models: Value) -> Result<Router, ModelConfigError> {
        Router::new(serde_json::from_value(models).expect("model options"), &Limits::default())
    }

    #[test]
    fn configured_models_are_listed_in_order_with_id_and_name() {
        let router = route(json!([
            {"id": "b", "api_url": "http://127.0.0.1:1/v1"},
            {"id": "demo"},
            {"id": "a", "name": "A", "api_url": "https://x.test/v1", "api_key": "k"},
        ]));
        let names: Vec<_> = router.expect("valid").models().into_iter().map(|m| (m.id, m.name)).collect();
        let expected =
            [("b", "b"), ("demo", "demo"), ("a", "A")].map(|(id, name)| (id.to_owned(), name.to_owned()));
        assert_eq!(names, expected);
    }

    #[test]
    fn unusable_models_are_refused_at_the_start() {
        let url = "https://x.test/v1";
        for (models, error) in [
            (json!([{"id": " ", "api_url": url}]), ModelConfigError::NoId),
            (json!([{"id": "demo"}, {"id": "demo"}]), ModelConfigError::Twice("demo".into())),
            (json!([{"id": "x"}]), ModelConfigError::NoUrl("x".into())),
            (json!([{"id": "x", "provider": "openai"}]), ModelConfigError::NoUrl("x".into())),
            (json!([{"id": "x", "api_url": url}]), ModelConfigError::NoKey("x".into())),
            (json!([{"id": "x", "api_url": url, "api_key": ""}]), ModelConfigError::NoKey("x".into())),
            (json!([{"id": "x", "api_url": url, "api_key": "a\nb"}]), ModelConfigError::BadKey("x".into())),
        ] {
            assert_eq!(route(models.clone()).err(), Some(error), "{models}");
        }
        let bad = route(json!([{"id": "x", "api_url": "x.test/v1", "api_key": "k"}]));
        assert!(matches!(bad, Err(ModelConfigError::BadUrl { .. })));
        for (name, value) in [("Content-Type", "x"), ("host", "x"), ("a b", "x"), ("a", "x\ny")] {
            let bad = json!([{"id": "x", "api_url": url, "api_key": "k", "extra_headers": {name: value}}]);
            let error = route(bad).expect_err("a bad header");
            assert!(matches!(error, ModelConfigError::BadHeader { .. }), "{error}");
            assert!(!error.to_string().contains("x\ny"), "P9: {error}");
        }
        let keyed = json!([{"id": "x", "api_url": url, "extra_headers": {"Authorization": "Bearer k"}}]);
        assert!(route(keyed).is_ok());
    }

    #[test]
    fn the_dialect_is_derived_from_the_url_or_the_provider() {
        for (url, anthropic) in [
            ("https://api.anthropic.com", true),
            ("https://API.Anthropic.com/v1/", true),
            ("https://x.test/claude/v1/messages", true),
            ("https://notanthropic.com/v1", false),
            ("https://api.z.ai/api/paas/v4", false),
        ] {
            let router = route(json!([{"id": "x", "api_url": url, "api_key": "k"}])).expect("valid");
            let is_anthropic = matches!(router.routes[0].dialect, ModelDialect::Anthropic(_));
            assert_eq!(is_anthropic, anthropic, "{url}");
        }
        let named =
            json!([{"id": "x", "api_url": "https://x.test", "provider": "anthropic", "api_key": "k"}]);
        assert!(matches!(route(named).expect("valid").routes[0].dialect, ModelDialect::Anthropic(_)));
    }
}
