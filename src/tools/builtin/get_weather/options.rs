//! `weather:` of the configuration: its keys, and what is wrong with their values.

use crate::tools::web::service::{BadOption, fault};
use serde::{Deserialize, Serialize};

/// Who tells the weather.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeatherOptions {
    /// Who is asked.
    pub provider: WeatherProvider,
    /// Where the forecast is asked, instead of open-meteo's own address.
    pub base_url: Option<String>,
    /// Where cities are searched; `base_url` when absent.
    pub geocoding_url: Option<String>,
    /// Of one question, seconds.
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
    /// Everything that cannot be.
    pub fn faults(&self) -> Vec<BadOption> {
        let keys = [("weather.base_url", &self.base_url), ("weather.geocoding_url", &self.geocoding_url)];
        keys.into_iter().filter_map(|(key, address)| fault(key, address.as_deref())).collect()
    }
}
