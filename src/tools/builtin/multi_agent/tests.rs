//! Agents over a model that follows a script, and the real tools.

use super::*;
use crate::domain::event::{AgentAction, FinishReason};
use crate::domain::job_rights::JobRights;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    CancelReason, CancelToken, Chunk, ChunkSink, Completion, JobBudget, Model, ModelError, ModelInfo,
    ModelParameters, ModelRequest,
};
use crate::tools::ToolOptions;
use crate::tools::testing::filled;
use crate::tools::testing::{context, deps};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// What the model does with one request.
enum ScriptedReply {
    Text(&'static str),
    Call(&'static str, Value),
    Fail(ModelError),
}

type Script = Box<dyn Fn(&ModelRequest, u32) -> ScriptedReply + Send + Sync>;

/// Follows the script, whose second argument counts the calls of all agents from 0.
struct ScriptedModel {
    script: Script,
    calls: AtomicU32,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Model for ScriptedModel {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        let say = (self.script)(request, self.calls.fetch_add(1, Ordering::SeqCst));
        if cancel.is_cancelled() {
            return Err(ModelError::Stopped);
        }
        let mut tool_calls = Vec::new();
        match say {
            ScriptedReply::Text(text) => {
                let _going_on = sink(Chunk::Thinking("hm"));
                let _going_on = sink(Chunk::Text(text));
            }
            ScriptedReply::Call(name, arguments) => tool_calls.push(ToolCall {
                id_ref: "same".into(),
                name: name.into(),
                arguments: arguments.to_string(),
            }),
            ScriptedReply::Fail(error) => return Err(error),
        }
        let _going_on = sink(Chunk::Spent(Usage::new(10, 5)));
        Ok(Completion::new(tool_calls, FinishReason::Stop))
    }

    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }
}

/// Records the reports.
#[derive(Default)]
struct RecordingReporter {
    steps: Mutex<Vec<AgentStep>>,
    spent: Mutex<Vec<(String, Usage)>>,
    calls: Mutex<Vec<AgentModelCall>>,
    times: Mutex<Vec<CallTimes>>,
}

impl ProgressReporter for RecordingReporter {
    fn step(&self, step: AgentStep, times: Option<CallTimes>) {
        assert_eq!(times.is_some(), matches!(step.act, AgentAction::ToolResult { .. }));
        self.steps.lock().unwrap().push(step);
        self.times.lock().unwrap().extend(times);
    }
    fn spent(&self, model: &str, usage: Usage, of_call: Option<AgentModelCall>) {
        self.calls.lock().unwrap().extend(of_call);
        if usage != Usage::default() {
            self.spent.lock().unwrap().push((model.to_owned(), usage));
        }
    }
}

struct AgentFixture {
    tool: Box<dyn Tool>,
    model: Arc<ScriptedModel>,
    reporter: RecordingReporter,
    _toolbox: Arc<dyn Toolbox>,
}

fn fixture(script: impl Fn(&ModelRequest, u32) -> ScriptedReply + Send + Sync + 'static) -> AgentFixture {
    fixture_with(SubAgentOptions::default(), script)
}

fn fixture_with(
    sub_agent: SubAgentOptions,
    script: impl Fn(&ModelRequest, u32) -> ScriptedReply + Send + Sync + 'static,
) -> AgentFixture {
    let model = Arc::new(ScriptedModel {
        script: Box::new(script),
        calls: AtomicU32::new(0),
        requests: Mutex::default(),
    });
    let mut deps = deps();
    deps.agents.model = Arc::<ScriptedModel>::clone(&model);
    deps.options = Arc::new(ToolOptions { sub_agent, ..(*deps.options).clone() });
    let toolbox = filled(&deps);
    AgentFixture { tool: register(&deps), model, reporter: RecordingReporter::default(), _toolbox: toolbox }
}

fn job_context() -> ToolContext {
    let budget = JobBudget::default();
    let terms = ModelParameters { model: "m".into(), temperature: Some(0.5), max_tokens: Some(99), budget };
    ToolContext { terms, id_ref: "call_1".into(), ..context(ToolChoice::All(true)) }
}

impl AgentFixture {
    fn run_in(&self, context: &ToolContext, tasks: Value) -> Result<Value, String> {
        let arguments = Map::from_iter([("tasks".to_owned(), tasks)]);
        self.tool.call_with_progress(&arguments, context, &self.reporter).map_err(|error| error.to_string())
    }

    fn run(&self, tasks: Value) -> Value {
        self.run_in(&job_context(), tasks).expect("agents")
    }

    /// The data of a call in which no agent has answered.
    fn fail_in(&self, context: &ToolContext, tasks: Value) -> Value {
        let arguments = Map::from_iter([("tasks".to_owned(), tasks)]);
        match self.tool.call_with_progress(&arguments, context, &self.reporter) {
            Err(ToolError::Failed { message, data }) if message.starts_with("No agent has answered") => data,
            other => panic!("{other:?}"),
        }
    }

    fn requests(&self) -> Vec<ModelRequest> {
        self.model.requests.lock().unwrap().clone()
    }
}

fn task(name: &str, instruction: &str) -> Value {
    json!({"name": name, "instruction": instruction})
}

/// The task that the request is about.
fn instruction_of(request: &ModelRequest) -> &str {
    match request.messages.get(1) {
        Some(Message::User { content, .. }) => content,
        other => panic!("a user's message comes second: {other:?}"),
    }
}

fn results_of(request: &ModelRequest) -> Vec<&str> {
    let results = request.messages.iter().filter_map(|message| match message {
        Message::Tool { content, .. } => Some(content.as_str()),
        _ => None,
    });
    results.collect()
}

#[test]
fn agents_answer_in_order_with_their_own_names_and_messages() {
    let fixture = fixture(|request, _| {
        ScriptedReply::Text(if instruction_of(request) == "one" { "first" } else { "second" })
    });
    let reported = fixture.run(json!([task("a", "one"), task("a", "two"), task("b", "two")]));
    assert_eq!(reported["total"], 3);
    let names: Vec<&str> =
        reported["results"].as_array().unwrap().iter().map(|r| r["task_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "a (2)", "b"]);
    assert_eq!(
        reported["results"][0],
        json!({"task_name": "a", "success": true, "response": "first", "iterations": 1, "usage": json!(Usage::new(10, 5))})
    );
    assert_eq!(reported["results"][1]["response"], "second");
    for request in fixture.requests() {
        assert!(
            matches!(request.messages.first(), Some(Message::System { .. })) && request.messages.len() == 2
        );
        assert_eq!(
            (request.model.as_str(), request.temperature, request.max_tokens),
            ("m", Some(0.5), Some(99))
        );
    }
    assert_eq!(*fixture.reporter.spent.lock().unwrap(), vec![("m".to_owned(), Usage::new(10, 5)); 3]);
}

#[test]
fn an_agent_calls_tools_and_its_steps_are_reported() {
    let fixture = fixture(|request, _| match results_of(request).last() {
        None => ScriptedReply::Call("calculator", json!({"expression": "6*7"})),
        Some(result) if result.contains("42") => ScriptedReply::Text("it is 42"),
        Some(other) => panic!("{other}"),
    });
    let reported = fixture.run(json!([{"name": "a", "instruction": "x", "tools": ["calculator"]}]));
    assert_eq!(
        (&reported["results"][0]["response"], &reported["results"][0]["iterations"]),
        (&json!("it is 42"), &json!(2))
    );
    assert_eq!(
        fixture.requests()[0].tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(),
        ["calculator"]
    );
    let steps = fixture.reporter.steps.lock().unwrap();
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| match step.act {
            AgentAction::Thinking { .. } => "thinking",
            AgentAction::Text { .. } => "text",
            AgentAction::ToolCall { .. } => "call",
            AgentAction::ToolResult { .. } => "result",
        })
        .collect();
    assert_eq!(kinds, ["call", "result", "thinking", "text"]);
    assert!(
        steps
            .iter()
            .zip(0..)
            .all(|(step, n)| step.index == n && step.id_ref == "call_1" && step.agent == "a")
    );
}

#[test]
fn p8_reported_agent_steps_are_truncated() {
    let long = "x".repeat(10_000);
    let fixture = fixture(move |request, _| match results_of(request).len() {
        0 => ScriptedReply::Call("text_process", json!({"text": long, "operation": "upper"})),
        _ => ScriptedReply::Text("done"),
    });
    fixture.run(json!([task("a", "x")]));
    for step in fixture.reporter.steps.lock().unwrap().iter() {
        if let AgentAction::ToolCall { arguments: text, .. } | AgentAction::ToolResult { content: text, .. } =
            &step.act
        {
            assert_eq!(text.chars().count(), reporter::STEP_CHARS + 1);
        }
    }
}

#[test]
fn an_agent_can_neither_start_agents_nor_submit_jobs() {
    for name in ["multi_agent", "spawn", "cron", "message"] {
        let fixture = fixture(move |request, _| match results_of(request).last() {
            None => {
                ScriptedReply::Call(name, json!({"tasks": [task("z", "y")], "task": "x", "action": "list"}))
            }
            Some(result) => {
                assert!(result.contains("\"success\":false"), "{name}: {result}");
                ScriptedReply::Text("refused")
            }
        });
        let reported = fixture.run(json!([{"name": "a", "instruction": "x", "tools": [name, "calculator"]}]));
        assert_eq!(reported["results"][0]["response"], "refused");
        assert_eq!(fixture.requests().len(), 2, "{name}: no agent of an agent");
        assert!(fixture.requests().iter().all(|request| request.tools.iter().all(|tool| tool.name != name)));
    }
}

#[test]
fn an_agent_has_only_the_tools_of_its_job_and_its_task() {
    let forbidden = fixture(|request, _| match results_of(request).last() {
        None => ScriptedReply::Call("bash", json!({"command": "id"})),
        Some(result) => {
            assert!(result.contains("\"success\":false"), "{result}");
            ScriptedReply::Text("no")
        }
    });
    let context = ToolContext {
        rights: JobRights::new(ToolChoice::Named(vec!["calculator".into()]), 15, 3_600),
        ..job_context()
    };
    for task in [
        json!({"name": "a", "instruction": "x"}),
        json!({"name": "a", "instruction": "x", "tools": ["exec", "calculator"]}),
    ] {
        let reported = forbidden.run_in(&context, json!([task])).unwrap();
        assert_eq!(reported["results"][0]["response"], "no");
    }
    let aliased = fixture(|_, _| ScriptedReply::Text("fine"));
    aliased.run(json!([{"name": "a", "instruction": "x", "tools": ["exec"]}]));
    assert_eq!(aliased.requests()[0].tools[0].name, "bash", "by its other name");
    let unknown = aliased.run_in(
        &job_context(),
        json!([task("b", "y"), {"name": "a", "instruction": "x", "tools": ["calclator"]}]),
    );
    let error = unknown.unwrap_err();
    assert!(error.contains("tasks[1].tools") && error.contains("'calculator'"), "{error}");
    assert_eq!(aliased.requests().len(), 1, "none was started");
}

#[test]
fn an_agent_never_calls_a_tool_whose_calls_its_job_has_to_ask_about() {
    let curious = fixture(|request, _| match results_of(request).last() {
        None => ScriptedReply::Call("exec", json!({"command": "id"})),
        Some(result) => {
            assert!(result.contains("needs approval") && result.contains("call it directly"), "{result}");
            ScriptedReply::Text("no")
        }
    });
    let mut context = job_context();
    context.rights.approval_tools = vec!["bash".into()];
    assert_eq!(curious.run_in(&context, json!([task("a", "x")])).unwrap()["results"][0]["response"], "no");
    let offered = &curious.requests()[0].tools;
    assert!(!offered.is_empty() && offered.iter().all(|tool| tool.name != "bash"));
    let named = json!([{"name": "a", "instruction": "x", "tools": ["exec", "calculator"]}]);
    let refused = curious.run_in(&context, named).unwrap_err();
    assert!(refused.contains("'exec' needs approval") && refused.contains("call it directly"), "{refused}");
}

#[test]
fn p8_agents_share_the_tool_calls_and_the_turns_of_their_job() {
    let fixture = fixture(|_, _| ScriptedReply::Call("calculator", json!({"expression": "1"})));
    let mut context = job_context();
    context.rights.max_tool_calls = Some(9);
    context.rights.max_steps = 2;
    context.terms.budget = JobBudget::new(None, None, Some(3));
    fixture.fail_in(&context, json!([task("a", "x"), task("b", "x")]));
    let requests = fixture.requests();
    let last = requests.iter().filter(|request| !request.may_call);
    let results: Vec<&str> = last.flat_map(results_of).collect();
    let is_beyond = |result: &&&str| result.contains("max_tool_calls");
    assert_eq!((results.len(), results.iter().filter(is_beyond).count()), (4, 1), "{results:?}");
    context.rights.max_steps = 1;
    let reported = fixture.fail_in(&context, json!([task("c", "x")]));
    assert_eq!(reported["results"][0]["iterations"], 2, "a call and the closing one");
}

#[test]
fn an_agent_without_an_answer_fails_after_a_turn_without_tools() {
    let fixture = fixture(|_, _| ScriptedReply::Call("calculator", json!({"expression": "1"})));
    let reported = fixture.fail_in(&job_context(), json!([task("a", "x")]));
    let result = &reported["results"][0];
    assert_eq!((&result["success"], &result["iterations"]), (&json!(false), &json!(3)));
    assert!(result["error"].as_str().unwrap().contains("3 calls") && result.get("response").is_none());
    assert_eq!(
        fixture.requests().iter().map(|request| request.may_call).collect::<Vec<_>>(),
        [true, true, false]
    );
}

#[test]
fn a_model_error_fails_one_agent_and_a_busy_model_is_retried_once() {
    let unavailable = || ModelError::Unavailable { message: "down".into(), retry_after_ms: Some(10) };
    let twice = fixture(move |request, number| match (instruction_of(request), number) {
        ("bad", _) => ScriptedReply::Fail(ModelError::Refused("no such thing".into())),
        ("down", _) => ScriptedReply::Fail(unavailable()),
        _ => ScriptedReply::Text("fine"),
    });
    let reported = twice.run(json!([task("a", "bad"), task("b", "good"), task("c", "down")]));
    assert_eq!(reported["results"][0]["error"], "model 'm': no such thing");
    assert_eq!(reported["results"][1]["response"], "fine");
    assert_eq!(reported["results"][2]["error"], "model 'm': down");
    let of = |what: &str| twice.requests().iter().filter(|request| instruction_of(request) == what).count();
    assert_eq!((of("bad"), of("good"), of("down")), (1, 1, 2));
    let mended = fixture(move |_, number| match number {
        0 => ScriptedReply::Fail(ModelError::Busy { message: "later".into(), retry_after_ms: 1_000 }),
        _ => ScriptedReply::Text("fine"),
    });
    assert_eq!(mended.run(json!([task("a", "x")]))["results"][0]["response"], "fine");
    let long = fixture(|_, _| {
        ScriptedReply::Fail(ModelError::Busy { message: "much later".into(), retry_after_ms: 60_000 })
    });
    assert_eq!(
        long.fail_in(&job_context(), json!([task("a", "x")]))["results"][0]["error"],
        "model 'm': much later"
    );
    assert_eq!(long.requests().len(), 1);
}

#[test]
fn truncated_results_of_an_agent_do_not_mention_read_result() {
    let fixture = fixture(|_, number| match number {
        0 => ScriptedReply::Call("text_process", json!({"operation": "upper", "text": "ab ".repeat(20_000)})),
        _ => ScriptedReply::Text("fine"),
    });
    fixture.run(json!([task("a", "x")]));
    let last = fixture.requests().pop().unwrap().messages.pop();
    let Some(Message::Tool { content, .. }) = last else { panic!("a result: {last:?}") };
    assert!(content.contains("characters cut]") && content.contains("AB "), "{content:.400}");
    assert!(!content.contains("read_result"), "{content}");
}

#[test]
fn p8_agents_stop_at_the_token_limit_of_their_job() {
    let fixture =
        fixture_with(SubAgentOptions { max_concurrency: 1, ..SubAgentOptions::default() }, |_, _| {
            ScriptedReply::Text("fine")
        });
    let terms = ModelParameters { budget: JobBudget::new(Some(20), None, None), ..job_context().terms };
    let context = ToolContext { terms, ..job_context() };
    let reported = fixture.run_in(&context, json!([task("a", "x"), task("b", "x"), task("c", "x")])).unwrap();
    assert_eq!(
        (&reported["results"][0]["success"], &reported["results"][1]["success"]),
        (&json!(true), &json!(true))
    );
    assert!(reported["results"][2]["error"].as_str().unwrap().contains("max_total_tokens"));
    // The calls of a batch have one budget, not each its own.
    assert!(fixture.run_in(&context.clone(), json!([task("d", "x")])).unwrap_err().contains("No agent"));
    assert_eq!(fixture.requests().len(), 2);
}

#[test]
fn agents_run_in_parallel_and_stop_with_their_job() {
    let meeting = Arc::new(Barrier::new(3));
    let together = Arc::clone(&meeting);
    // Ends only if three are there at once.
    let rig_three = fixture(move |_, _| {
        together.wait();
        ScriptedReply::Text("met")
    });
    assert_eq!(
        rig_three.run(json!([task("a", "x"), task("b", "x"), task("c", "x")]))["results"][2]["response"],
        "met"
    );
    let stopped = job_context();
    let stop = stopped.cancel.clone();
    let fixture = fixture(move |_, _| {
        stop.cancel(CancelReason::Cancelled);
        ScriptedReply::Text("too late")
    });
    let reported =
        fixture.fail_in(&stopped, json!([task("a", "x"), task("b", "x"), task("c", "x"), task("d", "x")]));
    for result in reported["results"].as_array().unwrap() {
        assert_eq!(result["error"], "The job was stopped");
    }
}

#[test]
fn the_timeout_grows_per_group_of_agents_and_too_many_are_refused() {
    let fixture = fixture(|_, _| ScriptedReply::Text("x"));
    let time = |count: usize| {
        let Value::Object(arguments) = json!({"tasks": vec![task("a", "x"); count]}) else { panic!() };
        fixture.tool.own_timeout(&arguments).as_secs()
    };
    assert_eq!((time(0), time(1), time(3), time(4), time(5)), (0, 60, 60, 120, 120));
    assert!(fixture.run_in(&job_context(), json!(vec![task("a", "x"); 6])).unwrap_err().contains("1 to 5"));
    assert!(fixture.requests().is_empty());
}
