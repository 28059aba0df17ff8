//! Schedules through the real binary: firing, `kill -9`, missed runs, deletion, lists, and errors for bad
//! requests.

use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Makes a schedule and returns its path.
fn create(server: &Server, body: &Value) -> String {
    let reply = server.post("/v1/schedules", body);
    assert_eq!(reply.status, 201, "{}", reply.body);
    let path = format!("/v1/schedules/{}", reply.json()["id"].as_str().expect("an id"));
    assert_eq!(reply.header("location"), Some(path.as_str()));
    path
}

/// Waits until the schedule has fired this often.
fn wait_until_fired(server: &Server, path: &str, runs: u64) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let value = server.get(path).json();
        if value["runs"].as_u64().expect("runs") >= runs {
            return value;
        }
        assert!(Instant::now() < deadline, "the schedule does not fire: {value}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn jobs_of(server: &Server, path: &str) -> usize {
    let id = path.rsplit('/').next().expect("an id");
    let list = server.get("/v1/jobs?limit=100").json();
    list["data"].as_array().expect("jobs").iter().filter(|job| job["metadata"]["schedule_id"] == id).count()
}

fn delete(server: &Server, path: &str) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let response = agent.delete(format!("{}{path}", server.url)).call().expect("an answer");
    (response.status().as_u16(), response.into_body().read_to_string().expect("a body"))
}

#[test]
fn p1_a_schedule_fires_survives_a_crash_and_stops_when_deleted() {
    let server = Server::start();
    let job = json!({"input": "hello", "metadata": {"k": "v"}});
    let path = create(&server, &json!({"name": "often", "every_s": 1, "job": job}));
    let seen = wait_until_fired(&server, &path, 2);
    assert_eq!(
        (&seen["object"], &seen["name"], &seen["every_s"]),
        (&json!("schedule"), &json!("often"), &json!(1))
    );
    assert_eq!((&seen["at"], &seen["cron"], &seen["tz"]), (&Value::Null, &Value::Null, &json!("UTC")));
    assert_eq!(seen["job"], job, "the job is kept as given");
    let made = server.wait(seen["last_run"]["job_id"].as_str().expect("a job"));
    assert_eq!((&made["status"], &made["metadata"]["k"]), (&json!("succeeded"), &json!("v")));
    let before = server.get(&path).json()["runs"].as_u64().expect("runs");
    let server = server.crash_and_restart("");
    wait_until_fired(&server, &path, before + 2);
    let (status, body) = delete(&server, &path);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["object"], &body["deleted"]), (200, &json!("schedule.deleted"), &json!(true)));
    assert_eq!((server.get(&path).status, delete(&server, &path).0), (404, 404));
    let made = jobs_of(&server, &path);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(jobs_of(&server, &path), made, "existing jobs stay and no new job is created");
}

#[test]
fn a_one_time_schedule_runs_once_and_keeps_its_result() {
    let server = Server::start();
    let path = create(&server, &json!({"at": now_s() + 1, "job": {"input": "hello"}}));
    let seen = wait_until_fired(&server, &path, 1);
    assert_eq!(seen["next_run_at"], Value::Null);
    server.wait(seen["last_run"]["job_id"].as_str().expect("a job"));
    let ended = server.get(&path).json();
    assert_eq!((&ended["last_run"]["status"], &ended["runs"]), (&json!("succeeded"), &json!(1)), "{ended}");
    assert!(ended["last_run"]["at"].as_u64().expect("a time") >= ended["at"].as_u64().expect("a time"));
}

#[test]
fn runs_missed_while_the_server_was_down_are_made_up_once() {
    let mut server = Server::start();
    let path = create(&server, &json!({"every_s": 1, "job": {"input": "hello"}}));
    let dir = server.dir.clone();
    wait_until_fired(&server, &path, 1);
    let checked = Instant::now();
    let runs = server.get(&path).json()["runs"].as_u64().expect("runs");
    server.kill();
    let uptime = checked.elapsed();
    std::thread::sleep(Duration::from_secs(10));
    let started = Instant::now();
    let next = Server::start_in(&dir, "");
    let seen = wait_until_fired(&next, &path, runs + 1)["runs"].as_u64().expect("runs");
    // One run for the missed ones, and one for each started second in which a server ran.
    let max_runs = runs + 3 + (uptime + started.elapsed()).as_secs();
    assert!(seen <= max_runs, "{seen} runs, at most {max_runs}");
    drop(next);
}

#[test]
fn a_cron_schedule_computes_its_next_run_in_its_time_zone() {
    let server = Server::start();
    let body = json!({"cron": "0 0 1 1 *", "tz": "america/new_york", "job": {"input": "happy new year"}});
    let seen = server.get(&create(&server, &body)).json();
    assert_eq!(
        (&seen["tz"], &seen["last_run"], &seen["runs"]),
        (&json!("America/New_York"), &Value::Null, &json!(0))
    );
    let next = seen["next_run_at"].as_u64().expect("a time");
    assert_eq!((next % 86_400, next > now_s()), (5 * 3_600, true), "midnight in New York");
}

#[test]
fn schedules_are_listed_in_pages_and_limited_in_number() {
    let server = Server::start_with("limits: {schedules: 3}");
    let body = json!({"cron": "@yearly", "job": {"input": "x"}});
    let paths: Vec<String> = (0..3).map(|_| create(&server, &body)).collect();
    let full = server.post("/v1/schedules", &body);
    assert_eq!(
        (full.status, &full.json()["error"]["code"]),
        (429, &json!("schedules_full")),
        "{}",
        full.body
    );
    let ids = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("data");
        data.iter()
            .map(|schedule| format!("/v1/schedules/{}", schedule["id"].as_str().expect("an id")))
            .collect()
    };
    let first = server.get("/v1/schedules?limit=2").json();
    assert_eq!((ids(&first), &first["has_more"]), (vec![paths[2].clone(), paths[1].clone()], &json!(true)));
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = server.get(&format!("/v1/schedules?limit=2&cursor={cursor}")).json();
    assert_eq!((ids(&second), &second["has_more"]), (vec![paths[0].clone()], &json!(false)));
    assert!(second["data"][0].get("job").is_none(), "lists omit the job");
}

#[test]
fn a_bad_schedule_request_names_the_invalid_field() {
    let server = Server::start();
    let job = json!({"input": "x"});
    for (body, param, text) in [
        (json!({"job": job}), Value::Null, "exactly one"),
        (json!({"job": job, "every_s": 1, "cron": "@daily"}), Value::Null, "exactly one"),
        (json!({"job": job, "every_s": 0}), json!("every_s"), "1 to"),
        (json!({"job": job, "cron": "* * * *"}), json!("cron"), "4 fields"),
        (json!({"job": job, "cron": "0 0 30 2 *"}), json!("cron"), "never"),
        (
            json!({"job": job, "cron": "@daily", "tz": "Europe/Berln"}),
            json!("tz"),
            "did you mean 'Europe/Berlin'",
        ),
        (json!({"job": job, "at": 1_000_000}), json!("at"), "past"),
        (json!({"every_s": 1}), json!("job"), "missing"),
        (
            json!({"every_s": 1, "job": {"input": "x", "run_at": 9_999_999_999_u64}}),
            json!("job.run_at"),
            "says when",
        ),
        (json!({"every_s": 1, "job": {"input": "x", "modle": "demo"}}), json!("job.modle"), "'model'"),
        (json!({"job": job, "evrey_s": 1}), json!("evrey_s"), "'every_s'"),
    ] {
        let reply = server.post("/v1/schedules", &body);
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["param"]), (400, &param), "{body}: {}", reply.body);
        assert!(error["message"].as_str().expect("words").contains(text), "{body}: {}", reply.body);
    }
    // Idempotency keys are not supported here, so they are refused and not ignored.
    let (json, key) = (("content-type", "application/json"), ("idempotency-key", "k"));
    let text = json!({"every_s": 60, "job": {"input": "x"}}).to_string();
    let keyed = server.request(("POST", "/v1/schedules"), &[json, key], &text);
    assert_eq!(
        (keyed.status, &keyed.json()["error"]["param"]),
        (400, &json!("Idempotency-Key")),
        "{}",
        keyed.body
    );
    assert_eq!(server.get("/v1/schedules/sched_x").status, 404);
    assert_eq!(server.get("/v1/schedules?cursor=x").status, 400);
    assert_eq!(server.post("/v1/schedules/sched_x", &job).status, 405);
    assert_eq!(server.get("/v1/schedules").json()["data"], json!([]));
}

#[test]
fn a_schedule_can_be_paused_resumed_and_run_at_once() {
    let server = Server::start();
    let path = create(&server, &json!({"name": "often", "every_s": 3_600, "job": {"input": "hello"}}));
    let before = server.get(&path).json();
    assert_eq!((&before["paused"], &before["runs"]), (&json!(false), &json!(0)));
    let change = |paused: bool| {
        let reply = server.ask("PATCH", &path, &json!({"paused": paused}));
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let paused = change(true);
    assert_eq!((&paused["paused"], &paused["next_run_at"]), (&json!(true), &Value::Null));
    assert_eq!(paused["job"], json!({"input": "hello"}), "the whole object");
    let run = server.post(&format!("{path}/run"), &json!({}));
    assert_eq!(run.status, 202, "{}", run.body);
    let job = run.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(run.header("location"), Some(format!("/v1/jobs/{job}").as_str()));
    let done = server.wait(&job);
    assert_eq!((&done["status"], &done["metadata"]["schedule_id"]), (&json!("succeeded"), &paused["id"]));
    server.wait(&server.submit(&json!({"input": "of no schedule"})));
    let found =
        server.get(&format!("/v1/jobs?schedule_id={}", path.rsplit('/').next().expect("an id"))).json();
    assert_eq!((&found["data"][0]["id"], &found["data"][1]), (&json!(job), &Value::Null), "{found}");
    assert_eq!(found["data"][0]["schedule_id"], paused["id"]);
    let server = server.crash_and_restart("");
    let kept = server.get(&path).json();
    assert_eq!((&kept["paused"], &kept["runs"]), (&json!(true), &json!(1)));
    assert_eq!(kept["last_run"]["job_id"], json!(job));
    let resumed = server.ask("PATCH", &path, &json!({"paused": false})).json();
    assert_eq!(resumed["next_run_at"], before["next_run_at"], "the interval has its old phase");
    for (body, param) in
        [(json!({}), "paused"), (json!({"paused": 1}), "paused"), (json!({"name": "x"}), "name")]
    {
        let reply = server.ask("PATCH", &path, &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{body}");
    }
    let unknown = format!("{}{}", &path[..path.len() - 1], if path.ends_with('0') { '1' } else { '0' });
    assert_eq!(server.ask("PATCH", &unknown, &json!({"paused": true})).status, 404);
    assert_eq!(server.post(&format!("{unknown}/run"), &json!({})).status, 404);
    let keyed = server.request(("POST", &format!("{path}/run")), &[("idempotency-key", "k")], "");
    assert_eq!((keyed.status, &keyed.json()["error"]["param"]), (400, &json!("Idempotency-Key")));
}

#[test]
fn a_preview_shows_the_next_runs_and_the_errors_of_a_creation_and_stores_nothing() {
    let server = Server::start();
    let preview = |body: Value| server.post("/v1/schedules/preview", &body);
    let runs = |body: Value| -> Vec<u64> {
        let reply = preview(body);
        assert_eq!((reply.status, &reply.json()["object"]), (200, &json!("list")), "{}", reply.body);
        reply.json()["data"].as_array().expect("a list").iter().map(|run| run.as_u64().expect("s")).collect()
    };
    let yearly = runs(json!({"cron": "0 0 1 1 *", "tz": "America/New_York"}));
    assert_eq!((yearly.len(), yearly[0] % 86_400), (10, 5 * 3_600));
    assert!(yearly.is_sorted_by(|a, b| a < b) && yearly[0] > now_s(), "{yearly:?}");
    let often = runs(json!({"every_s": 60}));
    assert_eq!((often.len(), often[9] - often[0]), (10, 540));
    let at = now_s() + 100;
    assert_eq!(runs(json!({"at": at})), [at]);
    for body in [
        json!({}),
        json!({"cron": "* * * *"}),
        json!({"cron": "0 0 30 2 *"}),
        json!({"cron": "@daily", "tz": "Europe/Berln"}),
        json!({"at": 1_000_000}),
        json!({"every_s": 0}),
        json!({"every_s": 1, "cron": "@daily"}),
    ] {
        let mut whole = body.clone();
        whole["job"] = json!({"input": "x"});
        let (short, created) = (preview(body), server.post("/v1/schedules", &whole));
        let message = |reply: &Reply| reply.json()["error"]["message"].clone();
        assert_eq!((short.status, message(&short)), (400, message(&created)), "{whole}");
    }
    assert_eq!(preview(json!({"every_s": 60, "job": {}})).status, 400);
    assert_eq!(server.get("/v1/schedules").json()["data"], json!([]));
}
