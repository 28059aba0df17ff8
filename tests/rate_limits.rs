//! Rate limits, concurrency limits and circuit breaker of a provider, with the real binary and with the
//! router.

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream};
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::model_settings::ModelSettings;
use nanoclaw::domain::usage::Usage;
use nanoclaw::llm::Router;
use nanoclaw::ports::{CancelToken, Chunk, Clock, Model, ModelCaller, ModelError, ModelRequest, ModelState};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A configuration with two models of one provider; only one of them has a rate limit.
fn two_models(upstream: &Upstream, rate: &str) -> String {
    let url = &upstream.url;
    format!(
        "default_model: a\nmodels:\n  - {{id: a, api_url: \"{url}/v1\", rate: {rate}}}\n  - {{id: b, api_url: \"{url}/v1/chat/completions\"}}\n"
    )
}

#[test]
fn p8_a_provider_never_gets_more_concurrent_calls_than_its_limit() {
    let (inside, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, seen) = (Arc::clone(&inside), Arc::clone(&peak));
    let upstream = Upstream::start(move |_, _| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // The first call waits for a second one, so that the test detects a limit of one.
        let deadline = Instant::now() + Duration::from_secs(4);
        while seen.load(Ordering::SeqCst) < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(60));
        now.fetch_sub(1, Ordering::SeqCst);
        Answer::text("done")
    });
    let server = Server::start_with(&two_models(&upstream, "{concurrent: 2}"));
    let jobs: Vec<String> = (0..8)
        .map(|number| {
            let model = if number % 2 == 0 { "a" } else { "b" };
            server.submit(&json!({"input": format!("job {number}"), "model": model}))
        })
        .collect();
    for job in jobs {
        let ended = server.wait(&job);
        assert_eq!(
            (&ended["status"], &ended["output_text"]),
            (&json!("succeeded"), &json!("done")),
            "{ended}"
        );
    }
    assert_eq!(upstream.requests().len(), 8);
    assert_eq!(peak.load(Ordering::SeqCst), 2, "two at once, and no third");
}

struct TestClock {
    start: Instant,
    /// Added to the real elapsed time.
    ahead_ms: AtomicUsize,
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        let passed = u64::try_from(self.start.elapsed().as_millis()).expect("a short test");
        passed + self.ahead_ms.load(Ordering::SeqCst) as u64
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

fn clock() -> Arc<TestClock> {
    Arc::new(TestClock { start: Instant::now(), ahead_ms: AtomicUsize::new(0) })
}

fn router(models: Value) -> Router {
    // No call waits in the router: a call that cannot start at once fails.
    let limits = Limits { model_wait_s: 0, ..Limits::default() };
    Router::new(serde_json::from_value(models).expect("options"), &limits).expect("valid")
}

/// Calls a model; returns the result and the last reported usage.
fn ask(router: &Router, model: &str, clock: &Arc<TestClock>) -> (Result<(), ModelError>, Option<Usage>) {
    let request = ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: model.into(),
        messages: vec![Message::user("hi")],
        tools: Vec::new(),
        may_call: true,
        temperature: None,
        max_tokens: None,
        thinking: false,
        settings: ModelSettings::default(),
    };
    let cancel = CancelToken::new(Arc::<TestClock>::clone(clock));
    let mut spent = None;
    let result = router.ask(&request, &cancel, &mut |chunk| {
        if let Chunk::Spent(usage) = chunk {
            spent = Some(usage);
        }
        ControlFlow::Continue(())
    });
    (result.map(drop), spent)
}

/// Id, state, time until the next call and reason of each model.
fn health(router: &Router, clock: &TestClock) -> Vec<(String, ModelState, Option<u64>, Option<String>)> {
    let health = router.health(clock.monotonic_ms()).into_iter();
    health.map(|model| (model.id, model.state, model.retry_in_ms, model.reason)).collect()
}

#[test]
fn the_circuit_breaker_stops_calls_to_a_failing_provider_until_a_probe() {
    let upstream = Upstream::start(|_, number| match number {
        0..=4 => Answer::error(500, "boom"),
        _ => Answer::text("back"),
    });
    let url = format!("{}/v1", upstream.url);
    let router = router(json!([{"id": "a", "api_url": url}, {"id": "b", "api_url": url}]));
    let clock = clock();
    for number in 0..5 {
        let (result, _) = ask(&router, if number % 2 == 0 { "a" } else { "b" }, &clock);
        assert!(matches!(result, Err(ModelError::Unavailable { .. })), "{result:?}");
    }
    let (result, _) = ask(&router, "a", &clock);
    let Err(ModelError::Unavailable { message, retry_after_ms: Some(1..=5_000) }) = result else {
        panic!("{result:?}")
    };
    assert!(message.contains("has failed 5 times in a row"), "{message}");
    assert_eq!(upstream.requests().len(), 5, "the sixth call did not reach the provider");
    for (_, state, retry_in_ms, reason) in health(&router, &clock) {
        assert!(
            state == ModelState::Unreachable && matches!(retry_in_ms, Some(1..=5_000)),
            "{retry_in_ms:?}"
        );
        assert!(reason.is_some_and(|reason| !reason.contains("boom")), "no words of the provider");
    }
    clock.ahead_ms.store(5_000, Ordering::SeqCst);
    assert!(
        health(&router, &clock)
            .iter()
            .all(|(_, state, wait, _)| { *state == ModelState::Unreachable && wait.is_none() })
    );
    assert_eq!(ask(&router, "b", &clock).0, Ok(()), "the probe succeeds");
    assert_eq!(ask(&router, "a", &clock).0, Ok(()));
    assert_eq!(upstream.requests().len(), 7);
    let works = |id: &str| (id.to_owned(), ModelState::Ok, None, None);
    assert_eq!(health(&router, &clock), [works("a"), works("b")]);
}

#[test]
fn a_rate_limit_applies_to_all_models_of_a_provider_without_opening_the_circuit() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::error(429, "slow down").with_header("retry-after", "600"),
        1..=8 => Answer::error(429, "slow down"),
        _ => Answer::text("fine"),
    });
    let url = format!("{}/v1", upstream.url);
    let router = router(json!([{"id": "a", "api_url": url}, {"id": "b", "api_url": url}]));
    let clock = clock();
    assert!(matches!(ask(&router, "a", &clock).0, Err(ModelError::RateLimited { .. })));
    let (result, _) = ask(&router, "b", &clock);
    assert!(
        matches!(result, Err(ModelError::Busy { retry_after_ms: 300_000..=900_000, .. })),
        "the limit applies to the other model: {result:?}"
    );
    assert_eq!(upstream.requests().len(), 1);
    for (_, state, retry_in_ms, reason) in health(&router, &clock) {
        assert!(state == ModelState::CoolingDown && matches!(retry_in_ms, Some(300_000..=600_000)));
        assert!(reason.is_some());
    }
    clock.ahead_ms.store(600_000, Ordering::SeqCst);
    for _ in 0..8 {
        let (result, _) = ask(&router, "a", &clock);
        assert!(matches!(result, Err(ModelError::RateLimited { .. })), "{result:?}");
    }
    assert_eq!(
        ask(&router, "a", &clock).0,
        Ok(()),
        "after eight rate limits in a row the circuit is still closed"
    );
}

#[test]
fn usage_contains_the_cost_of_a_priced_model() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let url = format!("{}/v1", upstream.url);
    let price = json!({"prompt": 1_000, "completion": 3_000.5});
    let router = router(json!([{"id": "a", "api_url": url, "price": price}, {"id": "b", "api_url": url}]));
    let clock = clock();
    let spent = |model: &str| ask(&router, model, &clock).1.expect("usage");
    // The upstream reports 10 and 5 tokens.
    assert_eq!(spent("a"), Usage { cost_micros: 10 * 1_000 + 15_003, ..Usage::new(10, 5) });
    assert_eq!(spent("b"), Usage::new(10, 5));
    assert_eq!(router.model("a").expect("configured").price.expect("a price").prompt_micros, 1_000_000_000);
    assert_eq!(router.model("c"), None);
}
