//! `get_weather`: queries the configured weather service, or else a fixed table labelled as simulated.

mod open_meteo;
mod options;
mod table;

pub use options::WeatherOptions;

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::{Tool, ToolContext, ToolOffer};
use crate::tools::registry::ToolDeps;
use options::WeatherProvider;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Requests of one call to Open-Meteo: the city, then its weather.
const REQUESTS: u64 = 2;

#[derive(Deserialize)]
struct WeatherArguments {
    city: String,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let (web, options) = (Arc::clone(&deps.web), deps.options.weather.clone());
    let is_simulated = options.provider == WeatherProvider::Simulated;
    let (description, traits, requests) = if is_simulated {
        let description = "Weather of a city. SIMULATED: the figures are invented; say so when you use them.";
        (description, ToolTraits::PURE, 0)
    } else {
        let description = "The weather of a city now: temperature and feels_like in °C, humidity in %.";
        (description, ToolTraits { cacheable: true, ..ToolTraits::READ }, REQUESTS)
    };
    let city = json!({"type": "string", "minLength": 1, "maxLength": 100});
    let spec = spec("get_weather", description, json!({"city": city}), &["city"]);
    let own_timeout = Duration::from_secs(options.timeout_s.saturating_mul(requests));
    let run = move |WeatherArguments { city }: WeatherArguments, context: &ToolContext| {
        if is_simulated {
            return Ok(table::look_up(&city));
        }
        open_meteo::current_weather(web.as_ref(), &options, city.trim(), &context.cancel)
    };
    // Invented figures are offered only to those who ask for them.
    let offer = if is_simulated { ToolOffer::ByName } else { ToolOffer::Default };
    Box::new(BuiltinTool { own_timeout, offer, ..BuiltinTool::new(spec, traits, run) })
}
