//! The real tools through the executor: the results that models get.

use super::super::*;
use crate::domain::tool::Strictness;
use crate::tools::testing::{RecordingJournal, call, context_at, one, real, real_at};
use nanoclaw_sandbox::Level;
use serde_json::{Value, json};

#[test]
fn code_runs_at_the_requested_strictness() {
    let result = one("execute_python", r#"{"code": "print(1)", "strictness": "strict"}"#);
    let expected =
        json!({"output": "python print(1)\n", "status": "ok", "strictness": "strict", "duration_ms": 3});
    assert_eq!(result["data"], expected);
    let log = RecordingJournal::default();
    let job = context_at(Some(Strictness::Lenient), ToolChoice::All(true));
    real().run(&[call("a", "execute_javascript", r#"{"code": "1"}"#)], &job, &log);
    assert_eq!(log.result("a")["data"]["strictness"], "lenient");
    assert_eq!(one("execute_python", r#"{"code": "1"}"#)["data"]["strictness"], "standard");
    let bad = one("execute_python", r#"{"code": "1", "strictness": "none"}"#)["error"].clone();
    assert!(bad.as_str().expect("refused").contains("strictness must be one of"), "{bad}");
}

#[test]
fn a_crawl_without_any_page_fails_and_lists_every_error() {
    let reported = one("crawl_batch", r#"{"urls": ["https://a.example/", "https://b.example/"]}"#);
    assert_eq!((&reported["success"], &reported["data"]["total"]), (&json!(false), &json!(2)), "{reported}");
    assert!(
        reported["data"]["results"][1]["error"].as_str().is_some_and(|text| text.contains("no web in tests"))
    );
}

#[test]
fn the_tool_list_shows_python_as_not_idempotent() {
    let infos = real().tool_infos();
    let of = |name: &str| infos.iter().find(|info| info.spec.name == name).expect("there").traits.idempotent;
    assert!(!of("execute_python") && of("execute_javascript"), "in a project, Python may write");
}

#[test]
fn the_strictness_of_server_and_job_bounds_every_call() {
    let levels = |executor: &Executor, strictness| {
        let choice = ToolChoice::Named(vec!["execute_python".into(), "execute_javascript".into()]);
        let offered = executor.offered(&ToolScope { choice: &choice, strictness, has_results: false });
        offered
            .iter()
            .map(|tool| tool.parameters["properties"]["strictness"]["enum"].clone())
            .collect::<Vec<_>>()
    };
    let everywhere = json!(["strict", "standard", "lenient"]);
    assert_eq!(levels(&real(), None), [everywhere.clone(), everywhere]);
    let standard = json!(["strict", "standard"]);
    assert_eq!(levels(&real(), Some(Strictness::Standard)), [standard.clone(), standard.clone()]);
    assert_eq!(levels(&real(), Some(Strictness::Strict)), [Value::Null, Value::Null], "nothing to choose");
    let bounded = || real_at(&[Level::Strict, Level::Standard]);
    assert_eq!(levels(&bounded(), None), [standard.clone(), standard.clone()]);
    assert_eq!(levels(&bounded(), Some(Strictness::Lenient)), [standard.clone(), standard]);
    let call_at = |executor: &Executor, strictness, level: &str| {
        let log = RecordingJournal::default();
        let job = context_at(strictness, ToolChoice::Default);
        let arguments = json!({"code": "1", "strictness": level}).to_string();
        executor.run(&[call("a", "execute_python", &arguments)], &job, &log);
        log.result("a")
    };
    let by_job = call_at(&real(), Some(Strictness::Standard), "lenient")["error"].clone();
    let by_job = by_job.as_str().expect("refused");
    assert!(by_job.contains("'lenient' is refused") && by_job.contains("only the user"), "{by_job}");
    assert!(by_job.contains("strict or standard"), "{by_job}");
    for strictness in [None, Some(Strictness::Lenient)] {
        let by_server = call_at(&bounded(), strictness, "lenient")["error"].clone();
        let by_server = by_server.as_str().expect("refused");
        assert!(by_server.contains("max_strictness_allowed"), "{by_server}");
    }
    assert_eq!(call_at(&real(), Some(Strictness::Standard), "strict")["data"]["strictness"], "strict");
    let log = RecordingJournal::default();
    let job = context_at(Some(Strictness::Lenient), ToolChoice::Default);
    bounded().run(&[call("a", "execute_python", r#"{"code": "1"}"#)], &job, &log);
    assert_eq!(log.result("a")["data"]["strictness"], "standard", "the operator's ceiling came later");
}

#[test]
fn invalid_code_arguments_reach_no_interpreter() {
    for arguments in [
        r#"{"code": "print('\ud800')"}"#,
        r#"{"code": "\udc00"}"#,
        r#"{"code": ["print(1)"]}"#,
        r#"{"code": null}"#,
        "{}",
        "print(1)",
        r#"{"code": "1", "strictness": "shell"}"#,
        r#"{"code": "1", "strictness": ""}"#,
    ] {
        let result = one("execute_python", arguments);
        assert_eq!(result["success"], false, "{arguments}: {result}");
        assert!(result["error"].as_str().is_some_and(|error| error.len() > 10), "{arguments}: {result}");
    }
}

#[test]
fn a_failed_program_is_a_failed_call_with_its_traceback() {
    let failed = one("execute_python", r#"{"code": "raise ValueError('x')"}"#);
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("Traceback\nValueError: x")));
    assert_eq!((&failed["data"]["status"], &failed["data"]["exit_code"]), (&json!("error"), &json!(1)));
    assert!(failed["data"]["output"].is_string() && failed["data"].get("stderr").is_none(), "told once");
}

#[test]
fn bash_accepts_the_alias_exec_and_alias_parameters() {
    let data = json!({"output": "bash ls\n", "status": "ok", "duration_ms": 3, "exit_code": 0});
    for (name, arguments) in [
        ("bash", r#"{"command": "ls", "working_dir": "a", "timeout": "5"}"#),
        ("exec", r#"{"cmd": "ls", "workdir": "a"}"#),
    ] {
        let result = one(name, arguments);
        assert_eq!((&result["success"], &result["data"]), (&json!(true), &data), "{name}");
    }
    let failed = one("exec", r#"{"command": "raise"}"#);
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("Exit code 1")));
    assert_eq!(failed["data"]["exit_code"], 1);
    for (arguments, reported) in [
        (r#"{"command": "ls", "timeout": 0}"#, "timeout must be >= 1"),
        (r#"{"command": "ls", "timeout": 601}"#, "timeout must be <= 600"),
        (r#"{"working_dir": "a"}"#, "missing required command"),
        (r#"{"command": "ls; sudo ls"}"#, "Command blocked, nothing was run: `sudo ls`"),
    ] {
        let error = one("bash", arguments)["error"].clone();
        assert!(error.as_str().expect("refused").contains(reported), "{error}");
    }
    assert!(real().has_tool("exec"));
    assert_eq!(one("Exec", "{}")["error"], "Tool not found: Exec. Did you mean 'bash'?");
}

#[test]
fn text_json_and_weather_tools_return_the_documented_data() {
    for (name, arguments, data) in [
        ("text_process", json!({"text": "héllo w", "operation": "count"}), json!({"count": 7})),
        ("text_process", json!({"text": "a\nb", "operation": "lines"}), json!({"lines": 2})),
        ("text_process", json!({"text": " a  b ", "operation": "words"}), json!({"words": 2})),
        ("text_process", json!({"text": "aß", "operation": "upper"}), json!({"result": "ASS"})),
        ("text_process", json!({"text": "AÉ", "operation": "lower"}), json!({"result": "aé"})),
        ("text_process", json!({"text": "añb", "operation": "reverse"}), json!({"result": "bña"})),
        (
            "json_process",
            json!({"json_string": "{\"a\": 1}", "operation": "parse"}),
            json!({"data": {"a": 1}}),
        ),
        (
            "json_process",
            json!({"json_string": "{\"é\":[1]}", "operation": "format"}),
            json!({"result": "{\n  \"é\": [\n    1\n  ]\n}"}),
        ),
        (
            "json_process",
            json!({"json_string": "{\"b\":1,\"a\":2}", "operation": "keys"}),
            json!({"keys": ["b", "a"]}),
        ),
        ("json_process", json!({"json_string": "[]", "operation": "validate"}), json!({"valid": true})),
    ] {
        assert_eq!(one(name, &arguments.to_string())["data"], data, "{name} {arguments}");
    }
    let invalid = one("json_process", r#"{"json_string": "{bad", "operation": "validate"}"#);
    assert_eq!((&invalid["success"], &invalid["data"]["valid"]), (&json!(true), &json!(false)));
    let unparsed = one("json_process", r#"{"json_string": "{bad", "operation": "parse"}"#);
    assert!(unparsed["error"].as_str().expect("failed").starts_with("JSON parse error: "));
    let keyless = one("json_process", r#"{"json_string": "[1]", "operation": "keys"}"#);
    assert_eq!(keyless["error"], "JSON root element is not an object");
    for (city, temperature) in
        [("北京", 25), ("Shanghai", 28), ("广州", 32), (" shenzhen ", 30), ("Paris", 22)]
    {
        let weather = &one("get_weather", &json!({"city": city}).to_string())["data"];
        assert_eq!(
            (&weather["temperature"], &weather["simulated"]),
            (&json!(temperature), &json!(true)),
            "{city}"
        );
    }
}
