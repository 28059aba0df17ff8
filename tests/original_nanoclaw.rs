//! Files and pages of the original `NanoClaw`: its `config.yml` starts this server, and its page can use it.

use crate::support::chat::{create, echo, fails, messages, say, seen};
use crate::support::{Server, command};
use serde_json::json;

/// The configuration of the original's README with all further keys that its code reads.
fn configuration(model_url: &str) -> String {
    format!(
        r#"# Port
backend_port: 3000
frontend_port: 4000
max_iterations: 15
tool_max_workers: 4
sub_agent:
  max_iterations: 3      # Max tool-call rounds per sub-agent
  max_tokens: 4096
  max_agents: 5
  max_concurrency: 3
  timeout: 60
models:
  - id: scripted
    name: DeepSeek V3
    api_url: {model_url}/v1/chat/completions
    api_key: sk-very-secret
default_model: scripted
db_type: mysql
db_host: localhost
db_port: 3306
db_user: root
db_password: "hunter$2"
db_name: nano_claw
db_sqlite_file: nano_claw.db
workspace_root: ./workspaces
auth_mode: single
jwt_secret: nano-claw-default-secret-change-in-production
code_execution:
  default_strictness: standard
  extra_allowed_modules:
    standard: []
    strict: []
"#
    )
}

const KEYS: [&str; 13] = [
    "backend_port",
    "frontend_port",
    "sub_agent.timeout",
    "sub_agent.max_tokens",
    "sub_agent.max_agents",
    "db_type",
    "db_host",
    "db_port",
    "db_user",
    "db_password",
    "db_name",
    "db_sqlite_file",
    "jwt_secret",
];

#[test]
fn a_configuration_of_the_original_starts_the_server_and_its_keys_are_named_in_one_message() {
    let upstream = echo();
    let config = configuration(&upstream.url);
    let dir = tempfile::tempdir().expect("a directory");
    let workspaces = dir.path().join("workspaces");
    let config = config.replace("./workspaces", &workspaces.display().to_string());
    let server = Server::start_in(dir.path(), &config);
    let log = server.log();
    let notes: Vec<&str> = log.lines().filter(|line| line.contains("original NanoClaw")).collect();
    assert_eq!(notes.len(), 1, "{log}");
    let file = dir.path().join("config.yml");
    let mut check = command(&["config", "check", "--config", file.to_str().expect("UTF-8")]);
    let checked = check.output().expect("runs");
    let out = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && out.starts_with("the configuration is valid\n"), "{checked:?}");
    for key in KEYS {
        let named = format!("{key}: ");
        assert_eq!(
            notes.iter().map(|note| note.matches(&named).count()).sum::<usize>(),
            1,
            "{key}: {notes:?}"
        );
        assert_eq!(out.matches(&format!("  {named}")).count(), 1, "{key}: {out}");
    }
    for secret in ["sk-very-secret", "hunter", "change-in-production"] {
        assert!(!log.contains(secret) && !out.contains(secret), "{secret}");
    }
    // The page of its front end runs at frontend_port, and its proxy passes the page's origin on.
    let page = [("origin", "http://localhost:4000"), ("content-type", "application/json")];
    assert_eq!(server.request(("POST", "/api/conversations"), &page, "{}").status, 200);
    let id =
        create(&server, &json!({"title": "新对话", "project_id": null, "model": "scripted"}))["id"].clone();
    let events = say(&server, id.as_str().expect("an id"), &json!({"text": "hi", "stream": true}));
    assert_eq!(seen(&events)[0]["content"], "You said: hi");
}

#[test]
fn the_page_of_the_original_can_send_a_message_and_ask_again() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let created = create(&server, &json!({"title": "新对话", "project_id": null, "model": "scripted"}));
    let id = created["id"].as_str().expect("an id");
    // The fields that its page sends.
    let body =
        json!({"text": "hi", "attachments": null, "stream": true, "tools_enabled": true, "project_id": null});
    let events = say(&server, id, &body);
    assert_eq!(events.last().expect("an end").name, "done");
    let answer = messages(&server, id)[1]["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/conversations/{id}/regenerate/{answer}");
    let (reply, events) = server.open(&path, &[], &json!({"tools_enabled": true, "stream": true}));
    assert_eq!((reply.status, events.last().map(|end| end.name)), (200, Some("done".to_owned())));
    let path = format!("/api/conversations/{id}/messages");
    fails(&server.post(&path, &json!({"text": "hi", "stream": false})), 400, "'stream'");
}

#[test]
fn p9_the_refusal_of_a_development_server_says_the_line_that_allows_it() {
    let page = [("origin", "http://localhost:5173"), ("content-type", "application/json")];
    let refused = Server::start().request(("POST", "/api/conversations"), &page, "{}");
    fails(&refused, 403, r#"allowed_origins: ["http://localhost:5173"]"#);
    let server = Server::start_with(r#"allowed_origins: ["http://localhost:5173"]"#);
    assert_eq!(server.request(("POST", "/api/conversations"), &page, "{}").status, 200, "so it does");
}
