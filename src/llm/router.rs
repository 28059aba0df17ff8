//! The configured models and the way to each. Owns the check of `models:` and the choice of the dialect; refuses to
//! know what a dialect says.

use super::gate::{Gate, Gates};
use super::options::{ModelOptions, Provider};
use super::terms::{Bounds, Terms};
use super::watch::{self, Watch};
use super::wire;
use super::wire::endpoint::{CHAT, Endpoint, MESSAGES, Place};
use super::wire::plea;
use super::wire::tether::Patience;
use super::{anthropic, catalogue, demo, openai};
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::domain::usage::Price;
use crate::ports::{
    CancelToken, Chunk, ChunkSink, Completion, Meter, Model, ModelError, ModelInfo, ModelRequest, NoopMeter,
};
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Why a list of models cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A model without a name cannot be asked for.
    #[error("a model has an empty id")]
    NoId,
    /// Two models of one id: nobody could tell which is meant.
    #[error("model '{0}' is configured twice")]
    Twice(String),
    /// A model that is nowhere.
    #[error("model '{0}' has no api_url (only a model with 'provider: demo' needs none)")]
    NoUrl(String),
    /// The address cannot be used.
    #[error("model '{id}' has a bad api_url: {reason}")]
    BadUrl {
        /// Whose.
        id: String,
        /// Why.
        reason: &'static str,
    },
    /// A provider elsewhere wants a key.
    #[error("model '{0}' has no api_key (only providers on this machine need none)")]
    NoKey(String),
    /// The key would break the header that carries it.
    #[error("model '{0}' has an api_key with a space, a line break or a character beyond ASCII in it")]
    BadKey(String),
    /// A list of models to fall back to that cannot be followed.
    #[error("model '{id}' has a bad fallback: '{other}' {reason}")]
    Fallback {
        /// Whose.
        id: String,
        /// The one in the list.
        other: String,
        /// Why.
        reason: &'static str,
    },
    /// A price that no bill could have.
    #[error("model '{id}' has a bad price.{key}: {value} must be a number from 0 to 1000000000")]
    Price {
        /// Whose.
        id: String,
        /// Of what.
        key: &'static str,
        /// As given.
        value: String,
    },
    /// A bound that makes no sense.
    #[error("model '{id}' has a bad rate.{key}: {reason}")]
    Rate {
        /// Whose.
        id: String,
        /// Which.
        key: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A header that no request can carry, or that would break it.
    #[error("model '{id}' has a bad header in extra_headers, '{name}': {reason}")]
    BadHeader {
        /// Whose.
        id: String,
        /// Which, as written.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

/// Headers of `extra_headers` that stand for a key.
const KEY_HEADERS: [&str; 3] = ["authorization", "api-key", "x-api-key"];
/// What the request itself is responsible for.
const OWN_HEADERS: [&str; 5] = ["content-type", "content-length", "host", "transfer-encoding", "connection"];

/// All configured models: picks by id, asks in the model's dialect.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
    meter: Arc<dyn Meter>,
}

#[derive(Debug)]
struct Route {
    info: ModelInfo,
    way: Way,
    /// What stands before the provider; the demo model has none.
    gate: Option<Arc<Gate>>,
    meter: Arc<dyn Meter>,
}

#[derive(Debug)]
enum Way {
    Demo,
    Openai(Box<openai::Dialect>),
    Anthropic(Box<anthropic::Dialect>),
}

impl Router {
    /// The models as configured, in this order, or what is wrong with them. Of `limits` it heeds the connect and
    /// idle timeouts, the bounds of one answer, the wait for a provider and its circuit breaker.
    pub fn new(models: Vec<ModelOptions>, limits: &Limits) -> Result<Self, Error> {
        let agent = wire::agent();
        catalogue::check(&models)?;
        let mut gates = Gates::new(limits);
        let mut routes: Vec<Route> = Vec::with_capacity(models.len());
        for mut model in models {
            model.api_key = model.key_from_file.take().or(model.api_key);
            let rate = model.rate;
            let url = model.api_url.clone();
            let key = account(&model);
            let mut route = Route::new(model, limits, &agent)?;
            if !matches!(route.way, Way::Demo) {
                route.gate = url.map(|url| gates.gate(&url, &key, &rate));
            }
            routes.push(route);
        }
        Ok(Self { routes, meter: Arc::new(NoopMeter) })
    }

    /// Tells `meter` of every call, and of every provider as it stands now.
    #[must_use]
    pub fn telling(mut self, meter: &Arc<dyn Meter>) -> Self {
        for route in &mut self.routes {
            route.meter = Arc::clone(meter);
            if let Some(gate) = &route.gate {
                gate.tell(&**meter);
            }
        }
        Self { meter: Arc::clone(meter), ..self }
    }

    fn route(&self, id: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.info.id == id)
    }
}

impl Route {
    fn new(model: ModelOptions, limits: &Limits, agent: &Agent) -> Result<Self, Error> {
        let info = catalogue::info(&model)?;
        let provider =
            model.provider.or_else(|| guess(&model)).ok_or_else(|| Error::NoUrl(model.id.clone()))?;
        let way = match provider {
            Provider::Demo => Way::Demo,
            Provider::Anthropic => {
                let (endpoint, terms) = arrange(model, MESSAGES, limits)?;
                Way::Anthropic(Box::new(anthropic::Dialect::new(agent.clone(), endpoint, terms)))
            }
            Provider::Openai | Provider::Deepseek | Provider::Glm => {
                let (endpoint, terms) = arrange(model, CHAT, limits)?;
                Way::Openai(Box::new(openai::Dialect::new(agent.clone(), endpoint, provider, terms)))
            }
        };
        Ok(Self { info, way, gate: None, meter: Arc::new(NoopMeter) })
    }

    /// Through the gate, if there is one. What is spent goes on with its price.
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let Some(gate) = &self.gate else {
            return self.watched(request, cancel, sink);
        };
        let entered = gate.enter(request, cancel).inspect_err(|error| {
            watch::kept_back(&*self.meter, &self.info.id, error);
        });
        gate.tell(&*self.meter);
        let mut permit = entered?;
        plea::forget();
        let result = self.watched(request, cancel, &mut |chunk| {
            match chunk {
                Chunk::Spent(usage) => permit.spend(usage),
                Chunk::Thinking(_) | Chunk::Text(_) if permit.hear() => gate.tell(&*self.meter),
                Chunk::Thinking(_) | Chunk::Text(_) => {}
            }
            sink(chunk)
        });
        permit.tell(&result, plea::is_noted());
        drop(permit);
        gate.tell(&*self.meter);
        result
    }

    /// The call itself, measured.
    fn watched(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let price = self.info.price;
        let mut watch = Watch::begin(&*self.meter, &**cancel.clock(), &self.info.id);
        let result = self.way.ask(request, cancel, &mut |chunk| {
            watch.hear(&chunk);
            sink(priced(chunk, price))
        });
        watch.end(&result);
        result
    }
}

impl Way {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        match self {
            Self::Demo => demo::ask(request, cancel, sink),
            Self::Openai(dialect) => dialect.ask(request, cancel, sink),
            Self::Anthropic(dialect) => dialect.ask(request, cancel, sink),
        }
    }
}

fn priced(chunk: Chunk<'_>, price: Price) -> Chunk<'_> {
    match chunk {
        Chunk::Spent(usage) => Chunk::Spent(usage.priced(price)),
        piece => piece,
    }
}

fn guess(model: &ModelOptions) -> Option<Provider> {
    match &model.api_url {
        Some(url) if speaks_messages(url) => Some(Provider::Anthropic),
        Some(_) => Some(Provider::Openai),
        None => (model.id == demo::ID).then_some(Provider::Demo),
    }
}

/// At Anthropic's host, or at an endpoint that says so.
fn speaks_messages(url: &str) -> bool {
    let Ok(uri) = url.trim().parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    host == "anthropic.com"
        || host.ends_with(".anthropic.com")
        || uri.path().trim_end_matches('/').ends_with(MESSAGES.path)
}

/// What the provider knows its caller by: the key, and those in headers.
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

/// Where the model is and on which terms it is asked.
fn arrange(model: ModelOptions, place: Place, limits: &Limits) -> Result<(Endpoint, Terms), Error> {
    let id = model.id;
    let url = model.api_url.ok_or_else(|| Error::NoUrl(id.clone()))?;
    let endpoint = Endpoint::parse(&url, place).map_err(|reason| Error::BadUrl { id: id.clone(), reason })?;
    let key = Secret::from(model.api_key.unwrap_or_default().reveal().trim().to_owned());
    let has_key = !key.reveal().is_empty() || model.extra_headers.keys().any(|name| is_key_header(name));
    if !has_key && !endpoint.is_loopback() {
        return Err(Error::NoKey(id));
    }
    if !key.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::BadKey(id));
    }
    for (name, value) in &model.extra_headers {
        check_header(name, value).map_err(|reason| Error::BadHeader {
            id: id.clone(),
            name: name.clone(),
            reason,
        })?;
    }
    let terms = Terms {
        key,
        upstream_id: model.upstream_id.unwrap_or(id),
        max_output_tokens: model.max_output_tokens,
        extra_body: model.extra_body,
        extra_headers: model.extra_headers,
        text_calls: model.text_tool_calls,
        patience: Patience {
            connect: Duration::from_secs(limits.model_connect_timeout_s),
            idle: Duration::from_secs(limits.model_idle_timeout_s),
        },
        bounds: Bounds {
            output_bytes: limits.output_bytes,
            tool_calls: limits.tool_calls,
            tool_arguments_bytes: limits.tool_arguments_bytes,
        },
    };
    Ok((endpoint, terms))
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
                watch::not_made(&*self.meter, None, &error);
                Err(error)
            }
            Some(route) => route.ask(request, cancel, sink),
        }
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.routes.iter().map(|route| route.info.clone()).collect()
    }

    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.route(id).map(|route| route.info.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn route(models: Value) -> Result<Router, Error> {
        Router::new(serde_json::from_value(models).expect("model options"), &Limits::default())
    }

    #[test]
    fn configured_models_are_listed_in_order_without_url_and_key() {
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
    fn what_cannot_work_is_refused_at_the_start() {
        let url = "https://x.test/v1";
        for (models, error) in [
            (json!([{"id": " ", "api_url": url}]), Error::NoId),
            (json!([{"id": "demo"}, {"id": "demo"}]), Error::Twice("demo".into())),
            (json!([{"id": "x"}]), Error::NoUrl("x".into())),
            (json!([{"id": "x", "provider": "openai"}]), Error::NoUrl("x".into())),
            (json!([{"id": "x", "api_url": url}]), Error::NoKey("x".into())),
            (json!([{"id": "x", "api_url": url, "api_key": ""}]), Error::NoKey("x".into())),
            (json!([{"id": "x", "api_url": url, "api_key": "a\nb"}]), Error::BadKey("x".into())),
        ] {
            assert_eq!(route(models.clone()).err(), Some(error), "{models}");
        }
        let bad = route(json!([{"id": "x", "api_url": "x.test/v1", "api_key": "k"}]));
        assert!(matches!(bad, Err(Error::BadUrl { .. })));
        for (name, value) in [("Content-Type", "x"), ("host", "x"), ("a b", "x"), ("a", "x\ny")] {
            let bad = json!([{"id": "x", "api_url": url, "api_key": "k", "extra_headers": {name: value}}]);
            let error = route(bad).expect_err("a bad header");
            assert!(matches!(error, Error::BadHeader { .. }), "{error}");
            assert!(!error.to_string().contains("x\ny"), "P9: {error}");
        }
        let keyed = json!([{"id": "x", "api_url": url, "extra_headers": {"Authorization": "Bearer k"}}]);
        assert!(route(keyed).is_ok());
    }

    #[test]
    fn the_dialect_is_guessed_from_the_address() {
        for (url, anthropic) in [
            ("https://api.anthropic.com", true),
            ("https://API.Anthropic.com/v1/", true),
            ("https://x.test/claude/v1/messages", true),
            ("https://notanthropic.com/v1", false),
            ("https://api.z.ai/api/paas/v4", false),
        ] {
            let router = route(json!([{"id": "x", "api_url": url, "api_key": "k"}])).expect("valid");
            let is_anthropic = matches!(router.routes[0].way, Way::Anthropic(_));
            assert_eq!(is_anthropic, anthropic, "{url}");
        }
        let named =
            json!([{"id": "x", "api_url": "https://x.test", "provider": "anthropic", "api_key": "k"}]);
        assert!(matches!(route(named).expect("valid").routes[0].way, Way::Anthropic(_)));
    }
}
