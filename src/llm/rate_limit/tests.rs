//! Rate limiters as their callers use them. Time passes only in pauses.

use super::permit::CallPermit;
use super::waiter::Waiter;
use super::*;
use crate::domain::event::FinishReason;
use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::secret::Secret;
use crate::domain::usage::Usage;
use crate::llm::options::RateOptions;
use crate::llm::transport::error_mapper::ProviderFailure;
use crate::ports::{CancelReason, CancelToken, Clock, Completion, ModelCaller, ModelError, ModelRequest};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Something that happens at a time, once.
type Plan = Mutex<Option<(u64, Box<dyn FnOnce() + Send>)>>;

#[derive(Default)]
struct PausedClock {
    now_ms: AtomicU64,
    plan: Plan,
}

impl PausedClock {
    fn at(&self, when_ms: u64, action: impl FnOnce() + Send + 'static) {
        *self.plan.lock().unwrap() = Some((when_ms, Box::new(action)));
    }
}

impl Clock for PausedClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }
    fn sleep(&self, _: &CancelToken, timeout: Duration) {
        let step_ms = u64::try_from(timeout.as_millis()).unwrap().max(1);
        let now_ms = self.now_ms.fetch_add(step_ms, Ordering::SeqCst) + step_ms;
        let due = self.plan.lock().unwrap().take_if(|(when_ms, _)| *when_ms <= now_ms);
        if let Some((_, act)) = due {
            act();
        }
    }
}

struct LimiterFixture {
    limiter: Arc<ProviderLimiter>,
    clock: Arc<PausedClock>,
    cancel: CancelToken,
}

fn fixture(concurrent: Option<u32>, requests: Option<u32>, tokens: Option<u64>) -> LimiterFixture {
    let rate = RateOptions { concurrent, requests_per_minute: requests, tokens_per_minute: tokens };
    let limits = Limits::default();
    let limiter = LimiterRegistry::new(&limits).limiter(
        "https://secret.test/v1",
        &Secret::from("topsecret".to_owned()),
        &rate,
    );
    let clock = Arc::new(PausedClock::default());
    let cancel = CancelToken::new(Arc::<PausedClock>::clone(&clock)).with_deadline(3_600_000);
    LimiterFixture { limiter, clock, cancel }
}

fn request() -> ModelRequest {
    ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: "m".into(),
        messages: vec![Message::user("x".repeat(400))],
        tools: Vec::new(),
        may_call: true,
        temperature: None,
        max_tokens: Some(50),
        thinking: false,
        settings: ModelSettings::default(),
    }
}

fn answered() -> Result<Completion, ModelError> {
    outcome(None)
}

fn outcome(error: Option<ModelError>) -> Result<Completion, ModelError> {
    let whole = Completion::new(Vec::new(), FinishReason::Stop);
    error.map_or(Ok(whole), Err)
}

fn unavailable(retry_after_ms: Option<u64>) -> Result<Completion, ModelError> {
    outcome(Some(ModelError::Unavailable { message: "x".into(), retry_after_ms }))
}

fn as_failure(result: &Result<Completion, ModelError>) -> Result<Completion, ProviderFailure> {
    result.clone().map_err(ProviderFailure::from)
}

impl LimiterFixture {
    fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    fn acquire(&self) -> Result<CallPermit<'_>, ModelError> {
        self.limiter.acquire(&request(), &self.cancel)
    }

    fn call(&self, result: &Result<Completion, ModelError>) -> Result<(), ModelError> {
        self.acquire()?.finish(as_failure(result).as_ref().map(|_| ()));
        Ok(())
    }

    /// The message and the delay of a deferred call.
    fn busy(&self) -> (String, u64) {
        match self.acquire().err() {
            Some(ModelError::Busy { message, retry_after_ms }) => {
                assert!(!message.contains("secret"), "{message}");
                (message, retry_after_ms)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Takes a permit and returns it at this time.
    fn hold_permit_until(&self, when_ms: u64) {
        let admission = Waiter::new(&self.limiter, &request(), &self.cancel).wait().expect("a permit");
        let (limiter, clock) = (Arc::clone(&self.limiter), Arc::clone(&self.clock));
        self.clock.at(when_ms, move || {
            limiter.lock().release(
                clock.monotonic_ms(),
                admission,
                limiter::ProviderCallOutcome::Answered,
                None,
            );
        });
    }

    fn queue_is_empty(&self) -> bool {
        let mut state = self.limiter.lock();
        let ticket = state.join_queue(request().caller, 0);
        let decision = state.try_admit(u64::MAX, ticket, &|| 0);
        state.leave_queue(ticket);
        !matches!(decision, limiter::LimiterDecision::Wait { ahead: 1.., .. })
    }
}

#[test]
fn a_short_wait_is_waited_in_place() {
    let fixture = fixture(Some(1), None, None);
    fixture.hold_permit_until(1_000);
    fixture.acquire().expect("a permit, in time");
    assert!((1_000..1_060).contains(&fixture.now_ms()), "{}", fixture.now_ms());
    assert!(fixture.queue_is_empty());
}

#[test]
fn a_call_without_a_permit_in_time_is_deferred() {
    let fixture = fixture(Some(1), None, None);
    let _permit = fixture.acquire().expect("a permit");
    let (message, first_ms) = fixture.busy();
    assert_eq!(message, "the provider of model 'm' has as many calls as it may have at once: 1");
    assert_eq!(fixture.now_ms(), 5_000, "limits.model_wait_s, and no longer");
    assert!((500..10_000).contains(&first_ms), "{first_ms}");
    assert!(fixture.queue_is_empty());
}

#[test]
fn a_wait_that_is_known_to_be_long_is_deferred_at_once() {
    let fixture = fixture(None, Some(1), None);
    fixture.call(&answered()).expect("the first of this minute");
    let (message, wait_ms) = fixture.busy();
    assert_eq!(message, "the provider of model 'm' has had its 1 calls a minute; the next in 61 s");
    assert_eq!(fixture.now_ms(), 0);
    fixture.clock.now_ms.store(wait_ms, Ordering::SeqCst);
    fixture.call(&answered()).expect("the estimate is honest");
    fixture.clock.now_ms.store(wait_ms + 57_000, Ordering::SeqCst);
    fixture.call(&answered()).expect("3 s are waited for");
    assert_eq!(fixture.now_ms(), wait_ms + 60_001);
}

#[test]
fn a_cancel_ends_the_wait_and_leaves_the_queue() {
    let fixture = fixture(Some(1), None, None);
    let _permit = fixture.acquire().expect("a permit");
    let stop = fixture.cancel.clone();
    fixture.clock.at(700, move || stop.cancel(CancelReason::Cancelled));
    assert_eq!(fixture.acquire().err(), Some(ModelError::Stopped));
    assert!(fixture.now_ms() <= 760, "{}", fixture.now_ms());
    assert!(fixture.queue_is_empty());
}

#[test]
fn a_panic_returns_the_permit_and_does_not_count_as_a_failure() {
    let fixture = fixture(Some(1), None, None);
    for _ in 0..9 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _permit = fixture.acquire().expect("a permit");
            panic!("in the middle of a call");
        }));
        assert!(panicked.is_err());
    }
    assert_eq!(fixture.now_ms(), 0, "no call waited");
}

#[test]
fn reserved_tokens_are_replaced_by_the_usage() {
    let fixture = fixture(None, None, Some(200));
    let mut permit = fixture.acquire().expect("150 of 200");
    let (message, _) = fixture.busy();
    assert!(message.starts_with("the provider of model 'm' has had its 200 tokens a minute"), "{message}");
    permit.report_usage(Usage::new(20, 10));
    permit.finish(as_failure(&answered()).as_ref().map(|_| ()));
    drop(permit);
    fixture.call(&answered()).expect("150 and 30 are less than 200");
    fixture.busy();
}

#[test]
fn a_rate_limit_of_the_provider_pauses_all_calls() {
    let fixture = fixture(None, None, None);
    let limited =
        outcome(Some(ModelError::RateLimited { message: "x".into(), retry_after_ms: Some(20_000) }));
    fixture.call(&limited).expect("called");
    let (message, wait_ms) = fixture.busy();
    assert_eq!(message, "the provider of model 'm' asked for a pause; 20 s of it are left");
    assert!((20_000..22_000).contains(&wait_ms), "{wait_ms}");
    fixture.clock.now_ms.store(16_000, Ordering::SeqCst);
    fixture.acquire().expect("4 s are waited for");
    assert_eq!(fixture.now_ms(), 20_000);
}

#[test]
fn a_failed_provider_is_not_called_until_a_probe_succeeds() {
    let fixture = fixture(None, None, None);
    let reached = AtomicU32::new(0);
    let ask = |result: &Result<Completion, ModelError>| {
        fixture.call(result).inspect(|()| {
            reached.fetch_add(1, Ordering::SeqCst);
        })
    };
    for _ in 0..5 {
        ask(&unavailable(None)).expect("called");
    }
    let rejected = ask(&answered()).expect_err("not called");
    let ModelError::Unavailable { message, retry_after_ms } = &rejected else { panic!("{rejected:?}") };
    assert_eq!(message, "the model's provider has failed 5 times in a row; it is asked again in 5 s");
    assert_eq!((*retry_after_ms, fixture.now_ms()), (Some(5_000), 0), "at once");
    assert_eq!(reached.load(Ordering::SeqCst), 5, "the sixth did not reach it");

    fixture.clock.now_ms.store(5_000, Ordering::SeqCst);
    ask(&unavailable(None)).expect("the probe");
    assert!(matches!(ask(&answered()), Err(ModelError::Unavailable { retry_after_ms: Some(10_000), .. })));
    fixture.clock.now_ms.store(15_000, Ordering::SeqCst);
    ask(&Err(ModelError::Stopped)).expect("a probe that was cancelled");
    let probe = fixture.acquire().expect("another takes its place");
    let (message, _) = fixture.busy();
    assert!(message.contains("is being tried again"), "{message}");
    drop(probe);
    ask(&answered()).expect("the provider is back");
    for _ in 0..4 {
        ask(&unavailable(None)).expect("called: failures are counted from zero");
    }
    ask(&answered()).expect("called");
}

#[test]
fn answers_of_any_kind_keep_the_circuit_closed() {
    for answer in [
        answered(),
        Err(ModelError::Refused("400".into())),
        Err(ModelError::Denied("401".into())),
        Err(ModelError::ContextTooLong("413".into())),
        Err(ModelError::TooLarge("too much".into())),
    ] {
        let fixture = fixture(None, None, None);
        for result in
            [&unavailable(None), &unavailable(None), &unavailable(None), &unavailable(None), &answer]
                .repeat(3)
        {
            fixture.call(result).expect("called");
        }
    }
}

/// Real threads: `pause` gives way to others.
struct RealClock;

#[test]
fn p8_few_calls_wait_in_place() {
    let fixture = fixture(Some(1), None, None);
    let _permit = fixture.acquire().expect("a permit");
    let queue: Vec<_> = (0..4).map(|_| fixture.limiter.lock().join_queue(request().caller, 0)).collect();
    let (_, long_queue_ms) = fixture.busy();
    assert_eq!(fixture.now_ms(), 0, "deferred at once");
    for ticket in queue {
        fixture.limiter.lock().leave_queue(ticket);
    }
    let (_, short_queue_ms) = fixture.busy();
    assert_eq!(fixture.now_ms(), 5_000, "a call waits behind a short queue");
    assert!(long_queue_ms > short_queue_ms, "{long_queue_ms} {short_queue_ms}");
}

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep(&self, stop: &CancelToken, _: Duration) {
        stop.wait(Duration::from_millis(1));
    }
}

#[test]
fn p8_threads_never_hold_more_permits_than_there_are() {
    let limiter = fixture(Some(2), None, None).limiter;
    let (inside, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cancel = CancelToken::new(Arc::new(RealClock));
                for _ in 0..20 {
                    let _permit =
                        limiter.acquire(&request(), &cancel).expect("time stands still, so no wait ends");
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    cancel.sleep(Duration::ZERO);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 80);
    assert_eq!(most.load(Ordering::SeqCst), 2, "both permits were used at once, and no third");
}

/// A job of the simulation: it waits for its time, for a permit, or for the end of its call.
enum SimulatedJob<'a> {
    Deferred(u64),
    Waiting(Waiter<'a>),
    Calling(limiter::Admission, u64),
    Ended,
}

/// Runs jobs whose calls take `call_ms` each, and returns how many calls began before that of the last
/// request, whose job comes at `late_ms`. The other jobs come at the start.
fn calls_before_the_last(
    fixture: &LimiterFixture,
    requests: &[ModelRequest],
    call_ms: u64,
    late_ms: u64,
) -> usize {
    let last = requests.len() - 1;
    let mut jobs: Vec<SimulatedJob<'_>> =
        (0..=last).map(|job| SimulatedJob::Deferred(if job == last { late_ms } else { 0 })).collect();
    let mut begun_since = 0;
    for now_ms in (0..3_600_000).step_by(10) {
        fixture.clock.now_ms.store(now_ms, Ordering::SeqCst);
        for (number, job) in jobs.iter_mut().enumerate() {
            let next = match std::mem::replace(job, SimulatedJob::Ended) {
                SimulatedJob::Deferred(at_ms) if at_ms <= now_ms => {
                    SimulatedJob::Waiting(Waiter::new(&fixture.limiter, &requests[number], &fixture.cancel))
                }
                SimulatedJob::Calling(admission, end_ms) if end_ms <= now_ms => {
                    let outcome = limiter::ProviderCallOutcome::Answered;
                    fixture.limiter.lock().release(now_ms, admission, outcome, None);
                    SimulatedJob::Ended
                }
                SimulatedJob::Waiting(mut waiter) => match waiter.try_once() {
                    Ok(std::ops::ControlFlow::Break(_)) if number == last => return begun_since,
                    Ok(std::ops::ControlFlow::Break(admission)) => {
                        begun_since += usize::from(now_ms >= late_ms);
                        SimulatedJob::Calling(admission, now_ms + call_ms)
                    }
                    Ok(std::ops::ControlFlow::Continue(_)) => SimulatedJob::Waiting(waiter),
                    Err(ModelError::Busy { retry_after_ms, .. }) => {
                        SimulatedJob::Deferred(now_ms + retry_after_ms)
                    }
                    Err(error) => panic!("{error:?}"),
                },
                other => other,
            };
            *job = next;
        }
    }
    panic!("the last job gets no permit")
}

#[test]
fn p7_a_user_with_hundreds_of_jobs_delays_another_by_a_call_and_not_by_all_of_them() {
    let caller = |user, job| ModelCaller { user: UserId(user), job: Some(JobId::from_bits(job)) };
    let mut requests: Vec<ModelRequest> =
        (0..600).map(|job| ModelRequest { caller: caller(1, job), ..request() }).collect();
    requests.push(ModelRequest { caller: caller(2, 600), ..request() });
    for (concurrent, per_minute, call_ms, at_most) in [
        (Some(1), None, 400, 1),
        (Some(1), None, 30_000, 1),
        (Some(2), None, 30_000, 1),
        (None, Some(10), 400, 10),
    ] {
        let fixture = fixture(concurrent, per_minute, None);
        let before = calls_before_the_last(&fixture, &requests, call_ms, 20_000);
        assert!(before <= at_most, "{concurrent:?} {per_minute:?} {call_ms} ms: {before} calls went before");
    }
}
