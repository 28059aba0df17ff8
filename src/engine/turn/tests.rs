//! The rules of the agent loop, one by one and under random plans.

use super::*;
use crate::domain::event::{
    AgentAction, AgentStep, EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase, StepKind,
};
use crate::domain::job::ApprovalMode;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::Completion;
use proptest::prelude::*;

const LIMITS: TurnLimits<'_> = TurnLimits {
    max_steps: 3,
    max_tool_calls: None,
    max_total_tokens: None,
    max_cost_micros: None,
    unpriced: None,
    max_tokens: None,
    model_failures: 2,
    is_plain: false,
    repeated_failures: 3,
    models: &[],
};

const RULES: TurnRules<'_> = TurnRules {
    needs_approval: &|name| name == "guarded",
    approval: ApprovalMode::Wait,
    answer_fault: &|answer| (answer == "wrong").then(|| "it is wrong".to_owned()),
};

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id_ref: id.into(), name: name.into(), arguments: "{}".into() }
}

/// The functions of the client.
fn is_client(name: &str) -> bool {
    name == "theirs"
}

fn completion(calls: Vec<ToolCall>) -> Completion {
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Completion::new(calls, finish_reason)
}

fn extend(log: &mut Vec<Record>, turn: &mut TurnState, records: Vec<Record>) {
    for record in &records {
        turn.apply(record);
    }
    log.extend(records);
}

fn call_model(failures: u32) -> NextStep {
    NextStep::CallModel { closing: None, continues: false, failures }
}

fn closing() -> NextStep {
    NextStep::CallModel { closing: Some(FinishReason::MaxSteps), continues: false, failures: 0 }
}

fn next(turn: &TurnState) -> NextStep {
    turn.next(&LIMITS, &RULES)
}

/// A log up to a batch of these calls.
fn after_batch(calls: Vec<ToolCall>) -> (Vec<Record>, TurnState) {
    let (mut log, mut turn) = (Vec::new(), TurnState::default());
    let piece = turn.delta(StepKind::Text, "let me see");
    extend(&mut log, &mut turn, vec![piece]);
    let sealed = turn.seal(completion(calls), true, Usage::new(10, 5), &is_client);
    extend(&mut log, &mut turn, sealed);
    (log, turn)
}

#[test]
fn an_empty_log_leads_to_a_model_call() {
    assert_eq!(next(&TurnState::default()), call_model(0));
}

#[test]
fn p3_a_recorded_result_is_never_run_again() {
    let (mut log, mut turn) = after_batch(vec![call("a", "pure"), call("b", "pure")]);
    let settled = turn.settle("a", "1", false);
    extend(&mut log, &mut turn, settled);
    assert_eq!(next(&TurnState::fold(&log)), NextStep::RunTools(vec![call("b", "pure")]));
}

#[test]
fn p3_an_interrupted_call_with_effects_is_reported_and_not_run() {
    let (mut log, mut turn) = after_batch(vec![call("a", "effect")]);
    extend(&mut log, &mut turn, vec![EngineMark::ToolStarted { id_ref: "a".into() }.into()]);
    let NextStep::Append(records) = next(&TurnState::fold(&log)) else { panic!("wants a word on the call") };
    extend(&mut log, &mut turn, records);
    let NextStep::Append(results) = next(&turn) else { panic!("wants the result published") };
    assert!(
        matches!(&results[..], [Record::Event(Event::ToolResult { content, skipped: true, .. })] if content == INTERRUPTED)
    );
}

#[test]
fn p3_a_call_without_a_recorded_start_is_run_again() {
    let (log, _) = after_batch(vec![call("a", "pure")]);
    assert_eq!(next(&TurnState::fold(&log)), NextStep::RunTools(vec![call("a", "pure")]));
}

#[test]
fn p3_a_recorded_start_counts_even_if_the_tool_is_gone() {
    let (mut log, mut turn) = after_batch(vec![call("a", "mcp_gone_pay"), call("b", "pure")]);
    extend(&mut log, &mut turn, vec![EngineMark::ToolStarted { id_ref: "a".into() }.into()]);
    let NextStep::Append(records) = next(&TurnState::fold(&log)) else { panic!("wants a word on the call") };
    extend(&mut log, &mut turn, records);
    let NextStep::Append(results) = next(&turn) else { panic!("wants the result published") };
    extend(&mut log, &mut turn, results);
    assert_eq!(next(&TurnState::fold(&log)), NextStep::RunTools(vec![call("b", "pure")]));
}

#[test]
fn results_are_published_in_call_order() {
    let (mut log, mut turn) = after_batch(vec![call("a", "pure"), call("b", "pure")]);
    let early = turn.settle("b", "2", false);
    assert!(matches!(&early[..], [Record::Mark(EngineMark::ToolFinished { .. })]), "b waits for a");
    extend(&mut log, &mut turn, early);
    let both = turn.settle("a", "1", false);
    let refs: Vec<_> = both
        .iter()
        .map(|r| match r {
            Record::Event(Event::ToolResult { id_ref, index, .. }) => (id_ref.as_str(), *index),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(refs, [("a", 3), ("b", 4)]);
}

#[test]
fn a_truncated_step_is_discarded_and_the_next_has_a_new_index() {
    let mut turn = TurnState::default();
    let piece = turn.delta(StepKind::Text, "half a tho");
    turn.apply(&piece);
    assert_eq!(next(&turn), NextStep::Discard { indices: vec![0], unbilled: Some("half a tho".into()) });
    turn.apply(&Event::StepDiscarded { index: 0 }.into());
    assert!(matches!(
        turn.delta(StepKind::Text, "again"),
        Record::Event(Event::Delta { index: 1, offset: 0, .. })
    ));
}

#[test]
fn repeated_call_ids_of_a_provider_are_made_unique() {
    let (mut log, mut turn) =
        after_batch(vec![call("call_0", "pure"), call("", "pure"), call("call_0", "pure")]);
    let settle_all: Vec<_> = ["call_0", "call_2", "call_3"].to_vec();
    for id in settle_all {
        let records = turn.settle(id, "x", false);
        assert!(matches!(&records[..], [Record::Event(Event::ToolResult { .. })]), "{id}");
        extend(&mut log, &mut turn, records);
    }
    assert_eq!(next(&turn), call_model(0));
}

#[test]
fn a_generated_call_id_is_unique() {
    // The third call sits at index 3, and the model has named another one `call_3` and `call_3_2` already.
    let (_, turn) = after_batch(vec![call("call_3", "pure"), call("call_3_2", "pure"), call("", "pure")]);
    let NextStep::RunTools(calls) = next(&turn) else { panic!("wants the tools run") };
    let ids: Vec<_> = calls.iter().map(|call| call.id_ref.as_str()).collect();
    assert_eq!(ids, ["call_3", "call_3_2", "call_3_3"]);
}

#[test]
fn the_closing_call_has_no_tools_and_finishes_the_job() {
    let (mut log, mut turn) = (Vec::new(), TurnState::default());
    for step in 0..LIMITS.max_steps {
        assert_eq!(next(&turn), call_model(0), "call {step}");
        let sealed = turn.seal(completion(vec![call("x", "pure")]), true, Usage::new(10, 5), &is_client);
        extend(&mut log, &mut turn, sealed);
        let NextStep::RunTools(calls) = next(&turn) else { panic!("wants the tool run") };
        let settled = turn.settle(&calls[0].id_ref, "1", false);
        extend(&mut log, &mut turn, settled);
    }
    assert_eq!(next(&turn), closing());
    let piece = turn.delta(StepKind::Text, "so it is");
    extend(&mut log, &mut turn, vec![piece]);
    let sealed = turn.seal(completion(vec![call("y", "pure")]), false, Usage::new(10, 5), &is_client);
    extend(&mut log, &mut turn, sealed);
    assert_eq!(next(&turn), NextStep::Finish(FinishReason::MaxSteps));
}

#[test]
fn consecutive_model_failures_are_bounded_per_run() {
    let failed = |retryable| -> Record {
        EngineMark::ModelFailed {
            message: "busy".into(),
            code: FailureCode::ProviderError,
            retryable,
            elsewhere: false,
            usage: Usage::default(),
            model: None,
            times: None,
        }
        .into()
    };
    let mut turn = TurnState::default();
    turn.apply(&failed(true));
    assert_eq!(next(&turn), call_model(1));
    turn.apply(&failed(true));
    assert_eq!(
        next(&turn),
        NextStep::Fail { code: FailureCode::ProviderError, content: "busy".into(), is_retryable: true }
    );
    turn.apply(&Event::Status { status: StatusPhase::Running, attempt: 2, reason: None }.into());
    assert_eq!(next(&turn), call_model(0), "a new run, a new budget");
    let mut refused = TurnState::default();
    refused.apply(&failed(false));
    assert_eq!(
        next(&refused),
        NextStep::Fail { code: FailureCode::ProviderError, content: "busy".into(), is_retryable: false }
    );
}

#[test]
fn a_job_over_its_token_limit_fails() {
    let (_, mut turn) = after_batch(vec![call("a", "pure")]);
    for record in turn.settle("a", "1", false) {
        turn.apply(&record);
    }
    let limits = TurnLimits { max_total_tokens: Some(15), ..LIMITS };
    assert!(matches!(
        turn.next(&limits, &RULES),
        NextStep::Fail { code: FailureCode::MaxTotalTokens, is_retryable: false, .. }
    ));
}

#[test]
fn a_job_over_its_cost_limit_fails_and_one_below_it_goes_on() {
    let (_, mut turn) = after_batch(vec![call("a", "pure")]);
    for record in turn.settle("a", "1", false) {
        turn.apply(&record);
    }
    let usage = Usage { cost_micros: 7, ..Usage::default() };
    turn.apply(&EngineMark::spent("m", usage).into());
    let limits = |max| TurnLimits { max_cost_micros: Some(max), ..LIMITS };
    assert!(matches!(turn.next(&limits(8), &RULES), NextStep::CallModel { .. }));
    assert!(matches!(
        turn.next(&limits(7), &RULES),
        NextStep::Fail { code: FailureCode::MaxCost, is_retryable: false, .. }
    ));
    let unpriced = TurnLimits { unpriced: Some("m"), ..limits(8) };
    assert!(matches!(turn.next(&unpriced, &RULES), NextStep::Fail { code: FailureCode::MaxCost, .. }));
    assert!(matches!(
        turn.next(&TurnLimits { max_cost_micros: None, ..unpriced }, &RULES),
        NextStep::CallModel { .. }
    ));
}

#[test]
fn closing_messages_contain_a_result_for_every_call() {
    let (_, turn) = after_batch(vec![call("a", "pure"), call("b", "effect")]);
    let messages = turn.closing_messages();
    assert_eq!(messages.iter().filter(|m| matches!(m, Message::Tool { .. })).count(), 2);
}

#[test]
fn p4_nothing_follows_a_terminal_event() {
    let (mut log, _) = after_batch(vec![call("a", "pure")]);
    log.push(Event::Error { content: "x".into(), code: FailureCode::Cancelled, retry_after_ms: None }.into());
    assert_eq!(next(&TurnState::fold(&log)), NextStep::AlreadyEnded);
    log.push(Event::Status { status: StatusPhase::Queued, attempt: 1, reason: Some("again".into()) }.into());
    assert!(
        matches!(next(&TurnState::fold(&log)), NextStep::RunTools(calls) if calls.len() == 1),
        "retried: it goes on"
    );
}

/// Plays one job against a scripted model: `plan[i]` is the number of calls in answer `i`.
/// Returns the log, the calls that ran, and the live state.
/// A restart at any point of the log must lead to the same end.
fn play(plan: &[usize], cut: Option<usize>) -> (Vec<Record>, Vec<String>, TurnState) {
    let (mut log, mut turn, mut runs) = (Vec::<Record>::new(), TurnState::default(), Vec::new());
    for _ in 0..500 {
        if cut.is_some_and(|length| log.len() == length) {
            turn = TurnState::fold(&log);
        }
        match next(&turn) {
            NextStep::Append(records) => extend(&mut log, &mut turn, records),
            NextStep::Discard { indices, .. } => extend(&mut log, &mut turn, TurnState::discard(&indices)),
            NextStep::CallModel { closing, .. } => {
                let answer = log
                    .iter()
                    .filter(|r| matches!(r, Record::Mark(EngineMark::ModelFinished { .. })))
                    .count();
                let name = |n: usize| if n % 2 == 1 { "guarded" } else { "pure" };
                let calls =
                    (0..plan.get(answer).copied().unwrap_or(0)).map(|n| call(&format!("{n}"), name(n)));
                let piece = turn.delta(StepKind::Text, "so ");
                extend(&mut log, &mut turn, vec![piece]);
                if cut == Some(log.len()) {
                    turn = TurnState::fold(&log);
                    continue;
                }
                let sealed =
                    turn.seal(completion(calls.collect()), closing.is_none(), Usage::new(10, 5), &is_client);
                extend(&mut log, &mut turn, sealed);
            }
            NextStep::RequestApproval(calls) => {
                // Chosen by position: ids differ where a discarded step has shifted the indices.
                let ids =
                    |first| calls.iter().skip(first).step_by(2).map(|call| call.id_ref.clone()).collect();
                let (approved, denied) = (ids(0), ids(1));
                let denied = EngineMark::Denied { id_refs: denied, reason: "no".into() };
                extend(
                    &mut log,
                    &mut turn,
                    vec![
                        EngineMark::Approved { id_refs: approved, always: Vec::new() }.into(),
                        denied.into(),
                    ],
                );
            }
            NextStep::RunTools(calls) => {
                for call in calls.iter().rev() {
                    runs.push(call.id_ref.clone());
                    let settled = turn.settle(&call.id_ref, "1", false);
                    extend(&mut log, &mut turn, settled);
                }
            }
            NextStep::Finish(_)
            | NextStep::Fail { .. }
            | NextStep::SwitchModel { .. }
            | NextStep::AlreadyEnded => {
                return (log, runs, turn);
            }
        }
    }
    panic!("the loop does not end (P4)")
}

/// Messages without generated ids: a discarded step shifts the indices in them.
fn shape(messages: &[Message]) -> Vec<(String, usize)> {
    let summary = |message: &Message| match message {
        Message::Assistant { content, tool_calls, .. } => (content.clone(), tool_calls.len()),
        Message::Tool { name, content, .. } => (format!("{name}: {content}"), 0),
        Message::System { content } | Message::User { content, .. } => (content.clone(), 0),
    };
    messages.iter().map(summary).collect()
}

proptest! {
    #[test]
    fn p3_p4_any_interrupted_run_ends_and_runs_each_call_once(plan in prop::collection::vec(0usize..4, 0..6), cut in 0usize..40) {
        let (full, runs, _) = play(&plan, None);
        let (cut_log, cut_runs, _) = play(&plan, Some(cut));
        let mut unique = cut_runs.clone();
        unique.sort();
        unique.dedup();
        prop_assert_eq!(unique.len(), cut_runs.len(), "a call ran twice");
        prop_assert_eq!(runs.len(), cut_runs.len());
        let (full, cut) = (TurnState::fold(&full), TurnState::fold(&cut_log));
        prop_assert_eq!(shape(full.messages()), shape(cut.messages()));
    }

    #[test]
    fn live_state_equals_folded_state(plan in prop::collection::vec(0usize..4, 0..6)) {
        let (log, _, live) = play(&plan, None);
        let mut indices = Vec::new();
        for record in &log {
            if let Record::Event(Event::ToolCall { index, .. } | Event::ToolResult { index, .. } | Event::Delta { index, .. }) = record {
                indices.push(*index);
            }
        }
        prop_assert_eq!(live, TurnState::fold(&log));
        prop_assert!(indices.windows(2).all(|w| w[0] < w[1]), "indices rise over the whole job");
    }
}

fn failed(elsewhere: bool) -> Record {
    EngineMark::ModelFailed {
        message: "cut".into(),
        code: FailureCode::ProviderError,
        retryable: true,
        elsewhere,
        usage: Usage::new(10, 5),
        model: None,
        times: None,
    }
    .into()
}

fn phase(status: StatusPhase) -> Record {
    Event::Status { status, attempt: 1, reason: None }.into()
}

#[test]
fn the_next_run_does_not_bill_a_failed_call_again() {
    let mut turn = TurnState::default();
    let piece = turn.delta(StepKind::Text, "half");
    for record in [piece, failed(false), phase(StatusPhase::Running)] {
        turn.apply(&record);
    }
    assert_eq!(next(&turn), NextStep::Discard { indices: vec![0], unbilled: None });
}

#[test]
fn a_plain_call_ends_with_its_first_answer() {
    for (text, reason) in
        [("", FinishReason::Stop), ("", FinishReason::Length), ("cut", FinishReason::Length)]
    {
        let (mut log, mut turn) = (Vec::new(), TurnState::default());
        let piece = turn.delta(StepKind::Text, text);
        extend(&mut log, &mut turn, vec![piece]);
        let sealed = turn.seal(Completion::new(Vec::new(), reason), true, Usage::new(10, 5), &is_client);
        extend(&mut log, &mut turn, sealed);
        let limits = TurnLimits { is_plain: true, ..LIMITS };
        assert_eq!(turn.next(&limits, &RULES), NextStep::Finish(reason), "{text:?}");
        assert!(matches!(next(&turn), NextStep::CallModel { .. }), "an agent goes on");
    }
}

#[test]
fn calls_beyond_max_tool_calls_are_denied_one_by_one() {
    let limits = TurnLimits { max_tool_calls: Some(3), ..LIMITS };
    let (mut log, mut turn) = after_batch(vec![call("a", "pure"), call("x", "theirs"), call("b", "pure")]);
    assert!(matches!(turn.next(&limits, &RULES), NextStep::RunTools(calls) if calls.len() == 2));
    for id in ["a", "b"] {
        let settled = turn.settle(id, "1", false);
        extend(&mut log, &mut turn, settled);
    }
    let sealed = turn.seal(
        completion(vec![call("c", "pure"), call("d", "pure")]),
        true,
        Usage::new(10, 5),
        &is_client,
    );
    extend(&mut log, &mut turn, sealed);
    let NextStep::Append(records) = TurnState::fold(&log).next(&limits, &RULES) else {
        panic!("a call is denied")
    };
    assert!(
        matches!(&records[..], [Record::Mark(EngineMark::Denied { id_refs, .. })] if id_refs == &["d"]),
        "{records:?}"
    );
    extend(&mut log, &mut turn, records);
    let NextStep::Append(skipped) = turn.next(&limits, &RULES) else { panic!("it gets its result") };
    extend(&mut log, &mut turn, skipped);
    assert_eq!(turn.next(&limits, &RULES), NextStep::RunTools(vec![call("c", "pure")]));
}

#[test]
fn calls_of_agents_count_for_max_tool_calls() {
    let limits = TurnLimits { max_tool_calls: Some(3), ..LIMITS };
    let (mut log, mut turn) = after_batch(vec![call("a", "pure")]);
    assert_eq!(turn.tool_calls_left(3), 2, "the call itself counts");
    let act = AgentAction::ToolCall { name: "pure".into(), arguments: "{}".into() };
    let step = AgentStep { id_ref: "a".into(), agent: "x".into(), index: 0, act };
    extend(&mut log, &mut turn, vec![Event::AgentStep { step, times: None }.into()]);
    assert_eq!((turn.tool_calls_left(3), TurnState::fold(&log).tool_calls_left(3)), (1, 1));
    let settled = turn.settle("a", "1", false);
    extend(&mut log, &mut turn, settled);
    let two = completion(vec![call("b", "pure"), call("c", "pure")]);
    let sealed = turn.seal(two, true, Usage::new(10, 5), &is_client);
    extend(&mut log, &mut turn, sealed);
    let NextStep::Append(records) = turn.next(&limits, &RULES) else { panic!("a call is denied") };
    assert!(
        matches!(&records[..], [Record::Mark(EngineMark::Denied { id_refs, .. })] if id_refs == &["c"]),
        "{records:?}"
    );
}

#[test]
fn the_next_run_repeats_an_empty_answer() {
    let mut turn = TurnState::default();
    for _ in 0..3 {
        for record in turn.seal(completion(Vec::new()), true, Usage::new(10, 0), &is_client) {
            turn.apply(&record);
        }
    }
    assert!(matches!(next(&turn), NextStep::Fail { is_retryable: true, .. }));
    turn.apply(&phase(StatusPhase::Retrying));
    turn.apply(&phase(StatusPhase::Running));
    assert_eq!(next(&turn), call_model(0));
}

#[test]
fn a_fallback_model_stays_after_a_crash_and_not_in_the_next_attempt() {
    let models = ["a".to_owned(), "b".to_owned()];
    let limits = TurnLimits { models: &models, ..LIMITS };
    let mut turn = TurnState::default();
    turn.apply(&failed(true));
    let NextStep::SwitchModel { model, .. } = turn.next(&limits, &RULES) else {
        panic!("a stand-in is there")
    };
    assert_eq!(model, "b");
    for record in [
        phase(StatusPhase::Retrying),
        EngineMark::ModelSwitched { model }.into(),
        phase(StatusPhase::Running),
    ] {
        turn.apply(&record);
    }
    assert_eq!(turn.model(), Some("b"), "after a crash");
    turn.apply(&phase(StatusPhase::Retrying));
    turn.apply(&phase(StatusPhase::Running));
    assert_eq!(turn.model(), None, "in another attempt");
}

#[test]
fn a_retried_job_sees_messages_since_its_failure() {
    let mut turn = TurnState::default();
    turn.apply(
        &Event::Summary { content: "x".into(), kept_messages: 1, omitted_messages: 0, is_stub: false }.into(),
    );
    turn.apply(&phase(StatusPhase::Queued));
    assert!(turn.shortened().is_some(), "given back only");
    turn.apply(
        &Event::Error { content: "x".into(), code: FailureCode::Timeout, retry_after_ms: None }.into(),
    );
    turn.apply(&phase(StatusPhase::Queued));
    assert!(turn.shortened().is_none());
}

#[test]
fn a_call_of_a_client_function_ends_the_job_after_the_server_tools_of_its_answer() {
    let (mut log, mut turn) = after_batch(vec![call("a", "theirs"), call("b", "pure"), call("c", "theirs")]);
    assert_eq!(next(&turn), NextStep::RunTools(vec![call("b", "pure")]));
    let settled = turn.settle("b", "1", false);
    assert!(matches!(&settled[..], [Record::Event(Event::ToolResult { .. })]), "it waits for no client");
    extend(&mut log, &mut turn, settled);
    assert_eq!(next(&turn), NextStep::Finish(FinishReason::ToolCalls));
    assert_eq!(next(&TurnState::fold(&log)), NextStep::Finish(FinishReason::ToolCalls), "after a crash");
    let results = turn.closing_messages().into_iter().filter(|m| matches!(m, Message::Tool { .. }));
    assert_eq!(results.count(), 1, "the client brings the results of its own calls");
}

#[test]
fn a_client_function_needs_no_approval_and_no_further_round() {
    let is_client: &dyn Fn(&str) -> bool = &|_| true;
    let mut turn = TurnState::default();
    let limits = TurnLimits { max_steps: 1, ..LIMITS };
    for record in turn.seal(completion(vec![call("a", "guarded")]), true, Usage::new(10, 5), is_client) {
        turn.apply(&record);
    }
    assert_eq!(turn.next(&limits, &RULES), NextStep::Finish(FinishReason::ToolCalls));
}

#[test]
fn a_lasting_approval_is_for_calls_of_its_tool_that_nobody_has_denied() {
    let (mut log, mut turn) = after_batch(vec![call("a", "guarded")]);
    let approved = EngineMark::Approved { id_refs: vec!["a".into()], always: vec!["guarded".into()] };
    extend(&mut log, &mut turn, vec![approved.into()]);
    let settled = turn.settle("a", "1", false);
    extend(&mut log, &mut turn, settled);
    let calls = vec![call("b", "guarded"), call("c", "other")];
    let sealed = turn.seal(completion(calls.clone()), true, Usage::new(10, 5), &is_client);
    extend(&mut log, &mut turn, sealed);
    let asks = TurnRules { needs_approval: &|_| true, ..RULES };
    assert_eq!(turn.next(&LIMITS, &asks), NextStep::RequestApproval(vec![call("c", "other")]));
    assert_eq!((next(&turn), turn.approved()), (NextStep::RunTools(calls), vec!["b".to_owned()]));
    let denied = EngineMark::Denied { id_refs: vec!["b".into()], reason: "no".into() };
    extend(&mut log, &mut turn, vec![denied.into()]);
    assert_eq!(turn.approved(), Vec::<String>::new(), "a denial of one call wins");
    assert_eq!(turn, TurnState::fold(&log));
}

/// Answers with a text.
fn say(log: &mut Vec<Record>, turn: &mut TurnState, text: &str) {
    let piece = turn.delta(StepKind::Text, text);
    extend(log, turn, vec![piece]);
    let sealed = turn.seal(completion(Vec::new()), true, Usage::new(10, 5), &is_client);
    extend(log, turn, sealed);
}

#[test]
fn an_answer_in_another_form_is_refused_once() {
    let (mut log, mut turn) = (Vec::new(), TurnState::default());
    say(&mut log, &mut turn, "wrong");
    let NextStep::Append(records) = next(&turn) else { panic!("refuses it") };
    assert!(matches!(
        &records[..],
        [Record::Event(Event::StepDiscarded { index: 0 }), Record::Mark(EngineMark::AnswerRefused { .. })]
    ));
    extend(&mut log, &mut turn, records);
    assert_eq!((next(&turn), turn.messages()), (call_model(0), &[][..]));
    let [answer, request] = turn.refused().expect("a refused answer").messages();
    assert_eq!(answer, Message::assistant("wrong"));
    assert!(matches!(request, Message::User { content, .. } if content.contains("it is wrong")));
    say(&mut log, &mut turn, "wrong");
    assert_eq!(next(&turn), NextStep::Finish(FinishReason::Stop), "once");
    assert_eq!((turn.refused(), turn.answer().as_str()), (None, "wrong"));
    assert_eq!(turn, TurnState::fold(&log));
}

#[test]
fn the_last_answer_of_a_job_is_not_refused() {
    let (mut log, mut turn) = (Vec::new(), TurnState::default());
    say(&mut log, &mut turn, "wrong");
    let limits = TurnLimits { max_total_tokens: Some(15), ..LIMITS };
    assert_eq!(turn.next(&limits, &RULES), NextStep::Finish(FinishReason::Stop));
}
