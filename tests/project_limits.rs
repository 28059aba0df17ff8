//! Programs in the directory of a project: bounded by the limits of the project and the quota of its owner.

use crate::support::turns::{TurnServer, bash, error, output};
use serde_json::{Value, json};

/// The results of one call after the other in a job of this project.
fn run(fixture: &TurnServer, project: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let turns: Vec<&[(&str, Value)]> = calls.iter().map(std::slice::from_ref).collect();
    let job = fixture.submit(&turns, &json!({"project_id": project}));
    fixture.results(&job)
}

fn project(fixture: &TurnServer, name: &str) -> String {
    let made = fixture.server.post("/api/projects", &json!({"name": name})).json();
    made["data"]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn p8_programs_in_a_project_end_at_its_limits_and_do_not_start_above_them() {
    let fixture = TurnServer::start(
        "limits: {project_bytes: 2000000, project_entries: 40}\n\
         tools:\n  - {name: build, description: Builds., command: 'echo built', parameters: {type: object}, \
         in_project: true}\n",
    );
    let id = project(&fixture, "app");
    let python = |code: &str| ("execute_python", json!({"code": code, "strictness": "lenient"}));
    let ended = |result: &Value, limit: &str| {
        assert_eq!(result["data"]["limit"], limit, "{result}");
        assert!(error(result).contains("file_delete"), "{result}");
    };
    let refused = |result: &Value, limit: &str| {
        let message = error(result);
        assert!(message.contains("nothing was run") && message.contains(limit), "{result}");
    };
    let results = run(
        &fixture,
        &id,
        &[
            // It would run for as long as a command may.
            bash("head -c 2500000 /dev/zero > f; sleep 1000"),
            bash("echo more > g"),
            python("open('g', 'w').write('more')"),
            ("build", json!({})),
            ("file_delete", json!({"path": "f"})),
            bash("ls -A; echo more > g"),
            ("build", json!({})),
            // Too fast for anything but the count at its end.
            python("for n in range(60): open('n%d' % n, 'w').close()"),
            bash("date"),
            bash("find . -name 'n*' -delete; ls -A"),
            bash("cat g"),
        ],
    );
    ended(&results[0], "project_bytes");
    for result in &results[1..4] {
        refused(result, "project_bytes");
    }
    assert_eq!(results[4]["success"], true, "{}", results[4]);
    assert_eq!(output(&results[5]), "", "nothing that was refused has run");
    assert_eq!(results[6]["data"]["output"], "built", "{}", results[6]);
    ended(&results[7], "project_entries");
    refused(&results[8], "project_entries");
    assert_eq!(output(&results[9]), "g\n");
    assert_eq!(output(&results[10]), "more\n");
}

#[test]
fn p8_programs_in_a_project_end_at_the_quota_of_its_owner() {
    let fixture = TurnServer::start("auth_mode: multi\n");
    let body = json!({"username": "ann", "password": "ann-ann-ann"});
    let reply = fixture.server.register(&body).json();
    let token = format!("Bearer {}", reply["data"]["token"].as_str().expect("a token"));
    let send = |method: &str, path: &str, body: &Value| {
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        fixture.server.request((method, path), &headers, &body.to_string())
    };
    let make = |name: &str| {
        let made = send("POST", "/api/projects", &json!({"name": name})).json();
        made["data"]["id"].as_str().expect("an id").to_owned()
    };
    let run = |project: &str, calls: &[(&str, Value)]| {
        let turns: Vec<&[(&str, Value)]> = calls.iter().map(std::slice::from_ref).collect();
        let input = serde_json::to_string(&turns).expect("JSON");
        let job = send("POST", "/v1/jobs", &json!({"input": input, "project_id": project})).json();
        let path = format!("/v1/jobs/{}?wait=60", job["id"].as_str().expect("an id"));
        let ended = send("GET", &path, &Value::Null).json();
        let text = ended["output_text"].as_str().unwrap_or_else(|| panic!("{ended}"));
        serde_json::from_str::<Vec<Value>>(text).expect("results")
    };
    let (first, second) = (make("first"), make("second"));
    let ann = reply["data"]["user"]["id"].clone();
    let quota = json!({"quota": {"project_bytes": 1_000_000}});
    assert_eq!(send("PATCH", &format!("/api/users/{ann}"), &quota).status, 200);
    let fill = |bytes: u32| bash(&format!("head -c {bytes} /dev/zero > f; echo written"));
    let results = run(&first, &[fill(600_000)]);
    assert_eq!(output(&results[0]), "written\n");
    let results = run(&second, &[fill(500_000), bash("date"), bash("rm f"), fill(300_000)]);
    assert_eq!(results[0]["data"]["limit"], "quota.project_bytes", "{}", results[0]);
    let message = error(&results[1]);
    assert!(message.contains("nothing was run") && message.contains("quota.project_bytes"), "{message}");
    assert_eq!(results[2]["success"], true, "{}", results[2]);
    assert_eq!(output(&results[3]), "written\n");
}
