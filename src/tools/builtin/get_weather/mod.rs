//! `get_weather`: asks a weather service where one is configured, else a fixed table labelled as simulated.

mod open_meteo;
mod options;
mod table;

pub use options::WeatherOptions;

use crate::tools::registry::ToolDeps;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, Web};
use options::WeatherProvider;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Questions that one call asks at most.
const QUESTIONS: u64 = 2;

struct GetWeather {
    web: Arc<dyn Web>,
    options: WeatherOptions,
}

impl GetWeather {
    fn is_simulated(&self) -> bool {
        self.options.provider == WeatherProvider::Simulated
    }
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(GetWeather { web: Arc::clone(&deps.web), options: deps.options.weather.clone() })
}

impl Tool for GetWeather {
    fn spec(&self) -> ToolSpec {
        let description = if self.is_simulated() {
            "Weather of a city. SIMULATED: the figures come from a fixed table, not from a weather service; say so when \
             you use them."
        } else {
            "The weather of a city now, from Open-Meteo: temperature and feels_like in °C, humidity in %."
        };
        ToolSpec {
            name: "get_weather".into(),
            description: description.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 100, "description": "The city's name, like 北京 or Beijing"},
                },
                "required": ["city"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        if self.is_simulated() {
            return ToolTraits::PURE;
        }
        ToolTraits { cacheable: true, ..ToolTraits::READ }
    }

    fn own_timeout(&self, _: &Map<String, Value>) -> Duration {
        let asks = if self.is_simulated() { 0 } else { QUESTIONS };
        Duration::from_secs(self.options.timeout_s.saturating_mul(asks))
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let city = arguments.get("city").and_then(Value::as_str).unwrap_or_default();
        if self.is_simulated() {
            return Ok(table::look_up(city));
        }
        open_meteo::ask(self.web.as_ref(), &self.options, city.trim(), &context.cancel)
    }
}
