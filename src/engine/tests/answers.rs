//! Truncated, empty and billed answers; failures from which a fallback model or a retry recovers.

use super::fixture::{Fixture, answer_with_calls, answers, call, two_batches};
use super::store::Op;
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase};
use crate::domain::job::{JobSpec, JobStatus};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::{Price, Usage};
use crate::engine::driver::DriveOutcome;
use crate::ports::{CancelReason, Chunk, ChunkSink, Completion, ModelError, ModelInfo, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer with this text and the usage that its provider reports.
fn answer_text(
    text: &str,
    finish_reason: FinishReason,
    reported_usage: Option<Usage>,
    sink: ChunkSink<'_>,
) -> Result<Completion, ModelError> {
    let chunks = [Some(Chunk::Text(text)).filter(|_| !text.is_empty()), reported_usage.map(Chunk::Spent)];
    for chunk in chunks.into_iter().flatten() {
        if sink(chunk).is_break() {
            return Err(ModelError::Stopped);
        }
    }
    Ok(Completion::new(Vec::new(), finish_reason))
}

/// A fixture whose model returns these answers in order and repeats the last one.
fn fixture_with_answers(plan: &'static [(&'static str, FinishReason)]) -> Fixture {
    let calls_made = AtomicUsize::new(0);
    Fixture::new(move |_, _, sink| {
        let at = calls_made.fetch_add(1, Ordering::SeqCst).min(plan.len() - 1);
        answer_text(plan[at].0, plan[at].1, Some(Usage::new(10, 5)), sink)
    })
}

fn change_spec(fixture: &mut Fixture, change: impl FnOnce(&mut JobSpec)) {
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(change);
}

#[test]
fn an_answer_that_arrives_whole_and_its_end_are_one_write() {
    let fixture = Fixture::new(|_, _, sink| answer_with_calls(Vec::new(), sink));
    fixture.model.send_at_once();
    fixture.finish();
    assert_eq!((fixture.store.count(Op::Append), fixture.store.count(Op::Finish)), (0, 1));
    assert_eq!(fixture.store.output(), "so on");
}

#[test]
fn pieces_that_arrive_before_the_rest_are_written_at_once() {
    let fixture = Fixture::new(|_, _, sink| answer_with_calls(Vec::new(), sink));
    fixture.finish();
    assert!(fixture.store.count(Op::Append) >= 2, "each piece is written when it has arrived");
    assert_eq!(fixture.store.output(), "so on");
}

#[test]
fn calls_that_only_compute_are_written_with_their_result_and_others_before_they_run() {
    let appends = |name: &'static str| {
        let fixture = Fixture::new(move |request, _, sink| {
            let calls = if answers(request) == 0 { vec![call("c1", name)] } else { Vec::new() };
            answer_with_calls(calls, sink)
        });
        fixture.model.send_at_once();
        fixture.finish();
        fixture.store.count(Op::Append)
    };
    assert_eq!(appends("pure"), 1, "the call and its result");
    assert_eq!(appends("effect"), 3, "the call, its start, and its result");
}

#[test]
fn pieces_that_arrived_with_a_failure_are_written_before_it() {
    let failed = AtomicUsize::new(0);
    let fixture = Fixture::new(move |_, _, sink| {
        if failed.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(sink(Chunk::Text("half")).is_continue());
            return Err(ModelError::Unavailable { message: "cut".into(), retry_after_ms: None });
        }
        answer_text("whole", FinishReason::Stop, Some(Usage::new(10, 5)), sink)
    });
    fixture.model.send_at_once();
    fixture.finish();
    let is_half =
        |record: &Record| matches!(record, Record::Event(Event::Delta { text, .. }) if text == "half");
    assert!(fixture.store.records().iter().any(is_half));
    assert_eq!(fixture.store.output(), "whole");
}

fn reason(fixture: &Fixture) -> FinishReason {
    match fixture.store.terminal_events()[..] {
        [Event::Done { finish_reason, .. }] => finish_reason,
        ref other => panic!("not done: {other:?}"),
    }
}

fn model(id: &str) -> ModelInfo {
    ModelInfo { id: id.into(), name: id.into(), ..ModelInfo::default() }
}

fn usage(fixture: &Fixture) -> Usage {
    match &fixture.store.terminal_events()[..] {
        [Event::Done { usage, .. }] => *usage,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn a_truncated_answer_is_continued_as_one_answer() {
    let fixture = fixture_with_answers(&[("one ", FinishReason::Length), ("two", FinishReason::Stop)]);
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(fixture.store.output(), "one two");
    assert_eq!((reason(&fixture), usage(&fixture)), (FinishReason::Stop, Usage::new(20, 10)));
    let calls_made = fixture.model.requests();
    let [.., Message::Assistant { content, .. }, Message::User { content: go_on, .. }] =
        &calls_made[1].1.messages[..]
    else {
        panic!("{calls_made:?}")
    };
    assert!(content == "one " && go_on.contains("Go on exactly where it stops"), "{go_on}");
    assert_eq!(
        fixture.store.messages(),
        [Message::assistant("one two")],
        "the conversation keeps one message"
    );
}

#[test]
fn an_answer_is_continued_at_most_three_times_and_up_to_max_tokens() {
    let fixture = fixture_with_answers(&[("x", FinishReason::Length)]);
    fixture.finish();
    assert_eq!((fixture.store.output().as_str(), reason(&fixture)), ("xxxx", FinishReason::Length));
    for (max_tokens, calls, left) in [(5, 1, None), (8, 2, Some(3))] {
        let mut fixture = fixture_with_answers(&[("x", FinishReason::Length)]);
        change_spec(&mut fixture, |spec| spec.max_tokens = Some(max_tokens));
        fixture.finish();
        assert_eq!((fixture.model.requests().len(), reason(&fixture)), (calls, FinishReason::Length));
        assert_eq!(fixture.model.requests().get(1).and_then(|(_, request)| request.max_tokens), left);
    }
}

#[test]
fn an_empty_answer_is_requested_again_twice() {
    let fixture = fixture_with_answers(&[
        ("", FinishReason::Stop),
        (" ", FinishReason::Stop),
        ("yes", FinishReason::Stop),
    ]);
    fixture.finish();
    assert_eq!((fixture.store.output().as_str(), fixture.model.requests().len()), ("yes", 3));
    let silent = fixture_with_answers(&[("", FinishReason::Stop)]);
    silent.finish();
    assert_eq!(silent.model.requests().len(), 3);
    assert!(matches!(
        silent.store.terminal_events()[..],
        [Event::Error { code: FailureCode::ProviderError, .. }]
    ));
    let withheld = fixture_with_answers(&[("", FinishReason::ContentFilter)]);
    withheld.finish();
    assert_eq!((withheld.model.requests().len(), reason(&withheld)), (1, FinishReason::ContentFilter));
}

#[test]
fn text_that_turns_out_to_be_reasoning_becomes_a_step_of_reasoning() {
    let fixture = Fixture::new(|_, _, sink| {
        for chunk in [Chunk::Text("hm, "), Chunk::Text("so\n"), Chunk::TextWasThinking] {
            assert!(sink(chunk).is_continue());
        }
        answer_text("yes", FinishReason::Stop, Some(Usage::new(10, 5)), sink)
    });
    fixture.finish();
    assert_eq!(fixture.store.output(), "yes");
    let said = Message::Assistant {
        content: "yes".into(),
        thinking: "hm, so".into(),
        tool_calls: Vec::new(),
        echo: None,
    };
    assert_eq!(fixture.store.messages(), [said]);
    let folded = crate::engine::turn::TurnState::fold(&fixture.store.records());
    assert_eq!(folded.answer(), "yes", "a replay agrees");
}

/// A model that makes this call as long as it may, and then gives no text.
fn silent_after(name: &'static str, arguments: &'static str) -> Fixture {
    Fixture::new(move |request, _, sink| {
        if request.may_call && (name != "pure" || answers(request) == 0) {
            let call = ToolCall { arguments: arguments.into(), ..call("", name) };
            return answer_with_calls(vec![call], sink);
        }
        answer_text(" ", FinishReason::Stop, None, sink)
    })
}

#[test]
fn an_answer_that_stays_empty_becomes_a_sentence_of_what_was_done() {
    let silent = silent_after("pure", "{}");
    silent.finish();
    assert_eq!((reason(&silent), silent.model.requests().len()), (FinishReason::Stop, 4));
    assert_eq!(
        silent.store.output(),
        "There is no final answer: the model ended without a text. Tools called: pure once."
    );
    let mut failing = silent_after("broken", "{}");
    change_spec(&mut failing, |spec| spec.max_steps = 15);
    failing.finish();
    assert_eq!(reason(&failing), FinishReason::RepeatedFailure);
    let said = "There is no final answer: the same tool call failed 3 times. Tools called: broken 3 times (3 failed).";
    assert_eq!(failing.store.output(), said);
    assert_eq!(
        failing.store.messages().last(),
        Some(&Message::assistant(said)),
        "the conversation has it, too"
    );
    let is_streamed = failing
        .store
        .records()
        .into_iter()
        .any(|record| matches!(record, Record::Event(Event::Delta { text, .. }) if text == said));
    assert!(is_streamed, "streams show it");
    let withheld = fixture_with_answers(&[("", FinishReason::ContentFilter)]);
    withheld.finish();
    assert!(withheld.store.output().contains("content filter"), "{}", withheld.store.output());
}

#[test]
fn the_last_call_says_that_it_is_the_last() {
    let note = |fixture: &Fixture| -> Vec<bool> {
        let requests = fixture.model.requests();
        let tells = |message: &Message| matches!(message, Message::Tool { content, .. } if content.contains("Answer now, without tools"));
        requests.iter().map(|(_, request)| request.messages.last().is_some_and(tells)).collect()
    };
    let by_steps = Fixture::new(|_, _, sink| answer_with_calls(vec![call("", "pure")], sink));
    by_steps.finish();
    assert_eq!(note(&by_steps), [false, false, false, true]);
    let by_failures = silent_after("broken", "{}");
    by_failures.finish();
    assert_eq!(note(&by_failures), [false, false, false, true, true, true], "each try says so");
    let (_, last) = by_failures.model.requests().pop().expect("a call");
    let without_note = by_failures.store.messages().into_iter().filter(
        |message| matches!(message, Message::Tool { content, .. } if content.contains("Note of the server")),
    );
    assert_eq!((without_note.count(), last.may_call), (0, false), "the conversation does not keep the note");
}

#[test]
fn p4_a_job_that_repeats_a_failing_call_is_closed() {
    let mut fixture = Fixture::new(|request, _, sink| {
        if request.may_call {
            return answer_with_calls(vec![call("", "broken")], sink);
        }
        answer_text("it cannot be done", FinishReason::Stop, None, sink)
    });
    change_spec(&mut fixture, |spec| spec.max_steps = 15);
    fixture.finish();
    assert_eq!((fixture.tools.runs().len(), reason(&fixture)), (3, FinishReason::RepeatedFailure));
    assert_eq!(fixture.store.output(), "it cannot be done");
}

#[test]
fn a_fallback_model_replaces_a_failing_one() {
    for (error, calls) in [
        (ModelError::Unavailable { message: "down".into(), retry_after_ms: None }, 4),
        (ModelError::Unavailable { message: "down".into(), retry_after_ms: Some(60_000) }, 1),
        (ModelError::Denied("no such key".into()), 1),
    ] {
        let failure = error.clone();
        let fixture = Fixture::new(move |request, cancel, sink| match request.model.as_str() {
            "fake" => Err(failure.clone()),
            _ => two_batches(request, cancel, sink),
        });
        fixture.configure(vec![ModelInfo { fallback: vec!["b".into()], ..model("fake") }, model("b")]);
        fixture.finish();
        assert_eq!(fixture.status(), JobStatus::Succeeded, "{error:?}");
        let calls_made = fixture.model.requests();
        assert_eq!(
            calls_made.iter().filter(|(_, request)| request.model == "fake").count(),
            calls,
            "{error:?}"
        );
        let is_recorded = fixture.store.records().into_iter().any(|record| {
            matches!(record, Record::Event(Event::Status { status: StatusPhase::Retrying, reason: Some(reason), .. })
                if reason.contains("going on with model 'b'"))
        });
        assert!(is_recorded, "{error:?}");
        let sealed_by = fixture.store.records().into_iter().find_map(|record| match record {
            Record::Mark(EngineMark::ModelFinished { model, .. }) => model,
            _ => None,
        });
        assert_eq!(sealed_by.as_deref(), Some("b"), "whose tokens they were");
    }
    let refused = Fixture::new(|_, _, _| Err(ModelError::Refused("not with these words".into())));
    refused.configure(vec![ModelInfo { fallback: vec!["b".into()], ..model("fake") }, model("b")]);
    refused.finish();
    assert_eq!(refused.model.requests().len(), 1, "a request that is wrong is wrong everywhere");
}

#[test]
fn p4_a_long_retry_after_postpones_the_job_and_failures_still_count() {
    let fixture = Fixture::new(|_, _, _| {
        Err(ModelError::Unavailable { message: "busy".into(), retry_after_ms: Some(90_000) })
    });
    for _ in 0..3 {
        assert_eq!(fixture.drive(), DriveOutcome::Postponed);
    }
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!((fixture.model.requests().len(), fixture.store.postponed_ms()), (4, vec![90_000; 3]));
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Error { code: FailureCode::ProviderError, .. }]
    ));
}

#[test]
fn a_busy_provider_postpones_a_job_without_counting_a_failure() {
    let calls_made = AtomicUsize::new(0);
    let fixture =
        Fixture::new(move |request, cancel, sink| match calls_made.fetch_add(1, Ordering::SeqCst) {
            0..20 => Err(ModelError::Busy { message: "many calls".into(), retry_after_ms: 1_500 }),
            _ => two_batches(request, cancel, sink),
        });
    for _ in 0..20 {
        assert_eq!(fixture.drive(), DriveOutcome::Postponed);
    }
    fixture.finish();
    assert_eq!((fixture.status(), fixture.store.postponed_ms()), (JobStatus::Succeeded, vec![1_500; 20]));
}

#[test]
fn failed_answers_are_billed() {
    let failed = AtomicUsize::new(0);
    let fixture = Fixture::new(move |_, _, sink| {
        if failed.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(sink(Chunk::Spent(Usage::new(100, 7))).is_continue());
            assert!(sink(Chunk::Text("half")).is_continue());
            return Err(ModelError::Unavailable { message: "cut".into(), retry_after_ms: None });
        }
        answer_text("whole", FinishReason::Stop, Some(Usage::new(100, 9)), sink)
    });
    fixture.finish();
    assert_eq!(usage(&fixture), Usage::new(200, 16));
}

#[test]
fn unreported_usage_is_estimated_and_priced() {
    let fixture = Fixture::new(|_, _, sink| answer_text(&"word ".repeat(80), FinishReason::Stop, None, sink));
    let price = Price { prompt_micros: 1_000_000, completion_micros: 2_000_000 };
    fixture.configure(vec![ModelInfo { price: Some(price), ..model("fake") }]);
    fixture.finish();
    let usage = usage(&fixture);
    assert!((80..160).contains(&usage.completion_tokens) && usage.prompt_tokens > 10, "{usage:?}");
    assert_eq!(usage.cost_micros, usage.prompt_tokens + 2 * usage.completion_tokens);
}

#[test]
fn an_answer_interrupted_by_a_shutdown_is_charged_once() {
    let fixture = Fixture::new(|_, cancel, sink| {
        assert!(sink(Chunk::Text("half a word")).is_continue());
        if cancel.is_cancelled() {
            return Err(ModelError::Stopped);
        }
        answer_text(" and more", FinishReason::Stop, Some(Usage::new(10, 5)), sink)
    });
    let store = Arc::clone(&fixture.store);
    fixture.store.fail_when::<StoreError>(move |op, nth| {
        if op == super::store::Op::Append && nth == 1 {
            store.cancel_lease(CancelReason::Shutdown);
        }
        None
    });
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    fixture.finish();
    let spent =
        fixture.store.records().into_iter().filter(|r| matches!(r, Record::Mark(EngineMark::Spent { .. })));
    assert_eq!(spent.count(), 1);
    assert!(usage(&fixture).total_tokens > 15 + 2, "{:?}", usage(&fixture));
}

#[test]
fn a_new_conversation_is_titled_by_the_title_model_or_its_first_words() {
    for (title_model, title) in [(None, "go"), (Some("t"), "A fine title"), (Some("broken"), "go")] {
        let mut fixture = Fixture::new(|request, _, sink| match request.model.as_str() {
            "t" => answer_text("\"A fine title\"", FinishReason::Stop, Some(Usage::new(3, 2)), sink),
            "broken" => Err(ModelError::Refused("no".into())),
            _ => answer_text("yes", FinishReason::Stop, Some(Usage::new(10, 5)), sink),
        });
        change_spec(&mut fixture, |spec| {
            spec.conversation_id = Some("chat".to_owned().try_into().expect("a name"));
        });
        Arc::get_mut(&mut fixture.store).expect("no other owner yet").forget_history();
        let limits = crate::engine::EngineLimits {
            title_model: title_model.map(Into::into),
            ..super::fixture::LIMITS
        };
        drop(fixture.tick_within(limits));
        let [Event::Done { suggested_title, usage, .. }] = &fixture.store.terminal_events()[..] else {
            panic!("not done")
        };
        assert_eq!(suggested_title.as_deref(), Some(title), "{title_model:?}");
        let expected = if title_model == Some("t") { Usage::new(13, 7) } else { Usage::new(10, 5) };
        assert_eq!(*usage, expected, "{title_model:?}");
    }
}

#[test]
fn a_fallback_model_replaces_a_provider_that_is_closed_for_long() {
    for (retry_after_ms, status) in [(600_000, JobStatus::Succeeded), (3_000, JobStatus::Queued)] {
        let fixture = Fixture::new(move |request, cancel, sink| match request.model.as_str() {
            "fake" => Err(ModelError::Busy { message: "closed".into(), retry_after_ms }),
            _ => two_batches(request, cancel, sink),
        });
        fixture.configure(vec![ModelInfo { fallback: vec!["b".into()], ..model("fake") }, model("b")]);
        drop(fixture.tick());
        assert_eq!(fixture.status(), status, "{retry_after_ms}");
    }
}

#[test]
fn a_partial_answer_is_billed_when_its_provider_reports_only_at_the_end() {
    let failed = AtomicUsize::new(0);
    let fixture = Fixture::new(move |_, _, sink| {
        if failed.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(sink(Chunk::Spent(Usage::new(100, 1))).is_continue());
            assert!(sink(Chunk::Text(&"word ".repeat(100))).is_continue());
            return Err(ModelError::Unavailable { message: "cut".into(), retry_after_ms: None });
        }
        answer_text("whole", FinishReason::Stop, Some(Usage::new(100, 2)), sink)
    });
    fixture.finish();
    let usage = usage(&fixture);
    assert!(usage.prompt_tokens == 200 && usage.completion_tokens > 100, "{usage:?}");
}

#[test]
fn a_slow_title_does_not_fail_the_answer() {
    let mut fixture = Fixture::new(|request, cancel, sink| {
        if request.model == "t" {
            while !cancel.is_cancelled() {
                cancel.sleep(std::time::Duration::from_secs(1));
            }
            return Err(ModelError::Stopped);
        }
        cancel.sleep(std::time::Duration::from_secs(super::store::TIMEOUT_S - 5));
        answer_text("yes", FinishReason::Stop, Some(Usage::new(10, 5)), sink)
    });
    change_spec(&mut fixture, |spec| {
        spec.conversation_id = Some("chat".to_owned().try_into().expect("a name"));
    });
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").forget_history();
    let limits = crate::engine::EngineLimits { title_model: Some("t".into()), ..super::fixture::LIMITS };
    drop(fixture.tick_within(limits));
    assert!(
        matches!(&fixture.store.terminal_events()[..], [Event::Done { suggested_title: Some(title), .. }] if title == "go")
    );
}
