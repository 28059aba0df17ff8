//! Open-Meteo: finds the city, then its weather now.

use super::options::WeatherOptions;
use crate::ports::{CancelToken, ToolError, Web};
use crate::tools::web::service::{ServiceRequest, request_json, service_url};
use serde_json::{Value, json};

const FORECASTS: &str = "https://api.open-meteo.com";
const CITIES: &str = "https://geocoding-api.open-meteo.com";
const SERVICE: &str = "Open-Meteo";
/// The requested values.
const CURRENT: &str =
    "temperature_2m,relative_humidity_2m,apparent_temperature,precipitation,weather_code,wind_speed_10m";

/// The weather of a city now.
pub(super) fn current_weather(
    web: &dyn Web,
    options: &WeatherOptions,
    city: &str,
    cancel: &CancelToken,
) -> Result<Value, ToolError> {
    let base = options.base_url.as_deref();
    let cities = options.geocoding_url.as_deref().or(base).unwrap_or(CITIES);
    let mut url = service_url(cities, "/v1/search")?;
    // Names in Chinese are found among Chinese names.
    let language = if city.is_ascii() { "en" } else { "zh" };
    url.query_pairs_mut()
        .append_pair("name", city)
        .append_pair("count", "1")
        .append_pair("language", language)
        .append_pair("format", "json");
    let found = request_json(web, ServiceRequest::get(url, SERVICE, options.timeout_s), cancel)?;
    let city_entry =
        found.pointer("/results/0").filter(|city_entry| city_entry.is_object()).ok_or_else(|| {
            ToolError::failed(format!(
                "No city '{city}' is known: try its usual name in English, without the country"
            ))
        })?;
    let number = |name: &str| city_entry.get(name).and_then(Value::as_f64);
    let (Some(latitude), Some(longitude)) = (number("latitude"), number("longitude")) else {
        return Err(ToolError::failed("Open-Meteo does not say where the city is"));
    };
    let mut url = service_url(base.unwrap_or(FORECASTS), "/v1/forecast")?;
    url.query_pairs_mut()
        .append_pair("latitude", &latitude.to_string())
        .append_pair("longitude", &longitude.to_string())
        .append_pair("current", CURRENT)
        .append_pair("timezone", "auto");
    let forecast = request_json(web, ServiceRequest::get(url, SERVICE, options.timeout_s), cancel)?;
    weather_json(city, city_entry, &forecast)
}

fn weather_json(city: &str, city_entry: &Value, forecast: &Value) -> Result<Value, ToolError> {
    let current = |name: &str| forecast.pointer(&format!("/current/{name}")).cloned().unwrap_or(Value::Null);
    let temperature = current("temperature_2m");
    if !temperature.is_number() {
        return Err(ToolError::failed("Open-Meteo does not say how the weather is"));
    }
    Ok(json!({
        "city": city,
        "found": city_entry.get("name"),
        "country": city_entry.get("country"),
        "temperature": temperature,
        "humidity": current("relative_humidity_2m"),
        "description": current("weather_code").as_u64().map_or("unknown", description),
        "feels_like": current("apparent_temperature"),
        "precipitation_mm": current("precipitation"),
        "wind_km_per_h": current("wind_speed_10m"),
        "query_time": current("time"),
        "timezone": forecast.get("timezone"),
        "source": "open-meteo",
        "simulated": false,
    }))
}

/// The meaning of a WMO weather code.
fn description(code: u64) -> &'static str {
    match code {
        0 => "clear sky",
        1 => "mainly clear",
        2 => "partly cloudy",
        3 => "overcast",
        45 | 48 => "fog",
        51 | 53 | 55 => "drizzle",
        56 | 57 => "freezing drizzle",
        61 => "light rain",
        63 => "rain",
        65 => "heavy rain",
        66 | 67 => "freezing rain",
        71 => "light snow",
        73 => "snow",
        75 => "heavy snow",
        77 => "snow grains",
        80 | 81 => "rain showers",
        82 => "violent rain showers",
        85 | 86 => "snow showers",
        95 => "thunderstorm",
        96 | 99 => "thunderstorm with hail",
        _ => "unknown",
    }
}
