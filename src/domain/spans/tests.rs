//! The fold of logs into spans.

use super::*;
use crate::domain::call_times::{AgentModelCall, CallTimes};
use crate::domain::event::{
    AgentAction, AgentStep, EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase, StepKind,
};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{JobOrigin, JobSpec, JobStatus};
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::message::Message;
use crate::domain::run::{EndedRun, LogStage, RunState};
use crate::domain::tool::ToolCall;
use crate::domain::trace_ids::{SpanId, TraceId, TraceParent};
use crate::domain::usage::{Usage, UsageByModel};
use proptest::prelude::*;
use std::collections::BTreeSet;

const JOB: JobId = JobId::from_bits(7);
const START_MS: u64 = 10_000;
const END_MS: u64 = 20_000;
/// Texts that may be in spans only if content is included.
const SECRET: &str = "s3cret";

fn run(change: impl FnOnce(&mut EndedRun)) -> EndedRun {
    let spec = JobSpec::new("demo".to_owned(), vec![Message::user(format!("ask {SECRET}"))], 15, 60);
    let mut usage = UsageByModel::default();
    usage.add("demo", Usage::new(30, 6));
    let state = RunState {
        id: JOB,
        status: JobStatus::Succeeded,
        attempt: 1,
        failed_runs: 0,
        epoch: 1,
        created_at_ms: 9_000,
        started_at_ms: Some(START_MS),
        finished_at_ms: END_MS,
        retried_at_ms: None,
        last_event_id: 9,
        log: LogStage::Whole,
        log_head: None,
        fold: None,
    };
    let mut run = EndedRun { state, spec, hides_input: false, output: format!("answer {SECRET}"), usage };
    change(&mut run);
    run
}

fn placed(records: &[Record]) -> Vec<LogRecord> {
    let mut place = RecordPlace::BEFORE_FIRST;
    let placed = |record: &Record| {
        place = match record {
            Record::Event(_) => place.next_event(),
            Record::Mark(_) => place.next_mark(),
        };
        LogRecord { place, body: serde_json::to_string(record).expect("serialises"), link: None }
    };
    records.iter().map(placed).collect()
}

fn spans_with(run: &EndedRun, records: &[Record], options: &SpanOptions) -> Vec<TraceSpan> {
    let mut fold = SpanFold::new(run, UserId(3), options);
    for record in placed(records) {
        fold.push(&record).expect("reads");
    }
    fold.finish()
}

fn spans(records: &[Record]) -> Vec<TraceSpan> {
    spans_with(&run(|_| ()), records, &SpanOptions::default())
}

fn status(status: StatusPhase) -> Record {
    Event::Status { status, attempt: 1, reason: None }.into()
}

fn text(index: u32) -> Record {
    Event::Delta { index, kind: StepKind::Text, offset: 0, first_seq: 0, text: format!("say {SECRET}") }
        .into()
}

fn call(index: u32, id_ref: &str) -> Record {
    let (id_ref, arguments) = (id_ref.to_owned(), format!("{{\"a\":\"{SECRET}\"}}"));
    let call = ToolCall { id_ref, name: "bash".to_owned(), arguments };
    Event::ToolCall { index, call, is_client: false }.into()
}

fn result(index: u32, id_ref: &str, ended_at_ms: Option<u64>) -> Record {
    let content = format!("{{\"success\":true,\"data\":\"{SECRET}\",\"error\":null,\"execution_time\":1.5}}");
    let (id_ref, name) = (id_ref.to_owned(), "bash".to_owned());
    Event::ToolResult { index, id_ref, name, content, skipped: false, ended_at_ms }.into()
}

fn times(started_at_ms: u64, ended_at_ms: u64) -> CallTimes {
    CallTimes { started_at_ms, ended_at_ms }
}

fn finished(finish_reason: FinishReason, times: Option<CallTimes>, usage: Usage) -> Record {
    Record::from(EngineMark::model_finished(finish_reason, usage, None)).with_model_times(times)
}

fn failed(times: Option<CallTimes>) -> Record {
    let (message, code) = (format!("provider quotes {SECRET}"), FailureCode::ProviderError);
    let (usage, model) = (Usage::default(), Some("other".to_owned()));
    EngineMark::ModelFailed { message, code, retryable: true, elsewhere: false, usage, model, times }.into()
}

fn done() -> Record {
    let (message_id, usage) = (JOB.message_id(), Usage::new(30, 6));
    let finish_reason = FinishReason::Stop;
    Event::Done {
        message_id,
        token_count: 6,
        suggested_title: None,
        usage,
        finish_reason,
        stop_sequence: None,
    }
    .into()
}

fn error(code: FailureCode) -> Record {
    Event::Error { content: format!("quotes {SECRET}"), code, retry_after_ms: None }.into()
}

fn agent_log() -> Vec<Record> {
    vec![
        status(StatusPhase::Queued),
        status(StatusPhase::Running),
        call(0, "a"),
        call(1, "b"),
        finished(FinishReason::ToolCalls, Some(times(11_000, 12_000)), Usage::new(10, 2)),
        result(2, "a", Some(14_000)),
        result(3, "b", Some(13_600)),
        text(4),
        finished(FinishReason::Stop, Some(times(14_100, 19_000)), Usage::new(20, 4)),
        done(),
    ]
}

fn shown(spans: &[TraceSpan]) -> Vec<(&str, u64, u64)> {
    spans.iter().map(|span| (span.name.as_str(), span.started_at_ms, span.ended_at_ms)).collect()
}

fn attribute<'a>(span: &'a TraceSpan, name: &str) -> &'a str {
    match span.attributes.get(name) {
        Some(SpanValue::Text(text)) => text,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_job_is_one_trace_of_model_calls_and_tool_calls() {
    let spans = spans(&agent_log());
    let expected = [
        ("invoke_agent nanoclaw", START_MS, END_MS),
        ("chat demo", 11_000, 12_000),
        ("execute_tool bash", 12_500, 14_000),
        ("execute_tool bash", 12_100, 13_600),
        ("chat demo", 14_100, 19_000),
    ];
    assert_eq!(shown(&spans), expected);
    let (root, below) = spans.split_first().expect("a root");
    assert_eq!((root.parent, root.id, root.trace), (None, SpanId::root(JOB), TraceId::of(JOB)));
    assert!(below.iter().all(|span| span.parent == Some(root.id) && span.trace == root.trace));
    assert_eq!(attribute(root, "gen_ai.operation.name"), "invoke_agent");
    assert_eq!(attribute(root, "nanoclaw.job.id"), JOB.to_string());
    assert_eq!(root.attributes.get("gen_ai.usage.input_tokens"), Some(&SpanValue::Number(30)));
    assert_eq!(root.attributes.get("nanoclaw.job.queue_wait_ms"), Some(&SpanValue::Number(1_000)));
    assert_eq!(root.error, None);
    let reasons = SpanValue::Texts(vec!["tool_calls".to_owned()]);
    assert_eq!(below[0].attributes.get("gen_ai.response.finish_reasons"), Some(&reasons));
    assert_eq!(below[0].attributes.get("gen_ai.usage.output_tokens"), Some(&SpanValue::Number(2)));
    assert_eq!((below[0].kind, below[1].kind), (SpanKind::Client, SpanKind::Internal));
    assert_eq!(
        (attribute(&below[1], "gen_ai.tool.call.id"), attribute(&below[1], "gen_ai.tool.type")),
        ("a", "function")
    );
    assert!(spans.iter().all(|span| span.attributes.get("nanoclaw.times.estimated").is_none()));
}

#[test]
fn models_have_the_names_of_their_provider() {
    let identity = ModelIdentity {
        provider: "openai".to_owned(),
        model: "gpt-9".to_owned(),
        server: Some(("api.test".to_owned(), 443)),
    };
    let options = SpanOptions { models: [("demo".to_owned(), identity)].into(), include_content: false };
    let spans = spans_with(&run(|_| ()), &agent_log(), &options);
    assert_eq!(spans[1].name, "chat gpt-9");
    for span in [&spans[0], &spans[1]] {
        assert_eq!(attribute(span, "gen_ai.provider.name"), "openai");
        assert_eq!(attribute(span, "gen_ai.request.model"), "gpt-9");
        assert_eq!(attribute(span, "server.address"), "api.test");
    }
}

#[test]
fn an_answer_has_the_model_that_its_provider_names() {
    let mut log = agent_log();
    let Record::Mark(EngineMark::ModelFinished { response_model, .. }) = &mut log[4] else {
        panic!("the end")
    };
    *response_model = Some("demo-2026".to_owned());
    log.insert(2, failed(Some(times(10_100, 10_900))));
    let spans = spans(&log);
    assert_eq!(spans[1].attributes.get("gen_ai.response.model"), None, "nothing has answered");
    assert_eq!((spans[2].name.as_str(), attribute(&spans[2], "gen_ai.request.model")), ("chat demo", "demo"));
    assert_eq!(attribute(&spans[2], "gen_ai.response.model"), "demo-2026");
    assert_eq!(attribute(&spans[5], "gen_ai.response.model"), "demo", "as asked for");
}

fn agent_call(agent: &str, usage: Usage, times: CallTimes) -> Record {
    let (id_ref, agent) = ("a".to_owned(), agent.to_owned());
    let has_failed = usage.total_tokens == 0;
    let call = AgentModelCall { id_ref, agent, response_model: None, has_failed, times };
    EngineMark::Spent { model: "demo".to_owned(), usage, agent: Some(call) }.into()
}

fn agent_step(agent: &str, act: AgentAction, times: Option<CallTimes>) -> Record {
    let step = AgentStep { id_ref: "a".to_owned(), agent: agent.to_owned(), index: 0, act };
    Event::AgentStep { step, times }.into()
}

/// A call `a` with two agents, one of which calls a tool, while the other one fails.
fn log_with_agents() -> Vec<Record> {
    let name = || "fetch_page".to_owned();
    let asked = AgentAction::ToolCall { name: name(), arguments: format!("{{\"url\":\"{SECRET}\"}}") };
    let content = format!("{{\"success\":false,\"data\":null,\"error\":\"{SECRET} …");
    vec![
        status(StatusPhase::Running),
        call(0, "a"),
        finished(FinishReason::ToolCalls, Some(times(11_000, 12_000)), Usage::new(10, 2)),
        agent_call("x", Usage::new(4, 1), times(12_100, 12_500)),
        agent_step("x", asked, None),
        agent_call("y", Usage::default(), times(12_100, 12_300)),
        agent_step("x", AgentAction::ToolResult { name: name(), content }, Some(times(12_500, 12_800))),
        agent_call("x", Usage::new(5, 1), times(12_800, 13_500)),
        agent_step("x", AgentAction::Text { content: SECRET.to_owned() }, None),
        result(1, "a", Some(13_600)),
        finished(FinishReason::Stop, Some(times(14_100, 19_000)), Usage::new(20, 4)),
        done(),
    ]
}

#[test]
fn sub_agents_are_spans_below_their_tool_call_with_their_own_calls() {
    let spans = spans(&log_with_agents());
    let one = |name: &str| spans.iter().find(|span| span.name == name).expect("a span");
    let (tool, x, y) = (one("execute_tool bash"), one("invoke_agent x"), one("invoke_agent y"));
    assert_eq!((tool.started_at_ms, tool.ended_at_ms, tool.parent), (12_100, 13_600, Some(spans[0].id)));
    assert_eq!((x.started_at_ms, x.ended_at_ms, x.parent), (12_100, 13_500, Some(tool.id)));
    assert_eq!((y.started_at_ms, y.ended_at_ms, y.parent), (12_100, 12_300, Some(tool.id)));
    assert_eq!((x.kind, attribute(x, "gen_ai.operation.name")), (SpanKind::Internal, "invoke_agent"));
    assert_eq!((attribute(x, "gen_ai.agent.name"), attribute(x, "gen_ai.request.model")), ("x", "demo"));
    assert_eq!(x.attributes.get("gen_ai.usage.input_tokens"), Some(&SpanValue::Number(9)));
    assert_eq!((x.error.as_deref(), y.error.as_deref()), (None, Some("")));
    let below_x: Vec<_> = spans.iter().filter(|span| span.parent == Some(x.id)).cloned().collect();
    let expected = [
        ("chat demo", 12_100, 12_500),
        ("execute_tool fetch_page", 12_500, 12_800),
        ("chat demo", 12_800, 13_500),
    ];
    assert_eq!(shown(&below_x), expected);
    assert_eq!(attribute(&below_x[0], "gen_ai.response.model"), "demo");
    assert_eq!((attribute(&below_x[1], "error.type"), below_x[1].error.as_deref()), ("tool_error", Some("")));
    let failed = spans.iter().find(|span| span.parent == Some(y.id)).expect("its call");
    assert_eq!((failed.name.as_str(), attribute(failed, "error.type")), ("chat demo", "_OTHER"));
    let ids: BTreeSet<SpanId> = spans.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), spans.len());
    assert!(!format!("{spans:?}").contains(SECRET), "P9");
}

#[test]
fn agents_of_an_older_log_have_no_spans() {
    let log: Vec<Record> = log_with_agents()
        .into_iter()
        .map(|record| match record {
            Record::Mark(EngineMark::Spent { model, usage, .. }) => EngineMark::spent(model, usage).into(),
            Record::Event(Event::AgentStep { step, .. }) => Event::AgentStep { step, times: None }.into(),
            other => other,
        })
        .collect();
    let names: Vec<_> = spans(&log).into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["invoke_agent nanoclaw", "chat demo", "execute_tool bash", "chat demo"]);
}

#[test]
fn agents_of_a_call_without_a_result_end_with_their_last_call() {
    let mut log = log_with_agents();
    log.truncate(8);
    log.push(error(FailureCode::Cancelled));
    let spans = spans(&log);
    let x = spans.iter().find(|span| span.name == "invoke_agent x").expect("a span");
    assert_eq!((x.started_at_ms, x.ended_at_ms), (12_100, 13_500));
    let tool = spans.iter().find(|span| span.name == "execute_tool bash").expect("a span");
    assert_eq!((x.parent, tool.ended_at_ms), (Some(tool.id), END_MS));
}

#[test]
fn p9_content_is_included_only_if_the_operator_wants_it() {
    let mut log = agent_log();
    log.insert(2, failed(Some(times(10_100, 10_900))));
    log.pop();
    log.push(error(FailureCode::ProviderError));
    let of = |include_content| {
        let options = SpanOptions { include_content, ..SpanOptions::default() };
        spans_with(&run(|run| run.state.status = JobStatus::Failed), &log, &options)
    };
    assert!(!format!("{:?}", of(false)).contains(SECRET));
    let with_content = of(true);
    let root = &with_content[0];
    let input =
        format!("[{{\"role\":\"user\",\"parts\":[{{\"type\":\"text\",\"content\":\"ask {SECRET}\"}}]}}]");
    assert_eq!(attribute(root, "gen_ai.input.messages"), input);
    assert!(attribute(root, "gen_ai.output.messages").contains(&format!("answer {SECRET}")));
    let call = &with_content[2];
    assert!(attribute(call, "gen_ai.output.messages").contains("\"type\":\"tool_call\",\"id\":\"a\""));
    assert_eq!(attribute(&with_content[3], "gen_ai.tool.call.arguments"), format!("{{\"a\":\"{SECRET}\"}}"));
    assert!(attribute(&with_content[3], "gen_ai.tool.call.result").contains(SECRET));
    assert_eq!(with_content[1].error.as_deref(), Some(format!("provider quotes {SECRET}").as_str()));
    let options = SpanOptions { include_content: true, ..SpanOptions::default() };
    let hidden = spans_with(&run(|run| run.hides_input = true), &log, &options);
    assert_eq!(hidden[0].attributes.get("gen_ai.input.messages"), None, "its owner has deleted the question");
}

#[test]
fn p8_content_has_a_limit_for_each_text_and_for_each_job() {
    let huge = "ä".repeat(100_000);
    let mut log = Vec::new();
    for index in 0..200 {
        let call = ToolCall { id_ref: index.to_string(), name: huge.clone(), arguments: huge.clone() };
        log.push(Event::ToolCall { index, call, is_client: false }.into());
    }
    log.push(error(FailureCode::Timeout));
    let options = SpanOptions { include_content: true, ..SpanOptions::default() };
    let spans = spans_with(&run(|run| run.output = huge.clone()), &log, &options);
    assert_eq!(spans.len(), 202, "the root, the model call that was cut off, and the calls of tools");
    let bytes: usize = spans.iter().map(|span| format!("{span:?}").len()).sum();
    assert!(bytes < 2_000_000, "{bytes}");
}

#[test]
fn failed_calls_are_spans_with_an_error() {
    let spans = spans(&[
        status(StatusPhase::Running),
        failed(Some(times(11_000, 11_500))),
        status(StatusPhase::Retrying),
        text(0),
        finished(FinishReason::Stop, Some(times(12_000, 13_000)), Usage::new(1, 1)),
        done(),
    ]);
    assert_eq!(shown(&spans)[1..], [("chat other", 11_000, 11_500), ("chat demo", 12_000, 13_000)]);
    assert_eq!(attribute(&spans[1], "error.type"), "provider_error");
    assert_eq!((spans[1].error.as_deref(), spans[2].error.as_deref()), (Some(""), None));
    assert_eq!(spans[1].attributes.get("gen_ai.usage.input_tokens"), None, "nothing was reported");
}

#[test]
fn a_call_that_a_crash_cut_off_has_the_times_of_its_neighbours() {
    let spans = spans(&[
        status(StatusPhase::Running),
        text(0),
        status(StatusPhase::Running),
        Event::StepDiscarded { index: 0 }.into(),
        text(1),
        finished(FinishReason::Stop, Some(times(15_000, 16_000)), Usage::new(1, 1)),
        done(),
    ]);
    assert_eq!(shown(&spans)[1..], [("chat demo", START_MS, 15_000), ("chat demo", 15_000, 16_000)]);
    assert_eq!(attribute(&spans[1], "error.type"), "interrupted");
    assert_eq!(spans[1].attributes.get("nanoclaw.times.estimated"), Some(&SpanValue::Flag(true)));
}

#[test]
fn a_cancelled_job_ends_its_open_calls() {
    let log = [
        status(StatusPhase::Running),
        call(0, "a"),
        finished(FinishReason::ToolCalls, Some(times(11_000, 12_000)), Usage::new(1, 1)),
        error(FailureCode::Cancelled),
    ];
    let spans =
        spans_with(&run(|run| run.state.status = JobStatus::Cancelled), &log, &SpanOptions::default());
    assert_eq!(shown(&spans)[2..], [("execute_tool bash", 12_000, END_MS)]);
    for span in [&spans[0], &spans[2]] {
        assert_eq!((attribute(span, "error.type"), span.error.as_deref()), ("cancelled", Some("")));
    }
}

#[test]
fn a_log_of_an_early_version_has_estimated_times() {
    let spans = spans(&[
        status(StatusPhase::Running),
        call(0, "a"),
        finished(FinishReason::ToolCalls, None, Usage::new(1, 1)),
        result(1, "a", None),
        finished(FinishReason::Stop, None, Usage::default()),
        done(),
    ]);
    let expected = [("chat demo", START_MS, END_MS), ("execute_tool bash", START_MS, START_MS + 1_500)];
    assert_eq!(shown(&spans)[1..], expected, "the last answer stands for a call: there was none");
    assert!(spans[1..].iter().all(|span| span.attributes.get("nanoclaw.times.estimated").is_some()));
}

#[test]
fn a_job_that_never_ran_is_a_root_alone() {
    let never = run(|run| (run.state.status, run.state.started_at_ms) = (JobStatus::Failed, None));
    let spans = spans_with(&never, &[error(FailureCode::Expired)], &SpanOptions::default());
    assert_eq!(shown(&spans), [("invoke_agent nanoclaw", 9_000, END_MS)]);
    assert_eq!(attribute(&spans[0], "error.type"), "expired");
}

#[test]
fn a_job_of_another_one_links_to_it() {
    let parent = JobId::from_bits(1);
    let child = run(|run| run.spec.origin = JobOrigin::Agent { parent });
    let spans = spans_with(&child, &[done()], &SpanOptions::default());
    assert_eq!(spans[0].link, Some((TraceId::of(parent), SpanId::root(parent))));
}

#[test]
fn p8_spans_beyond_the_limit_are_counted() {
    let calls = (0..2_100).map(|_| failed(Some(times(11_000, 11_500))));
    let spans = spans(&calls.chain([done()]).collect::<Vec<_>>());
    assert_eq!(spans.len(), 2_001);
    assert_eq!(spans[0].attributes.get("nanoclaw.spans.dropped"), Some(&SpanValue::Number(100)));
}

#[test]
fn a_job_joins_the_trace_of_its_client() {
    let parent: TraceParent =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().expect("parses");
    let joined = run(|run| {
        run.spec.trace_parent = Some(parent);
        run.spec.origin = JobOrigin::Agent { parent: JobId::from_bits(1) };
    });
    let spans = spans_with(&joined, &agent_log(), &SpanOptions::default());
    assert!(spans.iter().all(|span| span.trace == parent.trace));
    assert_eq!((spans[0].parent, spans[1].parent), (Some(parent.span), Some(spans[0].id)));
    assert_eq!(spans[0].link, Some((parent.trace, SpanId::root(JobId::from_bits(1)))));
}

fn any_time() -> impl Strategy<Value = Option<CallTimes>> {
    prop::option::of((0_u64..30_000, 0_u64..30_000))
        .prop_map(|found| found.map(|(start, end)| times(start, end)))
}

fn any_record() -> impl Strategy<Value = Record> {
    let id = || prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        prop::sample::select(vec![StatusPhase::Queued, StatusPhase::Running, StatusPhase::Retrying])
            .prop_map(status),
        (0_u32..9).prop_map(text),
        (0_u32..9, id()).prop_map(|(index, id)| call(index, id)),
        (0_u32..9, id(), prop::option::of(0_u64..30_000)).prop_map(|(index, id, at)| result(index, id, at)),
        any_time().prop_map(|at| finished(FinishReason::Stop, at, Usage::new(1, 1))),
        any_time().prop_map(failed),
        (prop::sample::select(vec!["x", "y"]), 0_u64..30_000, 0_u64..30_000, 0_u64..2)
            .prop_map(|(agent, start, end, used)| agent_call(agent, Usage::new(used, 0), times(start, end))),
        any_agent_step(),
        Just(error(FailureCode::Timeout)),
        Just(done()),
    ]
}

fn any_agent_step() -> impl Strategy<Value = Record> {
    let acts = vec![
        AgentAction::ToolCall { name: "t".to_owned(), arguments: String::new() },
        AgentAction::ToolResult { name: "t".to_owned(), content: String::new() },
    ];
    (prop::sample::select(vec!["x", "y"]), prop::sample::select(acts), any_time())
        .prop_map(|(agent, act, at)| agent_step(agent, act, at))
}

proptest! {
    #[test]
    fn any_log_is_a_tree_whose_spans_are_within_their_root(log in prop::collection::vec(any_record(), 0..40)) {
        let found = spans(&log);
        let root = &found[0];
        let ids: BTreeSet<SpanId> = found.iter().map(|span| span.id).collect();
        prop_assert_eq!(ids.len(), found.len(), "ids are unique");
        for span in &found[1..] {
            prop_assert!(span.parent.is_some_and(|parent| parent != span.id && ids.contains(&parent)));
            prop_assert!(root.started_at_ms <= span.started_at_ms && span.started_at_ms <= span.ended_at_ms);
            prop_assert!(span.ended_at_ms <= root.ended_at_ms);
        }
        prop_assert_eq!(&found, &spans(&log), "the same log has the same spans");
    }
}
