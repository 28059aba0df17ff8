//! What models are offered and told: default sets and groups of tools, strictness as a ceiling, the preamble,
//! the tokens of the definitions.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, command};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Bytes of a token in definitions of tools, thousandths. Qwen's tokenizer measured 3,740 for the text that
/// the template of Qwen 2.5 makes.
const TOKEN_BYTES_MIN: usize = 3_600;

/// The names of the tools that a request offers.
fn offered(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Submits a job, waits for its end, and returns the first request to the model.
fn first_request(server: &Server, upstream: &Upstream, job: &Value) -> Value {
    let before = upstream.requests().len();
    let ended = server.wait(&server.submit(job));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    upstream.requests()[before].clone()
}

/// The results of one batch of calls in a job with these fields.
fn results(config: &str, job: &Value, calls: Vec<(&'static str, Value)>) -> (Vec<Value>, Vec<Value>) {
    let upstream = Upstream::start(move |request, _| {
        if tool_results(request).is_empty() { Answer::calls(&calls) } else { Answer::text("done") }
    });
    let server = Server::start_against(&upstream, config);
    let ended = server.wait(&server.submit(job));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let requests = upstream.requests();
    // Background jobs of the job ask the same model.
    let last = requests.iter().find(|request| {
        !tool_results(request).is_empty() && !request["messages"].to_string().contains("[Background task")
    });
    let last = last.expect("a request");
    let result =
        |message: &Value| serde_json::from_str(message["content"].as_str().expect("a text")).expect("JSON");
    (tool_results(last).iter().map(result).collect(), requests)
}

fn error(result: &Value) -> &str {
    result["error"].as_str().unwrap_or_else(|| panic!("no error: {result}"))
}

#[test]
fn a_job_without_tools_is_offered_the_default_set_and_groups_can_be_named() {
    let upstream = Upstream::start(|_, _| Answer::text("hi"));
    let server = Server::start_against(&upstream, "");
    let offers = |job: Value| offered(&first_request(&server, &upstream, &job));
    let default = offers(json!({"input": "x"}));
    for name in ["bash", "execute_python", "file_edit", "web_search", "cron"] {
        assert!(default.contains(&name.to_owned()), "{name}: {default:?}");
    }
    for name in ["get_weather", "message", "read_result"] {
        assert!(!default.contains(&name.to_owned()), "{name}: {default:?}");
    }
    let all = offers(json!({"input": "x", "tools": true}));
    assert!(all.len() > default.len() && !all.contains(&"get_weather".to_owned()), "{all:?}");
    assert_eq!(offers(json!({"input": "x", "tools": ["web"]})), ["crawl_batch", "fetch_page", "web_search"]);
    assert_eq!(offers(json!({"input": "x", "tools": ["get_weather"]})), ["get_weather"]);
    assert_eq!(offers(json!({"input": "x", "tools": false})), Vec::<String>::new());
    for (name, says) in [("webb", "did you mean 'web'"), ("message", "No channel is configured")] {
        let reply = server.post("/v1/jobs", &json!({"input": "x", "tools": [name]}));
        assert_eq!(
            (reply.status, &reply.json()["error"]["param"]),
            (400, &json!("tools[0]")),
            "{}",
            reply.body
        );
        assert!(reply.body.contains(says), "{}", reply.body);
    }
    let list = server.get("/v1/tools").json();
    let tool = |name: &str| {
        list["data"]
            .as_array()
            .and_then(|all| all.iter().find(|tool| tool["name"] == name))
            .expect("a tool")
            .clone()
    };
    assert_eq!((&tool("bash")["group"], &tool("bash")["is_default"]), (&json!("code"), &json!(true)));
    assert!(tool("message")["unavailable"].as_str().is_some_and(|reason| reason.contains("channels")));
    let asked = command(&["ask", "hello", "--tools", "files,calculator", "--server", &server.url]).output();
    let asked = asked.expect("ask");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let newest = offered(upstream.requests().last().expect("a request"));
    assert!(
        newest.contains(&"file_mkdir".to_owned()) && newest.contains(&"calculator".to_owned()),
        "{newest:?}"
    );
    assert!(!newest.contains(&"bash".to_owned()), "{newest:?}");
}

#[test]
fn the_configuration_sets_the_default_tools_of_all_models_and_of_one() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            Answer::calls(&[("bash", json!({"command": "true"}))])
        } else {
            Answer::text("done")
        }
    });
    let models = format!(
        "default_model: a\nmodels: [{{id: a, api_url: \"{0}/v1\"}}, {{id: b, api_url: \"{0}/v1\"}}]\n",
        upstream.url
    );
    let tools = "tools: {default: [calculator, web], per_model: {b: [files]}, commands: [{name: own, description: d, command: ls}]}";
    let server = Server::start_with(&format!("{models}{tools}"));
    let first = first_request(&server, &upstream, &json!({"input": "x"}));
    assert_eq!(offered(&first), ["calculator", "crawl_batch", "fetch_page", "web_search"]);
    let refused = tool_results(upstream.requests().last().expect("a request"))[0]["content"].clone();
    assert!(
        refused.as_str().is_some_and(|text| text.contains("Tool not allowed in this job: bash")),
        "{refused}"
    );
    let other = first_request(&server, &upstream, &json!({"input": "x", "model": "b"}));
    assert!(offered(&other).iter().all(|name| name.starts_with("file_")), "{:?}", offered(&other));
    let named = first_request(&server, &upstream, &json!({"input": "x", "tools": ["default", "own"]}));
    assert_eq!(offered(&named).last().map(String::as_str), Some("own"));
}

#[test]
fn the_strictness_of_a_job_bounds_its_calls_and_its_children() {
    let calls = vec![
        ("execute_python", json!({"code": "print(1)", "strictness": "lenient"})),
        ("execute_python", json!({"code": "print(2)"})),
        ("spawn", json!({"task": "work", "label": "child"})),
        ("cron", json!({"action": "add", "message": "later", "every_s": 86_400})),
    ];
    let (told, requests) = results("", &json!({"input": "x", "strictness": "standard"}), calls);
    assert!(
        error(&told[0]).contains("'lenient' is refused") && error(&told[0]).contains("user"),
        "{}",
        told[0]
    );
    assert_eq!(
        (&told[1]["data"]["output"], &told[1]["data"]["strictness"]),
        (&json!("2\n"), &json!("standard"))
    );
    assert!(told[2]["success"] == true && told[3]["success"] == true, "{told:?}");
    assert!(offered(&requests[0]).contains(&"bash".to_owned()), "standard has the shell");
    let calls = vec![
        ("bash", json!({"command": "true"})),
        ("execute_python", json!({"code": "import json", "strictness": "strict"})),
        ("execute_python", json!({"code": "import os"})),
    ];
    let (told, requests) = results("", &json!({"input": "x", "strictness": "strict"}), calls);
    assert!(!offered(&requests[0]).contains(&"bash".to_owned()));
    assert!(error(&told[0]).contains("strictness is 'strict'"), "{}", told[0]);
    for result in &told[1..] {
        assert!(error(result).contains("this job may use strict at most"), "{result}");
    }
}

#[test]
fn a_child_of_a_bounded_job_has_the_same_bound() {
    let upstream = Upstream::start(|request, _| {
        let messages = request["messages"].to_string();
        match (tool_results(request).is_empty(), messages.contains("Background task")) {
            (true, true) => {
                Answer::calls(&[("execute_python", json!({"code": "1", "strictness": "standard"}))])
            }
            (true, false) => Answer::calls(&[("spawn", json!({"task": "work"}))]),
            (false, _) => Answer::text("done"),
        }
    });
    let server = Server::start_against(&upstream, "");
    server.wait(&server.submit(&json!({"input": "x", "strictness": "strict"})));
    let deadline = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        let results: Vec<String> =
            upstream.requests().iter().flat_map(tool_results).map(|m| m.to_string()).collect();
        if let Some(refused) = results.into_iter().find(|text| text.contains("is refused")) {
            break refused;
        }
        assert!(Instant::now() < deadline, "the child's call is not refused");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(refused.contains("the strictness of this job is 'strict'"), "{refused}");
}

#[test]
fn a_level_that_the_operator_forbids_is_refused_when_the_job_is_accepted() {
    let upstream = Upstream::start(|_, _| Answer::text("hi"));
    let server = Server::start_against(&upstream, "code_execution: {max_strictness_allowed: standard}");
    let refused = server.post("/v1/jobs", &json!({"input": "x", "strictness": "lenient"}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("strictness")));
    assert!(refused.body.contains("strict or standard") && refused.body.contains("max_strictness_allowed"));
    let scheduled = json!({"every_s": 60, "job": {"input": "x", "strictness": "lenient"}});
    assert_eq!(server.post("/v1/schedules", &scheduled).status, 400);
    let bash = server.post("/v1/jobs", &json!({"input": "x", "tools": ["bash"]}));
    assert!(bash.status == 400 && bash.body.contains("commands count as lenient"), "{}", bash.body);
    let request = first_request(&server, &upstream, &json!({"input": "x", "strictness": "standard"}));
    assert!(!offered(&request).contains(&"bash".to_owned()));
}

#[test]
fn models_are_told_the_day_and_the_directory_unless_the_preamble_is_off() {
    let upstream = Upstream::start(|_, _| Answer::text("hi"));
    let server = Server::start_against(&upstream, "preamble: {time_zone: Pacific/Auckland}");
    let job = json!({"input": "x", "system_prompt": "Be brief."});
    let request = first_request(&server, &upstream, &job);
    let system = request["messages"][0]["content"].as_str().expect("a text").to_owned();
    let today = date_in("Pacific/Auckland");
    assert!(system.contains(&today) && system.contains("(time zone Pacific/Auckland)"), "{system}");
    assert!(system.contains("no project") && system.ends_with("\n\nBe brief."), "{system}");
    let server = Server::start_against(&upstream, "preamble: {enabled: false}");
    let request = first_request(&server, &upstream, &job);
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "Be brief."}));
}

/// The date in this zone, by the system's own `date`.
fn date_in(zone: &str) -> String {
    let date = std::process::Command::new("date").arg("+%Y-%m-%d").env("TZ", zone).output().expect("date");
    String::from_utf8_lossy(&date.stdout).trim().to_owned()
}

#[test]
fn calls_in_the_words_of_other_systems_reach_the_built_in_tools() {
    let calls = vec![
        ("calculate", json!({"expr": "6*7"})),
        ("python", json!({"code": "print(6 * 7)"})),
        ("text_process", json!({"text": 5, "operation": "count"})),
        ("write_file", json!({"file_path": "a.txt"})),
    ];
    let (told, _) = results("", &json!({"input": "x"}), calls);
    assert_eq!(told[0]["data"]["result"], 42);
    assert_eq!(told[1]["data"]["output"], "42\n");
    assert_eq!(told[2]["data"]["count"], 1, "a number stands for its text");
    let missing = error(&told[3]);
    assert!(missing.contains("missing required content"), "{missing}");
    let example = missing.split("A valid call of file_write: ").nth(1).expect("an example");
    let example: Value = serde_json::from_str(example).expect("JSON");
    assert_eq!(example, json!({"path": "a.txt", "content": "<content>"}));
}

#[test]
fn a_missing_extra_module_leaves_python_on_and_is_reported() {
    let config = "code_execution: {extra_allowed_modules: {standard: [no_such_module, io]}}";
    let calls = vec![
        ("execute_python", json!({"code": "import io\nprint(io.StringIO('x').read())"})),
        ("execute_python", json!({"code": "import no_such_module"})),
    ];
    let (told, _) = results(config, &json!({"input": "x"}), calls);
    assert_eq!(told[0]["data"]["output"], "x\n", "{}", told[0]);
    assert!(
        error(&told[1]).contains("cannot import it") && error(&told[1]).contains("operator"),
        "{}",
        told[1]
    );
    let server = Server::start_with(config);
    let deadline = Instant::now() + Duration::from_secs(60);
    let ready = loop {
        let ready = server.get("/readyz");
        if ready.json()["status"] == "degraded" {
            break ready;
        }
        assert!(Instant::now() < deadline, "{}", ready.body);
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(ready.status == 200 && ready.body.contains("no_such_module"), "{}", ready.body);
    assert!(server.log().contains("no_such_module"), "{}", server.log());
}

#[test]
fn readiness_never_calls_python_ok_where_it_is_off() {
    let server = Server::start_with("code_execution: {python: /bin/false}");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let ready = server.get("/readyz");
        let body = ready.json();
        let python =
            body["checks"].as_array().and_then(|all| all.iter().find(|check| check["name"] == "python"));
        let python = python.expect("the check").clone();
        if python.get("reason").is_some() {
            assert_eq!(
                (ready.status, &body["status"], &python["ok"]),
                (200, &json!("degraded"), &json!(false))
            );
            return;
        }
        assert!(Instant::now() < deadline, "{}", ready.body);
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_window_too_small_for_the_tools_is_logged_at_start() {
    let model = |window: u32| {
        format!("models: [{{id: tiny, api_url: \"http://127.0.0.1:9/v1\", context_window: {window}}}]")
    };
    let small = Server::start_with(&model(2_048));
    let log = small.log();
    assert!(
        log.contains("context_window") && log.contains("tiny") && log.contains("tools.per_model"),
        "{log}"
    );
    assert!(!Server::start_with(&model(32_768)).log().contains("tools.per_model"));
}

/// The definitions as a model's template shows them: with a space after each colon and comma.
fn rendered(request: &Value) -> String {
    let tools = request["tools"].as_array().expect("tools");
    tools.iter().map(|tool| format!("\n{}", spaced(tool))).collect::<Vec<_>>().concat()
}

fn spaced(value: &Value) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(map) => {
            let pairs =
                map.iter().map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), spaced(value)));
            format!("{{{}}}", join(pairs.collect()))
        }
        Value::Array(list) => format!("[{}]", join(list.iter().map(spaced).collect())),
        other => other.to_string(),
    }
}

#[test]
fn the_definitions_of_tools_cost_few_tokens() {
    let upstream = Upstream::start(|_, _| Answer::text("hi"));
    let channel = "channels: {hook: {type: webhook, url: \"https://example.org/in\"}}";
    let server = Server::start_against(&upstream, channel);
    let infos = server.get("/v1/tools").json();
    let names: Vec<Value> =
        infos["data"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    let tokenizer = std::env::var("TOKENIZER_URL").ok();
    if tokenizer.is_none() {
        writeln!(
            std::io::stderr(),
            "SKIPPED: TOKENIZER_URL names no /tokenize of a Qwen model, so the tokens of tools are estimated"
        )
        .expect("stderr");
    }
    for (job, budget) in [
        (json!({"input": "x"}), 1_800),
        (json!({"input": "x", "tools": true}), 3_000),
        (json!({"input": "x", "tools": names}), 3_000),
    ] {
        let text = rendered(&first_request(&server, &upstream, &job));
        let most = text.len() * 1_000 / TOKEN_BYTES_MIN;
        assert!(most <= budget, "{} bytes may be {most} tokens; at most {budget} are wanted", text.len());
        if let Some(url) = &tokenizer {
            let tokens = tokens(url, &text);
            writeln!(std::io::stderr(), "{} bytes, {tokens} tokens", text.len()).expect("stderr");
            assert!(tokens <= most, "TOKEN_BYTES_MIN is too large");
        }
    }
}

/// The number of tokens, by the `/tokenize` of a llama.cpp server.
fn tokens(url: &str, text: &str) -> usize {
    let mut response = ureq::post(url).send(json!({"content": text}).to_string()).expect("a tokenizer");
    let body: Value =
        serde_json::from_str(&response.body_mut().read_to_string().expect("a body")).expect("JSON");
    body["tokens"].as_array().expect("tokens").len()
}
