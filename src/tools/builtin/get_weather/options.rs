//! `weather:` of the configuration: its keys and their checks.

use crate::tools::web::service::{BadOption, fault};
use serde::{Deserialize, Serialize};

/// The options of `get_weather`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeatherOptions {
    /// The service.
    pub provider: WeatherProvider,
    /// The address of the forecast service instead of Open-Meteo's.
    pub base_url: Option<String>,
    /// The address of the city search; default `base_url`.
    pub geocoding_url: Option<String>,
    /// Longest time of one request.
    pub timeout_s: u64,
}

impl Default for WeatherOptions {
    fn default() -> Self {
        Self { provider: WeatherProvider::default(), base_url: None, geocoding_url: None, timeout_s: 20 }
    }
}

/// The providers of weather.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeatherProvider {
    /// A fixed table, labelled as such.
    #[default]
    Simulated,
    /// Open-Meteo, which needs no key.
    OpenMeteo,
}

impl WeatherOptions {
    /// Every invalid value.
    pub fn faults(&self) -> Vec<BadOption> {
        let keys = [("weather.base_url", &self.base_url), ("weather.geocoding_url", &self.geocoding_url)];
        keys.into_iter().filter_map(|(key, address)| fault(key, address.as_deref())).collect()
    }
}
