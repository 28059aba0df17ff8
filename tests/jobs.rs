//! `/v1/jobs`: submit in every form, wait, read, list, cancel, and errors for bad requests.

use crate::support::upstream::{Act, Answer, Upstream, content};
use crate::support::{Server, assert_whole, text_of};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Tells "soon" from "never" on a loaded machine, too: the streams of these jobs hang for ever.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn p1_a_submitted_job_is_accepted_with_a_location_and_runs() {
    let server = Server::start();
    let reply = server.post("/v1/jobs", &json!({"input": "hello"}));
    assert_eq!(reply.status, 202, "{}", reply.body);
    let job = reply.json();
    let id = job["id"].as_str().expect("an id");
    assert!(id.starts_with("job_") && job["object"] == "job" && job["status"] == "queued", "{job}");
    assert_eq!(reply.header("location"), Some(format!("/v1/jobs/{id}").as_str()));
    let done = server.wait(id);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert!(done["output_text"].as_str().is_some_and(|t| t.contains("hello")), "the demo echoes: {done}");
    assert_eq!(done["attempt"], 1);
    assert!(done["usage"]["total_tokens"].as_u64().is_some_and(|n| n > 0), "{done}");
    assert_whole(&server.events(id));
}

#[test]
fn a_body_that_is_not_a_json_object_is_the_prompt() {
    let server = Server::start();
    for (body, expected) in [("just text", "just text"), (r#"{"input": "from json"}"#, "from json")] {
        let reply = server.post_text("/v1/jobs?wait=20", body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.json()["output_text"].as_str().is_some_and(|t| t.contains(expected)), "{}", reply.body);
    }
    let output = server.get(&format!(
        "/v1/jobs/{}/output",
        server.get("/v1/jobs").json()["data"][0]["id"].as_str().expect("an id")
    ));
    assert!(
        output.body.contains("from json")
            && output.header("content-type").is_some_and(|t| t.starts_with("text/plain"))
    );
}

#[test]
fn a_streamed_submission_has_the_job_id_and_ends_after_done() {
    let server = Server::start();
    let events: Vec<_> = submit_streaming(&server, "stream: 5 words, 5 ms").1;
    assert_eq!(events.last().map(|e| e.name.as_str()), Some("done"));
    assert_eq!(events[0].data["status"], "queued");
}

fn submit_streaming(server: &Server, prompt: &str) -> (String, Vec<crate::support::Event>) {
    let reply = server.post("/v1/jobs?stream=true", &json!({"input": prompt}));
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")));
    let id = reply.header("x-job-id").expect("X-Job-Id").to_owned();
    let events = server.stream(&format!("/v1/jobs/{id}/events"), 0).collect();
    (id, events)
}

#[test]
fn a_tool_call_and_sandboxed_programs_run_in_one_job() {
    let server = Server::start();
    let prompt = "tool: calculator {\"expression\": \"17*23\"}\n\
                  tool: execute_python {\"code\": \"print(6*7)\"}\n\
                  tool: execute_javascript {\"code\": \"console.log(21*2)\"}";
    let id = server.submit(&json!({"input": prompt}));
    let job = server.wait(&id);
    assert_eq!(job["status"], "succeeded", "{job}");
    let events = server.events(&id);
    let results: Vec<Value> = events
        .iter()
        .filter(|e| e.data["type"] == "tool_result")
        .map(|e| serde_json::from_str(e.data["content"].as_str().expect("a text")).expect("JSON in a string"))
        .collect();
    assert_eq!(results.len(), 3, "{events:?}");
    assert!(results.iter().all(|r| r["success"] == true), "{results:?}");
    assert_eq!(results[0]["data"]["result"], 391);
    assert!(results[1].to_string().contains("42") && results[2].to_string().contains("42"), "{results:?}");
    let kinds: Vec<&str> =
        events.iter().filter_map(|e| e.data["type"].as_str()).filter(|t| t.starts_with("tool")).collect();
    assert_eq!(kinds, ["tool_call", "tool_call", "tool_call", "tool_result", "tool_result", "tool_result"]);
    assert_whole(&events);
}

#[test]
fn p5_a_program_runs_at_the_level_of_its_job_and_cannot_read_files() {
    let server = Server::start();
    let prompt = "```python\nimport os\nprint(open('/etc/passwd').read())\n```";
    for level in ["lenient", "standard", "strict"] {
        let id = server.submit(&json!({"input": prompt, "strictness": level}));
        let job = server.wait(&id);
        assert!(!job.to_string().contains("root:"), "{level}: {job}");
        let events = server.events(&id);
        let result = events.iter().find(|e| e.data["type"] == "tool_result").expect("a result");
        let content: Value =
            serde_json::from_str(result.data["content"].as_str().expect("text")).expect("JSON");
        assert_eq!(content["success"], false, "{level}: {content}");
    }
}

#[test]
fn p7_unknown_ids_answer_404_in_every_spelling() {
    let server = Server::start();
    for id in ["job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "job_x", "x", "%2e%2e", "job_01ARZ3NDEKTSV4RRFFQ69G5FAV%00"]
    {
        for tail in ["", "/events", "/output"] {
            let reply = server.get(&format!("/v1/jobs/{id}{tail}"));
            assert_eq!(reply.status, 404, "{id}{tail}: {}", reply.body);
            assert!(reply.json()["error"]["message"].is_string());
        }
        assert_eq!(server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).status, 404);
    }
}

#[test]
fn p8_a_bad_request_names_the_invalid_field() {
    let server = Server::start();
    let cases = [
        (json!({}), "input"),
        (json!({"input": ""}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": "x", "inptu": 1}), "inptu"),
        (json!({"input": "x", "temperature": 9}), "temperature"),
        (json!({"input": "x", "priority": 10}), "priority"),
        (json!({"input": "x", "max_steps": 0}), "max_steps"),
        (json!({"input": "x", "max_steps": 99}), "max_steps"),
        (json!({"input": "x", "model": "nope"}), "model"),
        (json!({"input": "x", "tools": ["calculatr"]}), "calculator"),
        (json!({"input": "x", "strictness": "none"}), "strictness"),
        (json!({"input": "x", "metadata": {"a": 1}}), "metadata"),
        (json!({"input": "x", "timeout_s": -1}), "timeout_s"),
        (json!({"input": "x", "conversation_id": "a/b"}), "conversation_id"),
        (json!({"input": [{"role": "robot", "content": "x"}]}), "role"),
    ];
    for (body, named) in cases {
        let reply = server.post("/v1/jobs", &body);
        assert_eq!(reply.status, 400, "{body}: {}", reply.body);
        let message = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(named), "{body}: '{message}' does not name {named}");
    }
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]), "nothing was stored");
    for query in ["wait=abc", "wait=601", "limit=0", "limit=x", "limit=-5", "status=nope"] {
        assert_eq!(server.get(&format!("/v1/jobs?{query}")).status, 400, "{query}");
    }
}

#[test]
fn p8_a_body_over_the_limit_answers_413() {
    let server = Server::start_with("limits: {body_bytes: 2000}");
    let reply = server.post_text("/v1/jobs", &"x".repeat(5000));
    assert_eq!(reply.status, 413, "{}", reply.body);
    assert_eq!(server.post_text("/v1/jobs", &"x".repeat(1900)).status, 202);
}

#[test]
fn p8_a_full_queue_answers_429() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("so")), Act::Hang]));
    let server = Server::start_against(&upstream, "limits: {queue_jobs: 2}\nworkers: 1");
    server.submit(&json!({"input": "a"}));
    server.submit(&json!({"input": "b"}));
    let reply = server.post("/v1/jobs", &json!({"input": "c"}));
    assert_eq!(reply.status, 429, "{}", reply.body);
}

#[test]
fn p9_requests_with_a_foreign_host_or_origin_are_refused() {
    let server = Server::start();
    for headers in [
        vec![("host", "evil.example")],
        vec![("origin", "http://evil.example")],
        vec![("origin", "null")],
        vec![("host", "localhost.evil.example:80")],
    ] {
        let reply = server.get_with("/v1/jobs", &headers);
        assert_eq!(reply.status, 403, "{headers:?}: {}", reply.body);
        assert!(reply.json()["error"]["message"].is_string());
    }
    let port = server.url.rsplit(':').next().expect("a port");
    assert_eq!(server.get_with("/v1/jobs", &[("host", &format!("localhost:{port}"))]).status, 200);
}

#[test]
fn cancel_ends_a_queued_job_unrun_and_a_running_job_promptly() {
    let upstream =
        Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("so it begins")), Act::Hang]));
    let server = Server::start_against(&upstream, "workers: 1");
    let running = server.submit(&json!({"input": "a"}));
    let queued = server.submit(&json!({"input": "b"}));
    let first = server.stream(&format!("/v1/jobs/{running}/events"), 0).find(|e| e.data["type"] == "text");
    assert!(first.is_some(), "the stream has begun");
    assert_eq!(server.post(&format!("/v1/jobs/{queued}/cancel"), &json!({})).json()["status"], "cancelled");
    let began = Instant::now();
    assert_eq!(server.post(&format!("/v1/jobs/{running}/cancel"), &json!({})).status, 200);
    let job = server.wait(&running);
    assert!(began.elapsed() < SOON, "took {:?}", began.elapsed());
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("cancelled"), &json!("cancelled")), "{job}");
    assert_eq!(
        server.post(&format!("/v1/jobs/{running}/cancel"), &json!({})).json()["status"],
        "cancelled",
        "idempotent"
    );
    for id in [running, queued] {
        let events = server.events(&id);
        assert_whole(&events);
        assert_eq!(events.last().map(|e| e.data["code"].clone()), Some(json!("cancelled")));
    }
    assert_eq!(upstream.requests().len(), 1, "the queued job never ran");
}

#[test]
fn jobs_of_one_conversation_run_in_order_and_see_each_other() {
    let upstream = Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        let last = messages.last().expect("one")["content"].as_str().expect("text").to_owned();
        let turns = messages.iter().filter(|message| message["role"] != "system").count();
        Answer::paced_text(&format!("{turns} messages, last {last}"), Duration::from_millis(20))
    });
    let server = Server::start_against(&upstream, "");
    let ids: Vec<String> = (1..=3)
        .map(|n| server.submit(&json!({"input": format!("q{n}"), "conversation_id": "chat"})))
        .collect();
    let texts: Vec<Value> = ids.iter().map(|id| server.wait(id)["output_text"].clone()).collect();
    assert_eq!(texts, ["1 messages, last q1", "3 messages, last q2", "5 messages, last q3"]);
    let alone = server.wait(&server.submit(&json!({"input": "q", "conversation_id": "other"})));
    assert_eq!(alone["output_text"], "1 messages, last q");
}

#[test]
fn job_pages_are_newest_first_without_repeats() {
    let server = Server::start();
    let ids: Vec<String> = (0..7).map(|n| server.submit(&json!({"input": format!("n{n}")}))).collect();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/jobs?limit=3{cursor}")).json();
        seen.extend(
            page["data"].as_array().expect("data").iter().map(|j| j["id"].as_str().expect("id").to_owned()),
        );
        if page["has_more"] == false {
            break;
        }
        cursor = format!("&cursor={}", page["next_cursor"].as_str().expect("a cursor"));
    }
    assert_eq!(seen, ids.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_provider_failure_is_retried_and_the_partial_answer_discarded() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::error(503, "overloaded").with_header("retry-after", "0"),
        1 => Answer {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            acts: vec![Act::Data(content("half an ans"))],
        },
        _ => Answer::text("a whole answer"),
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "x"}));
    let job = server.wait(&id);
    assert_eq!(job["output_text"], "a whole answer", "{job}");
    let events = server.events(&id);
    assert_whole(&events);
    assert_eq!(text_of(&events), "a whole answer");
    assert!(events.iter().any(|e| e.name == "step_discarded"), "the partial answer is discarded: {events:?}");
    assert!(events.iter().any(|e| e.data["status"] == "retrying"));
}

#[test]
fn p9_a_refusing_provider_fails_the_job_without_leaking_its_address() {
    let upstream = Upstream::start(|_, _| Answer::error(401, "bad key sk-secret"));
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "x"}));
    let job = server.wait(&id);
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("provider_error")),
        "{job}"
    );
    let port = upstream.url.rsplit(':').next().expect("a port");
    assert!(!job.to_string().contains(port), "{job}");
    assert_eq!(upstream.requests().len(), 1, "a refusal is not retried");
}

#[test]
fn p4_max_steps_ends_the_job_with_a_final_answer_without_tools() {
    let upstream = Upstream::start(|request, _| {
        if request.get("tools").is_some() {
            Answer::calls(&[("calculator", json!({"expression": "1+1"}))])
        } else {
            Answer::text("that is all I can say")
        }
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "x", "max_steps": 2}));
    let job = server.wait(&id);
    assert_eq!(job["output_text"], "that is all I can say", "{job}");
    assert_eq!(upstream.requests().len(), 3);
    assert_eq!(server.events(&id).last().expect("done").data["finish_reason"], "max_steps");
}

#[test]
fn p4_a_job_that_hangs_ends_at_its_timeout() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Hang]));
    let server = Server::start_against(&upstream, "");
    let began = Instant::now();
    let job = server.wait(&server.submit(&json!({"input": "x", "timeout_s": 1})));
    assert_eq!(job["error"]["code"], "timeout", "{job}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn healthz_and_readyz_answer_200() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").status, 200);
    let ready = server.get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert!(server.get("/nowhere").json()["error"]["type"].is_string());
    assert_eq!(server.get("/nowhere").status, 404);
}

#[test]
fn sigterm_releases_running_jobs_and_the_next_start_finishes_them() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::stream(vec![Act::Data(content("interrupted")), Act::Hang]),
        _ => Answer::text("done after the restart"),
    });
    let config = crate::support::against(&upstream, "limits: {drain_s: 1}");
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start_in(dir.path(), &config);
    let id = server.submit(&json!({"input": "x"}));
    let seen = server.stream(&format!("/v1/jobs/{id}/events"), 0).find(|e| e.data["type"] == "text");
    assert!(seen.is_some());
    let status = server.terminate();
    assert!(status.success(), "{status}");
    let server = Server::start_in(dir.path(), &config);
    let job = server.wait(&id);
    assert_eq!(job["output_text"], "done after the restart", "{job}");
    assert_eq!(job["attempt"], 1, "a released run does not count as an attempt");
    assert_whole(&server.events(&id));
}

/// Sends these bytes and reads the first response: its status and its body.
fn raw(server: &Server, request: &str) -> (u16, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.url.trim_start_matches("http://")).expect("connect");
    stream.write_all(request.as_bytes()).expect("send");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn malformed_http_requests_are_refused() {
    let server = Server::start();
    let long = "a".repeat(40_000);
    let many = "x: a\r\n".repeat(150);
    let very_many = "x: a\r\n".repeat(1000);
    for (request, expected) in [
        ("GARBAGE\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n".to_owned(), 400),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\nconnection: close\r\n\r\n"), 431),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}connection: close\r\n\r\n"), 431),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{very_many}connection: close\r\n\r\n"), 431),
        (format!("GET /{long}{long} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"), 431),
        ("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), 400),
    ] {
        let (status, body) = raw(&server, &request);
        let shown = &request[..request.len().min(60)];
        assert_eq!(status, expected, "{shown}: {body}");
        // hyper answers a request that it cannot parse with an empty body; a parsed request gets our JSON.
        if !body.is_empty() {
            let error: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{shown}: {e}: {body}"));
            assert!(error["error"]["message"].is_string() && error["error"]["code"].is_string(), "{error}");
        }
    }
    let twice = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGARBAGE\r\n\r\n";
    assert_eq!(raw(&server, twice).0, 200, "a good request before garbage is answered");
}

#[test]
fn an_attached_file_reaches_the_model_as_a_fenced_block() {
    let upstream = Upstream::start(|_, _| Answer::text("read"));
    let server = Server::start_against(&upstream, "");
    let file = json!({"name": "notes.md", "extension": "md", "content": "```\nx\n```"});
    let id = server.submit(&json!({"input": [{"role": "user", "content": "look", "attachments": [file]}]}));
    assert_eq!(server.wait(&id)["status"], "succeeded");
    let sent = upstream.requests()[0]["messages"].as_array().expect("messages").last().cloned();
    let block = "look\n\nAttached file `notes.md`:\n````md\n```\nx\n```\n````";
    assert_eq!(sent, Some(json!({"role": "user", "content": block})));
}

#[test]
fn usage_is_reported_by_day_and_model_and_survives_deleted_jobs() {
    let upstream = Upstream::start(|_, _| Answer::text("fine"));
    let server = Server::start_against(&upstream, "");
    assert_eq!(server.get("/v1/usage").json()["data"], json!([]));
    let ids: Vec<String> = (0..3).map(|_| server.submit(&json!({"input": "x"}))).collect();
    for id in &ids {
        assert_eq!(server.wait(id)["usage"]["total_tokens"], 15);
    }
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    agent.delete(format!("{}/v1/jobs/{}", server.url, ids[0])).call().expect("an answer");
    // Midnight may pass between the ends of two jobs.
    let usage = server.get("/v1/usage").json();
    let lines = usage["data"].as_array().expect("lines");
    let sum = |name: &str| lines.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    let sums = ["prompt_tokens", "completion_tokens", "total_tokens", "jobs"].map(sum);
    assert_eq!(sums, [30, 15, 45, 3], "{usage}");
    assert!(lines.iter().all(|line| line["model"] == "scripted" && line["object"] == "usage"), "{usage}");
    assert_eq!(server.get("/v1/usage?from=2020-01-01&to=2020-12-31").json()["data"], json!([]));
    assert_eq!(server.post("/v1/usage", &json!({})).status, 405);
}

#[test]
fn a_queued_job_says_what_it_waits_for() {
    let server = Server::start();
    let long = json!({"input": "stream: 200 words, 100 ms", "conversation_id": "chat"});
    let first = server.submit(&long);
    let second = server.post("/v1/jobs", &long).json();
    let behind = json!({"reason": "conversation", "until": null, "after_job": first});
    assert_eq!(second["waits_for"], behind, "{second}");
    let later = server.post("/v1/jobs", &json!({"input": "x", "run_at": 4_000_000_000_u64})).json();
    let time = json!({"reason": "time", "until": 4_000_000_000_u64, "after_job": null});
    assert_eq!(later["waits_for"], time, "{later}");
    let listed = server.get("/v1/jobs").json();
    let waits = |job: &Value| {
        let found = listed["data"].as_array().expect("a list").iter().find(|one| one["id"] == job["id"]);
        found.expect("listed")["waits_for"].clone()
    };
    assert_eq!((waits(&second), waits(&later)), (behind, time));
    let id = |job: &Value| job["id"].as_str().expect("an id").to_owned();
    for job in [id(&later), id(&second), first] {
        let cancelled = server.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).json();
        assert!(cancelled["waits_for"].is_null(), "{cancelled}");
    }
}
