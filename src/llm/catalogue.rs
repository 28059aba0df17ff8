//! Validates names, windows, prices, rates and fallbacks of the configured models, also against each other.

use super::error::ModelConfigError;
use super::options::{ModelOptions, PriceOptions, RateOptions};
use crate::domain::usage::Price;
use crate::ports::ModelInfo;
use std::collections::HashSet;
use ureq::http::Uri;

/// The highest price of a million tokens.
const PRICE_MAX: f64 = 1e9;
/// Millionths of a unit of the currency.
const MICROS: f64 = 1e6;
/// The highest limit of calls per minute.
const REQUESTS_MAX: u32 = 100_000;

/// Checks the models, one by one and against each other.
pub(super) fn check(models: &[ModelOptions]) -> Result<(), ModelConfigError> {
    let mut ids = HashSet::new();
    for model in models {
        if model.id.trim().is_empty() {
            return Err(ModelConfigError::NoId);
        }
        if !ids.insert(model.id.as_str()) {
            return Err(ModelConfigError::Twice(model.id.clone()));
        }
    }
    for model in models {
        check_fallback(model, &ids)?;
        check_rate(model)?;
        price(model)?;
    }
    Ok(())
}

/// The model without address and key.
pub(super) fn info(model: &ModelOptions) -> Result<ModelInfo, ModelConfigError> {
    Ok(ModelInfo {
        id: model.id.clone(),
        name: model.name.clone().unwrap_or_else(|| model.id.clone()),
        host: model.api_url.as_deref().and_then(host),
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        fallback: model.fallback.clone(),
        price: price(model)?,
        is_agent: model.agent,
        sees_images: model.vision,
        takes_input_examples: false, // the router knows the provider
    })
}

/// The host of an address, without port, user and password.
fn host(url: &str) -> Option<String> {
    let uri: Uri = url.trim().parse().ok()?;
    uri.host().map(str::to_owned)
}

fn check_fallback(model: &ModelOptions, ids: &HashSet<&str>) -> Result<(), ModelConfigError> {
    let mut named = HashSet::new();
    for other in &model.fallback {
        let reason = if *other == model.id {
            "is the model itself"
        } else if !ids.contains(other.as_str()) {
            "is no configured model"
        } else if !named.insert(other) {
            "is named twice"
        } else {
            continue;
        };
        return Err(ModelConfigError::Fallback { id: model.id.clone(), other: other.clone(), reason });
    }
    Ok(())
}

fn check_rate(model: &ModelOptions) -> Result<(), ModelConfigError> {
    let RateOptions { concurrent, requests_per_minute, tokens_per_minute } = model.rate;
    let refuse = |key, reason| Err(ModelConfigError::Rate { id: model.id.clone(), key, reason });
    let none = "0: nobody could ever ask it";
    match (concurrent, requests_per_minute, tokens_per_minute) {
        (Some(0), _, _) => refuse("concurrent", none),
        (_, Some(0), _) => refuse("requests_per_minute", none),
        (_, _, Some(0)) => refuse("tokens_per_minute", none),
        (_, Some(REQUESTS_MAX..), _) => refuse("requests_per_minute", "100000 or more: leave it out"),
        _ => Ok(()),
    }
}

fn price(model: &ModelOptions) -> Result<Option<Price>, ModelConfigError> {
    let Some(PriceOptions { prompt, completion }) = model.price else { return Ok(None) };
    let micros = |key: &'static str, units: f64| {
        in_micros(units).ok_or_else(|| ModelConfigError::Price {
            id: model.id.clone(),
            key,
            value: units.to_string(),
        })
    };
    Ok(Some(Price {
        prompt_micros: micros("prompt", prompt)?,
        completion_micros: micros("completion", completion)?,
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 10^15, as was just checked"
)]
fn in_micros(units: f64) -> Option<u64> {
    (0.0..=PRICE_MAX).contains(&units).then(|| (units * MICROS).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn models(models: Value) -> Vec<ModelOptions> {
        serde_json::from_value(models).expect("model options")
    }

    #[test]
    fn prices_are_stored_in_millionths() {
        let known = models(json!([
            {"id": "a", "price": {"prompt": 0.27, "completion": 1.1}, "fallback": ["b"], "context_window": 9},
            {"id": "b", "price": {"prompt": 0, "completion": 0.0}},
            {"id": "c"},
        ]));
        check(&known).expect("valid");
        let info: Vec<ModelInfo> = known.iter().map(|model| info(model).expect("valid")).collect();
        assert_eq!(info[0].price, Some(Price { prompt_micros: 270_000, completion_micros: 1_100_000 }));
        assert_eq!((info[0].fallback.as_slice(), info[0].context_window), (&["b".to_owned()][..], Some(9)));
        assert_eq!((info[1].price, info[2].price), (Some(Price::default()), None));
    }

    #[test]
    fn invalid_options_are_reported_with_their_model() {
        for (list, words) in [
            (json!([{"id": "a", "fallback": ["x"]}]), ["model 'a'", "'x' is no configured model"]),
            (json!([{"id": "a", "fallback": ["a"]}]), ["model 'a'", "'a' is the model itself"]),
            (json!([{"id": "a", "fallback": ["b", "b"]}, {"id": "b"}]), ["model 'a'", "'b' is named twice"]),
            (json!([{"id": "a", "price": {"prompt": -1, "completion": 1}}]), ["price.prompt", "-1"]),
            (
                json!([{"id": "a", "price": {"prompt": 1, "completion": 2e9}}]),
                ["price.completion", "2000000000"],
            ),
            (json!([{"id": "a", "rate": {"concurrent": 0}}]), ["model 'a'", "rate.concurrent"]),
            (
                json!([{"id": "a", "rate": {"requests_per_minute": 0}}]),
                ["model 'a'", "rate.requests_per_minute"],
            ),
            (json!([{"id": "a", "rate": {"requests_per_minute": 200_000}}]), ["model 'a'", "leave it out"]),
            (json!([{"id": "a", "rate": {"tokens_per_minute": 0}}]), ["model 'a'", "rate.tokens_per_minute"]),
        ] {
            let error = check(&models(list.clone())).expect_err("refused").to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{list}: {error}");
        }
        for units in [f64::NAN, f64::INFINITY, -0.1] {
            assert_eq!(in_micros(units), None, "{units}");
        }
        check(&models(json!([{"id": "a", "fallback": ["b"]}, {"id": "b", "fallback": ["a"]}])))
            .expect("a chain does not nest: no circle is one");
    }
}
