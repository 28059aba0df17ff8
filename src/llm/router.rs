//! The configured models and the way to each. Owns the check of `models:` and the choice of the dialect; refuses to
//! know what a dialect says.

use super::demo;
use super::openai::{Bounds, Dialect, Terms};
use super::options::{ModelOptions, Provider};
use super::wire;
use super::wire::endpoint::Endpoint;
use super::wire::tether::Patience;
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::ports::{Completion, Leash, Model, ModelError, ModelInfo, ModelRequest, Sink};
use std::time::Duration;
use ureq::Agent;

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

/// All configured models: picks by id, asks in the model's dialect.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    info: ModelInfo,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Demo,
    Openai(Box<Dialect>),
}

impl Router {
    /// The models as configured, in this order, or what is wrong with them. Of `limits` it heeds the connect and
    /// idle timeouts and the bounds of one answer.
    pub fn new(models: Vec<ModelOptions>, limits: &Limits) -> Result<Self, Error> {
        let agent = wire::agent();
        let mut routes: Vec<Route> = Vec::with_capacity(models.len());
        for model in models {
            if model.id.trim().is_empty() {
                return Err(Error::NoId);
            }
            if routes.iter().any(|route| route.info.id == model.id) {
                return Err(Error::Twice(model.id));
            }
            routes.push(Route::new(model, limits, &agent)?);
        }
        Ok(Self { routes })
    }
}

impl Route {
    fn new(model: ModelOptions, limits: &Limits, agent: &Agent) -> Result<Self, Error> {
        let info = ModelInfo {
            id: model.id.clone(),
            name: model.name.clone().unwrap_or_else(|| model.id.clone()),
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            ..ModelInfo::default()
        };
        let provider =
            model.provider.or_else(|| guess(&model)).ok_or_else(|| Error::NoUrl(model.id.clone()))?;
        let way = match provider {
            Provider::Demo => Way::Demo,
            Provider::Anthropic => return Err(Error::NoUrl(model.id)), // its dialect is the next commit's
            Provider::Openai | Provider::Deepseek | Provider::Glm => {
                Way::Openai(Box::new(dialect(model, provider, limits, agent.clone())?))
            }
        };
        Ok(Self { info, way })
    }
}

fn guess(model: &ModelOptions) -> Option<Provider> {
    match model.api_url {
        Some(_) => Some(Provider::Openai),
        None => (model.id == demo::ID).then_some(Provider::Demo),
    }
}

fn dialect(model: ModelOptions, provider: Provider, limits: &Limits, agent: Agent) -> Result<Dialect, Error> {
    let id = model.id;
    let url = model.api_url.ok_or_else(|| Error::NoUrl(id.clone()))?;
    let endpoint = Endpoint::parse(&url).map_err(|reason| Error::BadUrl { id: id.clone(), reason })?;
    let key = Secret::from(model.api_key.unwrap_or_default().reveal().trim().to_owned());
    let is_header_key = |name: &String| KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    let has_key = !key.reveal().is_empty() || model.extra_headers.keys().any(is_header_key);
    if !has_key && !endpoint.is_loopback() {
        return Err(Error::NoKey(id));
    }
    if !key.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::BadKey(id));
    }
    let terms = Terms {
        key,
        provider,
        upstream_id: model.upstream_id.unwrap_or_else(|| id.clone()),
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
    Dialect::new(agent, endpoint, terms).map_err(|(name, reason)| Error::BadHeader { id, name, reason })
}

impl Model for Router {
    fn ask(&self, request: &ModelRequest, leash: &Leash, sink: Sink<'_>) -> Result<Completion, ModelError> {
        if leash.is_pulled() {
            return Err(ModelError::Stopped);
        }
        let route = self.routes.iter().find(|route| route.info.id == request.model);
        match route.map(|route| &route.way) {
            None => Err(ModelError::NotFound(request.model.clone())),
            Some(Way::Demo) => demo::ask(request, leash, sink),
            Some(Way::Openai(dialect)) => dialect.ask(request, leash, sink),
        }
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.routes.iter().map(|route| route.info.clone()).collect()
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
        let by_header = json!([{"id": "x", "api_url": url, "extra_headers": {"Api-Key": "k"}}]);
        assert!(route(by_header).is_ok(), "a header may carry the key");
        for (name, value) in
            [("Content-Type", "x"), ("host", "x"), ("content-length", "1"), ("a b", "x"), ("a", "x\ny")]
        {
            let bad =
                route(json!([{"id": "x", "api_url": url, "api_key": "k", "extra_headers": {name: value}}]));
            let error = bad.err().unwrap_or_else(|| panic!("{name} is refused"));
            assert!(matches!(error, Error::BadHeader { .. }), "{error}");
            assert!(!error.to_string().contains("x\ny"), "P9: {error}");
        }
    }
}
