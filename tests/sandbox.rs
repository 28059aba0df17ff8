//! Sandboxed programs in the real server: many at once, and no process remains, even when the server is
//! killed.

use crate::support::{Server, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

fn call(tool: &str, arguments: &serde_json::Value) -> serde_json::Value {
    json!({"input": format!("tool: {tool} {arguments}")})
}

fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// All processes that descend from one.
fn descendants(ancestor: u32) -> Vec<u32> {
    let (mut found, mut pending) = (Vec::new(), vec![ancestor]);
    while let Some(pid) = pending.pop() {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            found.extend(&children);
            pending.extend(children);
        }
    }
    found
}

fn is_alive(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn p5_the_server_answers_while_sixty_four_programs_run() {
    let server = Server::start_with("workers: 64\n");
    let jobs: Vec<(String, usize)> = (0..64)
        .map(|number| {
            let (tool, code) = if number % 2 == 0 {
                ("execute_python", format!("print({number} * 1001)"))
            } else {
                ("execute_javascript", format!("console.log({number} * 1001)"))
            };
            (server.submit(&call(tool, &json!({"code": code}))), number)
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for (job, number) in jobs {
        let began = Instant::now();
        assert_eq!(server.get("/healthz").status, 200);
        slowest = slowest.max(began.elapsed());
        let ended = server.wait(&job);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let output = ended["output_text"].as_str().unwrap_or_default().to_owned();
        assert!(output.contains(&(number * 1001).to_string()), "{output}");
    }
    assert!(slowest < Duration::from_secs(2), "/healthz took {slowest:?}");
    let guests =
        || descendants(server.pid()).into_iter().filter(|pid| name_of(*pid) == "nanoclaw-guest").count();
    wait_until("no guest is left", || guests() == 0);
}

#[test]
fn p5_a_killed_server_leaves_no_guest_process() {
    let mut server = Server::start();
    let spins = [
        call("execute_python", &json!({"code": "while True: pass", "strictness": "lenient"})),
        call("execute_javascript", &json!({"code": "for (;;) {}", "strictness": "lenient"})),
        call("bash", &json!({"command": "setsid sleep 1000 & (sleep 1000 &) ; sleep 1000"})),
    ];
    for spin in &spins {
        server.submit(spin);
    }
    let sleeps = |pids: &[u32]| pids.iter().filter(|pid| name_of(**pid) == "sleep").count();
    wait_until("all of them run", || {
        let all = descendants(server.pid());
        let guests = all.iter().filter(|pid| name_of(**pid) == "nanoclaw-guest").count();
        guests >= 2 && sleeps(&all) >= 3
    });
    let all = descendants(server.pid());
    server.kill();
    std::thread::sleep(Duration::from_secs(1));
    let alive: Vec<String> =
        all.into_iter().filter(|pid| is_alive(*pid)).map(|pid| format!("{pid} {}", name_of(pid))).collect();
    assert!(alive.is_empty(), "alive a second later: {alive:?}");
}

#[test]
fn p5_levels_that_could_not_be_tested_work_again_without_a_restart() {
    let home = tempfile::tempdir().expect("a directory");
    let scratch = home.path().join("later");
    let server = Server::start_with(&format!("code_execution: {{scratch_dir: {}}}", scratch.display()));
    wait_until("the self-test has failed", || server.get("/readyz").json()["status"] == "degraded");
    let ready = server.get("/readyz");
    let body = ready.json();
    let parts: Vec<&str> =
        body["degraded"].as_array().into_iter().flatten().filter_map(|part| part["part"].as_str()).collect();
    for level in ["strict", "standard", "lenient", "shell"] {
        assert!(parts.contains(&format!("sandbox: {level}").as_str()), "{body}");
    }
    let reason = body["degraded"][0]["reason"].as_str().unwrap_or_default();
    assert_eq!(ready.status, 200, "{body}");
    assert!(reason.contains("must be there and writable") && reason.contains("later"), "{reason}");
    let print = call("execute_javascript", &json!({"code": "console.log(6 * 7)"}));
    let ended = server.wait(&server.submit(&print)).to_string();
    assert!(ended.contains("is being tested again") && ended.contains("scratch"), "{ended}");
    std::fs::create_dir(&scratch).expect("the directory");
    wait_until("the timer has tested all levels", || server.get("/readyz").json()["status"] == "ok");
    assert!(server.get("/readyz").json().get("degraded").is_none());
    let ended = server.wait(&server.submit(&print)).to_string();
    assert!(ended.contains("42"), "{ended}");
    assert!(server.log().contains("sandbox level works again"), "{}", server.log());
}
