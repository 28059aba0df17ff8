//! Contexts that grow beyond their model's window.

use super::fixture::{Fixture, answers, call};
use crate::domain::event::{Event, FailureCode, FinishReason, Record};
use crate::domain::job::JobStatus;
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;
use crate::domain::usage::Usage;
use crate::ports::{Chunk, ChunkSink, Completion, ModelError, ModelInfo, ModelRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn summaries(fixture: &Fixture) -> Vec<String> {
    let texts = fixture.store.records().into_iter().filter_map(|record| match record {
        Record::Event(Event::Summary { content, .. }) => Some(content),
        _ => None,
    });
    texts.collect()
}

fn is_summary_request(request: &ModelRequest) -> bool {
    matches!(request.messages.first(), Some(Message::System { content }) if content.contains("compress"))
}

fn summary_answer(sink: ChunkSink<'_>) -> Completion {
    assert!(sink(Chunk::Text("they talked")).is_continue());
    assert!(sink(Chunk::Spent(Usage::new(50, 3))).is_continue());
    Completion::new(Vec::new(), FinishReason::Stop)
}

/// A model that calls a tool in every answer, each time with a long text.
fn verbose_answer(request: &ModelRequest, sink: ChunkSink<'_>) -> Completion {
    let round = request.messages.iter().filter(|m| matches!(m, Message::Tool { .. })).count();
    assert!(sink(Chunk::Text(&"word ".repeat(200))).is_continue());
    let calls = if request.may_call { vec![call(&format!("c{round}"), "pure")] } else { Vec::new() };
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Completion::new(calls, finish_reason)
}

fn window(tokens: u32) -> Vec<ModelInfo> {
    vec![ModelInfo { id: "fake".into(), context_window: Some(tokens), ..ModelInfo::default() }]
}

fn long_run(limit: u32, summarise: bool) -> Fixture {
    let mut fixture = Fixture::new(move |request, _, sink| match () {
        () if !is_summary_request(request) => Ok(verbose_answer(request, sink)),
        () if summarise => Ok(summary_answer(sink)),
        () => Err(ModelError::Refused("no summaries here".into())),
    });
    fixture.configure(window(limit));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| spec.max_steps = 12);
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{:?}", fixture.store.terminal_events());
    fixture
}

#[test]
fn p8_the_oldest_rounds_are_summarized_before_the_window_is_full() {
    let fixture = long_run(2_000, true);
    let texts = summaries(&fixture);
    assert!(!texts.is_empty() && texts.iter().all(|text| text == "they talked"), "{texts:?}");
    for (_, request) in fixture.model.requests().iter().filter(|(_, request)| !is_summary_request(request)) {
        let tokens = TokenEstimator::of_model("fake").messages(&request.messages);
        assert!(tokens <= 2_000, "{tokens} tokens are sent");
        assert!(
            request
                .messages
                .iter()
                .any(|m| matches!(m, Message::User { content, .. } if content.ends_with("go")))
        );
    }
}

#[test]
fn a_failed_summary_is_replaced_by_a_stub() {
    let fixture = long_run(2_000, false);
    assert!(
        summaries(&fixture).iter().all(|text| text
            .ends_with("messages are left out here: the model's context has no room for them)")
            && text.len() < 100)
    );
    assert!(!summaries(&fixture).is_empty());
}

#[test]
fn a_wide_context_window_needs_no_summary() {
    assert!(summaries(&long_run(200_000, true)).is_empty());
}

#[test]
fn a_context_error_of_the_provider_shortens_the_prompt() {
    for configured in [Vec::new(), window(1_000_000)] {
        let mut fixture = Fixture::new(|request, _, sink| {
            let bytes: usize = request.messages.iter().map(Message::bytes).sum();
            match () {
                () if is_summary_request(request) => Ok(summary_answer(sink)),
                () if bytes > 4_000 => Err(ModelError::ContextTooLong("the window is 1,000 tokens".into())),
                () => Ok(verbose_answer(request, sink)),
            }
        });
        fixture.configure(configured);
        if fixture.model_is_unknown() {
            fixture.configure(vec![ModelInfo { id: "fake".into(), ..ModelInfo::default() }]);
        }
        Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| spec.max_steps = 8);
        fixture.finish();
        assert_eq!(fixture.status(), JobStatus::Succeeded, "{:?}", fixture.store.terminal_events());
        assert!(!summaries(&fixture).is_empty());
        assert_eq!(fixture.clock_ms(), 0, "nothing is waited for");
    }
}

#[test]
fn a_question_that_alone_does_not_fit_fails_with_the_providers_error() {
    let fixture = Fixture::new(|request, _, sink| {
        if is_summary_request(request) {
            return Ok(summary_answer(sink));
        }
        Err(ModelError::ContextTooLong("too long".into()))
    });
    fixture.configure(window(8_000));
    fixture.finish();
    let ends = fixture.store.terminal_events();
    assert!(
        matches!(&ends[..], [Event::Error { code: FailureCode::ContextTooLong, content, .. }] if content == "model 'fake': too long"),
        "{ends:?}"
    );
    assert!(fixture.model.requests().len() <= 3, "the history goes, then nothing is left to go");
    assert_eq!(answers(&fixture.model.requests()[0].1), 0);
}

/// A long run whose first `times` summaries fail with this error.
fn with_summaries_failing(times: usize, error: ModelError) -> Fixture {
    let summary_calls = AtomicUsize::new(0);
    let mut fixture = Fixture::new(move |request, _, sink| {
        if !is_summary_request(request) {
            return Ok(verbose_answer(request, sink));
        }
        if summary_calls.fetch_add(1, Ordering::SeqCst) < times {
            Err(error.clone())
        } else {
            Ok(summary_answer(sink))
        }
    });
    fixture.configure(window(2_000));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| {
        spec.max_steps = 12;
        spec.conversation_id = Some("chat".to_owned().try_into().expect("a name"));
    });
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{:?}", fixture.store.terminal_events());
    fixture
}

#[test]
fn a_summary_is_retried_while_the_provider_is_busy_or_unavailable() {
    let busy = ModelError::Busy { message: "many".into(), retry_after_ms: 1_500 };
    let fixture = with_summaries_failing(3, busy);
    assert_eq!(fixture.store.postponed_ms(), [1_500; 3]);
    assert!(summaries(&fixture).iter().all(|text| text == "they talked"), "{:?}", summaries(&fixture));
    let away = ModelError::Unavailable { message: "away".into(), retry_after_ms: None };
    assert!(summaries(&with_summaries_failing(1, away)).iter().all(|text| text == "they talked"));
}

#[test]
fn a_conversation_keeps_summaries_and_no_stubs() {
    let refused = ModelError::Refused("no".into());
    let without_summaries = with_summaries_failing(usize::MAX, refused);
    assert!(!summaries(&without_summaries).is_empty() && without_summaries.store.summary().is_none());
    let with_summaries = with_summaries_failing(0, ModelError::Refused("no".into()));
    assert_eq!(with_summaries.store.summary().map(|summary| summary.content), Some("they talked".into()));
}

#[test]
fn instructions_of_half_the_window_do_not_force_a_cut_at_every_step() {
    let mut fixture = Fixture::new(|request, _, sink| {
        Ok(if is_summary_request(request) { summary_answer(sink) } else { verbose_answer(request, sink) })
    });
    fixture.configure(window(3_000));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| {
        spec.max_steps = 12;
        spec.system_prompt = Some("rule ".repeat(900));
    });
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{:?}", fixture.store.terminal_events());
    assert!((1..=6).contains(&summaries(&fixture).len()), "{} cuts in 12 rounds", summaries(&fixture).len());
}

#[test]
fn p8_a_summary_is_limited_to_a_small_part_of_the_window() {
    let mut fixture = Fixture::new(|request, _, sink| {
        if !is_summary_request(request) {
            return Ok(verbose_answer(request, sink));
        }
        assert_eq!(request.max_tokens, Some(250));
        for _ in 0..20 {
            if sink(Chunk::Text(&"talk ".repeat(200))).is_break() {
                return Err(ModelError::Stopped);
            }
        }
        Ok(Completion::new(Vec::new(), FinishReason::Length))
    });
    fixture.configure(window(2_000));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| spec.max_steps = 12);
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{:?}", fixture.store.terminal_events());
    let texts = summaries(&fixture);
    assert!(
        !texts.is_empty() && texts.iter().all(|text| TokenEstimator::of_model("fake").text(text) <= 252),
        "{texts:?}"
    );
}

#[test]
fn a_summary_after_a_stub_is_not_kept_by_the_conversation() {
    let summary_calls = AtomicUsize::new(0);
    let mut fixture = Fixture::new(move |request, _, sink| match summary_calls.load(Ordering::SeqCst) {
        _ if !is_summary_request(request) => Ok(verbose_answer(request, sink)),
        0 => {
            summary_calls.store(1, Ordering::SeqCst);
            Err(ModelError::Refused("no".into()))
        }
        _ => Ok(summary_answer(sink)),
    });
    fixture.configure(window(2_000));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(|spec| spec.max_steps = 12);
    fixture.finish();
    let texts = summaries(&fixture);
    assert!(texts.len() > 1 && texts.last().is_some_and(|text| text == "they talked"), "{texts:?}");
    assert!(fixture.store.summary().is_none(), "the conversation would lose what the stub stands for");
}
