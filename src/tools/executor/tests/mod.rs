//! The executor with the real tools over a fake sandbox, and with tools made to misbehave.

mod toolbox;

use super::*;
use crate::domain::handle::ResultHandle;
use crate::domain::id::JobId;
use crate::domain::tool::{Aliases, Strictness};
use crate::ports::{CancelReason, ToolError};
use crate::tools::testing::{
    Act, RecordingJournal, ScriptedTool, any, bounds, call, context, context_at, one, real, real_at, run,
};
use nanoclaw_sandbox::Level;
use serde_json::{Value, json};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn tools_are_offered_in_stable_order_and_refuse_unknown_parameters() {
    let names: Vec<_> = real().tool_infos().iter().map(|info| info.spec.name.clone()).collect();
    let expected = [
        "bash",
        "calculator",
        "crawl_batch",
        "cron",
        "execute_javascript",
        "execute_python",
        "fetch_page",
        "file_delete",
        "file_edit",
        "file_exists",
        "file_list",
        "file_mkdir",
        "file_read",
        "file_search",
        "file_write",
        "get_weather",
        "json_process",
        "message",
        "multi_agent",
        "read_result",
        "spawn",
        "text_process",
        "web_search",
    ];
    assert_eq!(names, expected);
    for spec in real().tool_infos().into_iter().map(|info| info.spec) {
        assert_eq!(spec.parameters["additionalProperties"], false, "{}", spec.name);
        if spec.name == "message" {
            continue;
        }
        assert!(
            one(&spec.name, r#"{"zzz": 1}"#)["error"]
                .as_str()
                .expect("refused")
                .contains("unexpected parameter zzz")
        );
    }
    let choice = ToolChoice::Named(vec!["get_weather".into(), "calculator".into(), "nope".into()]);
    let some: Vec<_> = real()
        .offered(&ToolScope { choice: &choice, strictness: None, has_results: true })
        .iter()
        .map(|spec| spec.name.clone())
        .collect();
    assert_eq!(some, ["calculator", "get_weather", "read_result"], "what reads results goes along");
    assert_eq!(
        real().offered(&ToolScope { choice: &choice, strictness: None, has_results: false }).len(),
        2,
        "once there are any"
    );
    let by_name = ToolChoice::Named(vec!["read_result".into()]);
    assert_eq!(
        real().offered(&ToolScope { choice: &by_name, strictness: None, has_results: false }).len(),
        1,
        "or where it is asked for by name"
    );
    for none in [ToolChoice::All(false), ToolChoice::Named(Vec::new())] {
        assert!(real().offered(&ToolScope { choice: &none, strictness: None, has_results: true }).is_empty());
    }
}

#[test]
fn a_result_has_success_data_error_and_execution_time() {
    let result = one("calculator", r#"{"expression": "17*23"}"#);
    assert_eq!(
        (&result["success"], &result["data"]["result"], &result["error"]),
        (&json!(true), &json!(391), &Value::Null)
    );
    assert!(result["execution_time"].is_f64());
    let failed = one("calculator", r#"{"expression": "1/0"}"#);
    assert_eq!((&failed["success"], &failed["data"]), (&json!(false), &Value::Null));
    assert_eq!(failed["error"], "Calculation error: division by zero");
}

#[test]
fn an_unknown_tool_is_refused_with_the_nearest_name() {
    assert_eq!(one("Calculater", "{}")["error"], "Tool not found: Calculater. Did you mean 'calculator'?");
    assert_eq!(
        one("ExecutePython", "{}")["error"],
        "Tool not found: ExecutePython. Did you mean 'execute_python'?"
    );
    let far = one("format_disk", "{}");
    assert!(
        far["error"]
            .as_str()
            .expect("refused")
            .starts_with("Tool not found: format_disk. Available: bash, calculator, ")
    );
    assert_eq!(
        one("nope", "{bad")["error"].as_str().expect("refused").split(':').next(),
        Some("Invalid JSON arguments")
    );
}

#[test]
fn a_tool_that_the_job_does_not_offer_is_refused_at_execution() {
    let log = RecordingJournal::default();
    let allowed = ToolChoice::Named(vec!["get_weather".into()]);
    let calls = [call("a", "calculator", r#"{"expression":"1"}"#), call("b", "Calculator", "{}")];
    real().run(&calls, &context(allowed), &log);
    assert_eq!(
        log.result("a")["error"],
        "Tool not allowed in this job: calculator. Available: get_weather, read_result"
    );
    assert_eq!(log.result("b")["error"], "Tool not found: Calculator. Available: get_weather, read_result");
}

#[test]
fn arguments_are_validated_and_coerced() {
    let missing = one("calculator", "{}")["error"].clone();
    let expected = "Invalid parameters for tool 'calculator': missing required expression. A valid call of calculator: \
                    {\"expression\":\"<expression>\"}";
    assert_eq!(missing, expected);
    let scalar = one("calculator", "[1]")["error"].clone();
    assert!(
        scalar.as_str().expect("refused").contains("parameters must be a JSON object, not a list"),
        "{scalar}"
    );
    let wrapped = one("calculator", r#"{"arguments": "{\"expression\": \"1+1\"}"}"#);
    assert_eq!(wrapped["data"]["result"], 2);
    let operation = one("text_process", r#"{"text": "x", "operation": "shout"}"#)["error"].clone();
    assert!(
        operation.as_str().expect("refused").contains("operation must be one of [\"count\""),
        "{operation}"
    );
}

#[test]
fn the_same_call_twice_in_a_batch_runs_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (pure, write) = (Arc::clone(&runs), Arc::clone(&runs));
    let count = |runs: &AtomicUsize| Ok(json!(runs.fetch_add(1, Ordering::SeqCst)));
    let tools = vec![any("pure", true, move |_| count(&pure)), any("write", false, move |_| count(&write))];
    let executor = Executor::new(tools, Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools");
    let log = run(
        &executor,
        &[call("a", "pure", r#"{"n":1}"#), call("b", "pure", r#"{"n": "1"}"#), call("c", "pure", "{}")],
    );
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(log.result("b")["data"], log.result("a")["data"]);
    assert_eq!((log.result("b")["duplicate"].clone(), log.skipped("b")), (json!(true), true));
    assert!(log.result("a").get("duplicate").is_none() && !log.skipped("a"));
    run(&executor, &[call("a", "write", "{}"), call("b", "write", "{}")]);
    assert_eq!(runs.load(Ordering::SeqCst), 4, "what writes is never deduplicated");
}

#[test]
fn a_truncated_result_is_stored_once_if_the_job_can_read_it() {
    let wordy = || any("long", true, |_| Ok(json!("x".repeat(50_000))));
    let reader = || any("look", true, |_| Ok(json!("y".repeat(50_000))));
    let executor = Executor::new(vec![wordy(), reader()], Vec::new(), ExecutorOptions::new(bounds()))
        .expect("valid tools");
    let calls = [call("a", "long", "{}"), call("b", "long", "{}"), call("c", "look", "{}")];
    let log = run(&executor, &calls);
    let wholes = log.wholes.lock().expect("unpoisoned").clone();
    let handle = ResultHandle::of(JobId::from_bits(1), "a");
    assert_eq!(wholes, [crate::ports::FullResult { handle: handle.clone(), content: "x".repeat(50_000) }]);
    for id in ["a", "b"] {
        let reported = log.result(id)["data"].to_string();
        assert!(
            reported.contains(&format!("look {{\\\"handle\\\":\\\"{handle}\\\"")),
            "{id}: {}",
            &reported[7_800..8_400]
        );
    }
    assert!(log.result("c")["data"].to_string().contains("characters cut]"), "it has no way to itself");
    let alone = run(
        &Executor::new(vec![wordy()], Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools"),
        &calls[..1],
    );
    assert!(alone.wholes.lock().expect("unpoisoned").is_empty(), "nobody could read it");
    let forgetful = RecordingJournal { forgets: true, ..RecordingJournal::default() };
    executor.run(&calls, &context(ToolChoice::All(true)), &forgetful);
    assert!(forgetful.result("a")["data"].to_string().contains("characters cut]"), "nobody keeps it");
    assert!(forgetful.wholes.lock().expect("unpoisoned").is_empty());
}

#[test]
fn calls_run_in_parallel_up_to_the_limit() {
    let meeting = Arc::new(Barrier::new(4));
    let tool = any("meet", true, move |_| {
        meeting.wait();
        Ok(Value::Null)
    });
    let executor =
        Executor::new(vec![tool], Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools");
    let calls: Vec<_> = (0..4).map(|n| call(&n.to_string(), "meet", &format!("{{\"n\":{n}}}"))).collect();
    let log = run(&executor, &calls);
    assert_eq!(log.finished.lock().expect("unpoisoned").len(), 4);
}

#[test]
fn a_panic_fails_only_its_own_call() {
    let tools = vec![any("bad", true, |_| panic!("secret detail")), any("good", true, |_| Ok(json!(1)))];
    let executor = Executor::new(tools, Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools");
    let log =
        run(&executor, &[call("a", "bad", "{}"), call("b", "good", "{}"), call("c", "bad", r#"{"n":1}"#)]);
    assert_eq!(log.result("b")["data"], 1);
    for id in ["a", "c"] {
        let reported = log.result(id)["error"].as_str().expect("failed").to_owned();
        assert!(reported.starts_with("the tool 'bad' crashed") && !reported.contains("secret"), "{reported}");
    }
}

#[test]
fn p3_a_non_idempotent_call_starts_only_after_the_journal_records_it() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = any("write", false, move |_| Ok(json!(counted.fetch_add(1, Ordering::SeqCst))));
    let executor =
        Executor::new(vec![tool], Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools");
    let log = run(&executor, &[call("a", "write", "{}")]);
    assert_eq!(*log.started.lock().expect("unpoisoned"), ["a"]);
    let refusing = RecordingJournal { refuses: true, ..RecordingJournal::default() };
    executor.run(&[call("b", "write", "{}")], &context(ToolChoice::All(true)), &refusing);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(refusing.skipped("b"));
}

#[test]
fn a_cancelled_token_cancels_calls_that_have_not_started() {
    let tool = any("pull", true, |context| {
        context.cancel.cancel(CancelReason::Cancelled);
        Err(ToolError::Failed { message: "cut off".into(), data: Value::Null })
    });
    let executor =
        Executor::new(vec![tool], Vec::new(), ExecutorOptions::new(BatchLimits { workers: 1, ..bounds() }))
            .expect("valid tools");
    let log = run(&executor, &[call("a", "pull", r#"{"n":1}"#), call("b", "pull", r#"{"n":2}"#)]);
    assert_eq!(log.result("a")["error"], "cut off");
    assert!(
        log.result("b")["error"].as_str().expect("cancelled").starts_with("(cancelled)") && log.skipped("b")
    );
}

#[test]
fn each_call_has_the_tool_timeout_as_its_deadline() {
    let tool = any("late", true, |context| Ok(json!(context.cancel.remaining().as_secs())));
    let executor =
        Executor::new(vec![tool], Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools");
    assert_eq!(run(&executor, &[call("a", "late", "{}")]).result("a")["data"], 59);
    let log = run(&executor, &[call("a", "late", r#"{"n": 100}"#)]);
    assert_eq!(log.result("a")["data"], 159, "its own time comes on top");
}

#[test]
fn a_tool_accepts_its_aliases_and_is_offered_by_its_name_only() {
    let aliases = Aliases { names: &["perform", "do_it"], foreign: &[], parameters: &[("number", "n")] };
    let act: Act = Arc::new(|_| Ok(json!("done")));
    let tool = || Box::new(ScriptedTool { name: "act", aliases, idempotent: false, act: Arc::clone(&act) });
    let executor = Executor::new(
        vec![tool(), any("other", true, |_| Ok(Value::Null))],
        Vec::new(),
        ExecutorOptions::new(bounds()),
    )
    .expect("valid tools");
    assert!(executor.has_tool("act") && executor.has_tool("perform") && !executor.has_tool("nope"));
    assert_eq!(
        *run(&executor, &[call("a", "perform", "{}")]).started.lock().expect("unpoisoned"),
        ["a"],
        "P3 holds by any name"
    );
    let named = |name: &str| ToolChoice::Named(vec![name.to_owned()]);
    let offered: Vec<_> = executor
        .offered(&ToolScope { choice: &named("do_it"), strictness: None, has_results: false })
        .iter()
        .map(|spec| spec.name.clone())
        .collect();
    assert_eq!(offered, ["act"]);
    let reported = |choice: ToolChoice, name: &str, arguments: &str| {
        let log = RecordingJournal::default();
        executor.run(&[call("a", name, arguments)], &context(choice), &log);
        log.result("a")
    };
    for (choice, name) in [("act", "perform"), ("perform", "act"), ("do_it", "perform")] {
        assert_eq!(reported(named(choice), name, r#"{"number": 5}"#)["data"], "done", "{choice} {name}");
    }
    assert_eq!(
        reported(named("other"), "perform", "{}")["error"],
        "Tool not allowed in this job: perform. Available: other"
    );
    assert_eq!(
        reported(ToolChoice::All(true), "Perform", "{}")["error"],
        "Tool not found: Perform. Did you mean 'act'?"
    );
    assert_eq!(
        reported(named("other"), "Perform", "{}")["error"],
        "Tool not found: Perform. Available: other"
    );
    let both = reported(ToolChoice::All(true), "act", r#"{"number": 5, "n": 6}"#)["error"].clone();
    assert_eq!(both, "Invalid parameters for tool 'act': unexpected parameter number");
    let taken = Executor::new(
        vec![tool(), any("perform", true, |_| Ok(Value::Null))],
        Vec::new(),
        ExecutorOptions::new(bounds()),
    );
    assert_eq!(taken.err(), Some(ToolSetError::Duplicate("perform".into())));
}

#[test]
fn duplicate_tool_names_are_refused_at_start() {
    let twice = Executor::new(
        vec![any("x", true, |_| Ok(Value::Null)), any("x", true, |_| Ok(Value::Null))],
        Vec::new(),
        ExecutorOptions::new(bounds()),
    );
    assert_eq!(twice.err(), Some(ToolSetError::Duplicate("x".into())));
}

fn offered(choice: &ToolChoice, strictness: Option<Strictness>) -> Vec<String> {
    let scope = ToolScope { choice, strictness, has_results: false };
    real().offered(&scope).iter().map(|tool| tool.name.to_string()).collect()
}

fn named(names: &[&str]) -> ToolChoice {
    ToolChoice::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_job_is_offered_the_default_set_unless_it_names_tools_or_groups() {
    let default = [
        "bash",
        "calculator",
        "cron",
        "execute_python",
        "fetch_page",
        "file_edit",
        "file_list",
        "file_read",
        "file_search",
        "file_write",
        "multi_agent",
        "spawn",
        "web_search",
    ];
    assert_eq!(offered(&ToolChoice::Default, None), default);
    assert_eq!(offered(&named(&["default"]), None), default);
    let all = offered(&ToolChoice::All(true), None);
    assert_eq!(all, offered(&named(&["all"]), None));
    for absent in ["get_weather", "message", "read_result"] {
        assert!(!all.contains(&absent.to_owned()), "{absent} cannot work, or is simulated");
    }
    assert_eq!(all.len(), 20);
    assert_eq!(
        offered(&named(&["web", "calculator"]), None),
        ["calculator", "crawl_batch", "fetch_page", "web_search"]
    );
    assert_eq!(offered(&named(&["code"]), None), ["bash", "execute_javascript", "execute_python"]);
    assert_eq!(offered(&named(&["agents"]), None), ["cron", "multi_agent", "spawn"]);
    assert_eq!(offered(&named(&["files"]), None).len(), 8);
    assert_eq!(offered(&named(&["get_weather"]), None), ["get_weather"]);
    assert!(offered(&named(&["mcp", "custom"]), None).is_empty());
    let weather = one("get_weather", r#"{"city": "Paris"}"#);
    assert_eq!(weather["success"], true, "a call by name still works");
}

#[test]
fn the_configured_default_set_replaces_the_built_in_one_per_model() {
    let mut options = ExecutorOptions::new(bounds());
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    options.default_tools = DefaultTools {
        every_model: Some(list(&["pure"])),
        per_model: [("small".to_owned(), list(&["other"]))].into(),
    };
    let tools = vec![any("pure", true, |_| Ok(Value::Null)), any("other", true, |_| Ok(Value::Null))];
    let executor = Executor::new(tools, Vec::new(), options).expect("valid tools");
    assert_eq!(executor.resolve(&ToolChoice::Default, "big"), named(&["pure"]));
    assert_eq!(executor.resolve(&ToolChoice::Default, "small"), named(&["other"]));
    assert_eq!(executor.resolve(&named(&["default", "x"]), "big"), named(&["pure", "x"]));
    assert_eq!(executor.resolve(&ToolChoice::All(true), "big"), ToolChoice::All(true));
    let log = RecordingJournal::default();
    executor.run(&[call("a", "other", "{}")], &context(executor.resolve(&ToolChoice::Default, "big")), &log);
    assert_eq!(log.result("a")["error"], "Tool not allowed in this job: other. Available: pure");
}

#[test]
fn names_of_other_systems_stand_for_the_built_in_tools() {
    let written = one("calculate", r#"{"expr": "6*7"}"#);
    assert_eq!(written["data"]["result"], 42);
    for (name, arguments) in [
        ("shell", r#"{"command": "ls"}"#),
        ("run_command", r#"{"cmd": "ls", "cwd": "a"}"#),
        ("Bash", r#"{"command": "ls"}"#),
        ("python", r#"{"code": "1"}"#),
    ] {
        assert_eq!(one(name, arguments)["success"], true, "{name}");
    }
    for (name, tool) in [
        ("web_fetch", "fetch_page"),
        ("read_file", "file_read"),
        ("write_file", "file_write"),
        ("edit_file", "file_edit"),
        ("list_dir", "file_list"),
        ("search_web", "web_search"),
    ] {
        let missing = one(name, r#"{"zzz": 1}"#)["error"].as_str().expect("refused").to_owned();
        assert!(missing.contains("unexpected parameter zzz"), "{name} is {tool}: {missing}");
        assert!(!real().has_tool(name), "a job lists tools by their own names");
    }
    let log = RecordingJournal::default();
    let calls = [call("a", "read_file", r#"{"path": "x"}"#)];
    real().run(&calls, &context(named(&["calculator"])), &log);
    let refused = log.result("a")["error"].as_str().expect("refused").to_owned();
    assert!(refused.starts_with("Tool not allowed in this job: read_file"), "{refused}");
    let custom = Executor::new(
        vec![any("grep", true, |_| Ok(json!("own")))],
        Vec::new(),
        ExecutorOptions::new(bounds()),
    );
    assert_eq!(run(&custom.expect("valid tools"), &[call("a", "grep", "{}")]).result("a")["data"], "own");
}

#[test]
fn a_strict_job_gets_no_shell_and_a_tool_without_its_channel_is_refused() {
    let tools = offered(&ToolChoice::Default, Some(Strictness::Strict));
    assert!(!tools.contains(&"bash".to_owned()) && tools.contains(&"execute_python".to_owned()));
    let call_in = |strictness, name: &str, arguments: &str| {
        let log = RecordingJournal::default();
        let job = context_at(strictness, ToolChoice::Default);
        real().run(&[call("a", name, arguments)], &job, &log);
        log.result("a")["error"].as_str().unwrap_or_default().to_owned()
    };
    let refused = call_in(Some(Strictness::Strict), "bash", r#"{"command": "ls"}"#);
    assert!(refused.contains("strictness is 'strict'") && refused.contains("the user sets it"), "{refused}");
    assert_eq!(call_in(Some(Strictness::Standard), "bash", r#"{"command": "ls"}"#), "");
    let no_channel = call_in(None, "message", r#"{"channel": "x", "content": "hi"}"#);
    assert!(no_channel.contains("No channel is configured"), "{no_channel}");
    assert!(real().never_works("message").is_some() && real().never_works("bash").is_none());
    assert!(real_at(&[Level::Strict, Level::Standard]).never_works("bash").is_some());
    let scope =
        ToolScope { choice: &ToolChoice::Default, strictness: Some(Strictness::Strict), has_results: false };
    assert!(real().is_refused("exec", &scope) && !real().is_refused("nope", &scope));
}
