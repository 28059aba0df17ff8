//! The configured models and the way to each. Owns the check of `models:` and the choice of the dialect; refuses to
//! know what a dialect says.

use super::catalogue;
use super::demo;
use super::gate::{Gate, Gates};
use super::openai::{Bounds, Dialect, Terms};
use super::options::{ModelOptions, Provider};
use super::wire;
use super::wire::endpoint::Endpoint;
use super::wire::plea;
use super::wire::tether::Patience;
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::domain::usage::Price;
use crate::ports::{Chunk, Completion, Leash, Model, ModelError, ModelInfo, ModelRequest, Sink};
use std::sync::Arc;
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
}

/// All configured models: picks by id, asks in the model's dialect.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    info: ModelInfo,
    way: Way,
    /// What stands before the provider; the demo model has none.
    gate: Option<Arc<Gate>>,
}

#[derive(Debug)]
enum Way {
    Demo,
    Openai(Box<Dialect>),
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
            let key = model.api_key.clone().unwrap_or_default();
            let mut route = Route::new(model, limits, &agent)?;
            if !matches!(route.way, Way::Demo) {
                route.gate = url.map(|url| gates.gate(&url, &key, &rate));
            }
            routes.push(route);
        }
        Ok(Self { routes })
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
            Provider::Anthropic => return Err(Error::NoUrl(model.id)), // its dialect is the next commit's
            Provider::Openai | Provider::Deepseek | Provider::Glm => {
                Way::Openai(Box::new(dialect(model, limits, agent.clone())?))
            }
        };
        Ok(Self { info, way, gate: None })
    }

    /// Through the gate, if there is one. What is spent goes on with its price.
    fn ask(&self, request: &ModelRequest, leash: &Leash, sink: Sink<'_>) -> Result<Completion, ModelError> {
        let price = self.info.price;
        let Some(gate) = &self.gate else {
            return self.way.ask(request, leash, &mut |chunk| sink(priced(chunk, price)));
        };
        let mut permit = gate.enter(request, leash)?;
        plea::forget();
        let result = self.way.ask(request, leash, &mut |chunk| {
            match chunk {
                Chunk::Spent(usage) => permit.spend(usage),
                Chunk::Thinking(_) | Chunk::Text(_) => permit.hear(),
            }
            sink(priced(chunk, price))
        });
        permit.tell(&result, plea::is_noted());
        result
    }
}

impl Way {
    fn ask(&self, request: &ModelRequest, leash: &Leash, sink: Sink<'_>) -> Result<Completion, ModelError> {
        match self {
            Self::Demo => demo::ask(request, leash, sink),
            Self::Openai(dialect) => dialect.ask(request, leash, sink),
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
    match model.api_url {
        Some(_) => Some(Provider::Openai),
        None => (model.id == demo::ID).then_some(Provider::Demo),
    }
}

fn dialect(model: ModelOptions, limits: &Limits, agent: Agent) -> Result<Dialect, Error> {
    let id = model.id;
    let url = model.api_url.ok_or_else(|| Error::NoUrl(id.clone()))?;
    let endpoint = Endpoint::parse(&url).map_err(|reason| Error::BadUrl { id: id.clone(), reason })?;
    let key = Secret::from(model.api_key.unwrap_or_default().reveal().trim().to_owned());
    if key.reveal().is_empty() && !endpoint.is_loopback() {
        return Err(Error::NoKey(id));
    }
    if !key.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::BadKey(id));
    }
    let terms = Terms {
        key,
        max_output_tokens: model.max_output_tokens,
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
    Ok(Dialect::new(agent, endpoint, terms))
}

impl Model for Router {
    fn ask(&self, request: &ModelRequest, leash: &Leash, sink: Sink<'_>) -> Result<Completion, ModelError> {
        if leash.is_pulled() {
            return Err(ModelError::Stopped);
        }
        match self.route(&request.model) {
            None => Err(ModelError::NotFound(request.model.clone())),
            Some(route) => route.ask(request, leash, sink),
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
    }
}
