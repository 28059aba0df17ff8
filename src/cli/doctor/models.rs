//! Asks the endpoint of each configured model with one short call.

use super::check::DoctorCheck;
use crate::app::system::SystemClock;
use crate::config::Config;
use crate::domain::id::UserId;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::llm::Router;
use crate::ports::{CancelToken, Clock, Model, ModelCaller, ModelError, ModelInfo, ModelRequest};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Time of one answer. All models are asked at the same time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tokens of the answer: some models refuse less.
const ANSWER_TOKENS: u32 = 16;
const QUESTION: &str = "Answer with the word ok.";

/// A check for each model that has an endpoint.
pub(super) fn check_endpoints(config: &Config) -> Vec<DoctorCheck> {
    let Ok(router) = Router::new(config.models.clone(), &config.limits) else { return Vec::new() };
    let infos = router.models().into_iter().filter(|info| info.host.is_some());
    let infos: Vec<ModelInfo> = infos.collect();
    let router = &router;
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            infos.iter().map(|info| scope.spawn(move || check_endpoint(router, info))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn check_endpoint(router: &Router, info: &ModelInfo) -> DoctorCheck {
    let request = ModelRequest {
        caller: ModelCaller { user: UserId(0), job: None },
        model: info.id.clone(),
        messages: vec![Message::user(QUESTION)],
        tools: Vec::new(),
        may_call: false,
        temperature: None,
        max_tokens: Some(ANSWER_TOKENS),
        thinking: false,
        settings: ModelSettings::default(),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let began_ms = clock.monotonic_ms();
    let cancel = CancelToken::new(Arc::clone(&clock)).with_timeout(TIMEOUT);
    let heard = router.ask(&request, &cancel, &mut |_| ControlFlow::Continue(()));
    let took_ms = clock.monotonic_ms().saturating_sub(began_ms);
    let is_ok = heard.is_ok();
    let check = describe(info, heard, took_ms);
    check.with(json!({"id": info.id, "host": info.host, "answers": is_ok, "took_ms": took_ms}))
}

/// A model that cannot be reached now is no fault of the installation; one that refuses this server is.
fn describe<T>(info: &ModelInfo, heard: Result<T, ModelError>, took_ms: u64) -> DoctorCheck {
    let name = "model_endpoint";
    let place = info.place();
    match heard {
        Ok(_) => DoctorCheck::good(name, format!("{place}: answers, in {took_ms} ms")),
        Err(ModelError::Stopped) => DoctorCheck::warned(
            name,
            format!("{place}: no answer within {} s", TIMEOUT.as_secs()),
            "a local model may be loading: try again; else check api_url and the network",
        ),
        Err(error @ ModelError::Denied(_)) => DoctorCheck::bad(
            name,
            error.at(info).to_string(),
            "correct api_key, api_url or upstream_id of the model, or its account at the provider",
        ),
        Err(error) => DoctorCheck::warned(
            name,
            error.at(info).to_string(),
            "jobs try again and then fail; check that the provider runs, api_url and the network",
        ),
    }
}
