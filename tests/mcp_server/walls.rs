//! Accounts and scopes at `/mcp`: users are walls (P7).

use super::{McpClient, initialize, request};
use crate::support::Server;
use serde_json::{Value, json};

const MULTI: &str = "auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n";

/// Registers a user and returns a session token.
fn register(server: &Server, name: &str) -> String {
    let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
    let reply = server.register(&body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["data"]["token"].as_str().expect("a token").to_owned()
}

/// An API key with these scopes.
fn key(server: &Server, token: &str, scopes: &Value) -> String {
    let credential = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", credential.as_str())];
    let body = json!({"name": "mcp", "scopes": scopes}).to_string();
    let made = server.request(("POST", "/api/tokens"), &headers, &body).json();
    made["data"]["key"].as_str().unwrap_or_else(|| panic!("no key: {made}")).to_owned()
}

#[test]
fn p7_nothing_of_another_user_is_seen_or_changed_over_mcp() {
    let server = Server::start_with(MULTI);
    let (ann, bob) = (register(&server, "ann"), register(&server, "bob"));
    let (ann, bob) = (McpClient::open_with(&server, Some(&ann)), McpClient::open_with(&server, Some(&bob)));
    let job =
        ann.done("submit_job", &json!({"input": "only-for-ann"}))["id"].as_str().expect("an id").to_owned();
    ann.done("wait_job", &json!({"job_id": job, "timeout_s": 30}));
    ann.done("run_shell", &json!({"command": "echo only-for-ann > secret.txt"}));
    let anns = ann.result("resources/list", &json!({}));
    let next = ann.result("resources/list", &json!({"cursor": anns["nextCursor"]}));
    let file = next["resources"][0]["uri"].as_str().expect("a file").to_owned();
    let project = file.split('/').nth(3).expect("a project").to_owned();
    assert!(file.ends_with("/secret.txt") && project.starts_with("proj_"), "{file}");
    assert_eq!(bob.result("resources/list", &json!({}))["resources"], json!([]), "Bob has nothing");
    let foreign = bob.result("resources/list", &json!({"cursor": format!("files:{project}:0")}));
    assert_eq!(foreign["resources"], json!([]), "a cursor opens no door");
    let unknown = |text: &str| {
        text.replace(&job, "job_00000000000000000000000000")
            .replace(&project, "proj_00000000000000000000000000")
    };
    for uri in [format!("nanoclaw://jobs/{job}"), file] {
        let foreign = bob.error("resources/read", &json!({"uri": uri}));
        let missing = bob.error("resources/read", &json!({"uri": unknown(&uri)}));
        assert_eq!(unknown(&foreign.to_string()), missing.to_string());
    }
    for (tool, arguments) in [
        ("wait_job", json!({"job_id": job, "timeout_s": 1})),
        ("job_events", json!({"job_id": job})),
        ("cancel_job", json!({"job_id": job})),
        ("run_shell", json!({"command": "cat secret.txt", "project_id": project})),
        ("submit_job", json!({"input": "x", "project_id": project})),
    ] {
        let foreign = bob.failed(tool, &arguments);
        let missing =
            bob.failed(tool, &serde_json::from_str(&unknown(&arguments.to_string())).expect("JSON"));
        assert_eq!(foreign, missing, "{tool}");
        assert!(foreign.contains("there is no such"), "{tool}: {foreign}");
    }
    // Each user has a project of the same name.
    let listed = bob.done("run_shell", &json!({"command": "ls; pwd"}));
    assert!(!listed.to_string().contains("secret.txt"), "{listed}");
}

#[test]
fn p7_a_session_of_another_user_is_unknown() {
    let server = Server::start_with(MULTI);
    let (ann, bob) = (register(&server, "ann"), register(&server, "bob"));
    let ann = McpClient::open_with(&server, Some(&ann));
    let mut bob = McpClient::open_with(&server, Some(&bob));
    bob.session.clone_from(&ann.session);
    assert_eq!(bob.send(&request(1, "ping", &json!({}))).status, 404);
    assert_eq!(server.request(("DELETE", "/mcp"), &bob.headers(), "").status, 404);
    assert_eq!(ann.result("ping", &json!({})), json!({}), "the session goes on");
}

#[test]
fn p9_without_a_credential_there_is_a_401_that_says_how_to_authenticate() {
    let server = Server::start_with(MULTI);
    for token in [None, Some("nck_wrong")] {
        let reply = McpClient::unopened(&server, token).send(&initialize("2025-11-25"));
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{}", reply.body);
        assert_eq!(reply.header("mcp-session-id"), None);
    }
}

#[test]
fn a_key_that_may_only_read_is_offered_and_does_nothing_else() {
    let server = Server::start_with(MULTI);
    let ann = register(&server, "ann");
    let writer = McpClient::open_with(&server, Some(&ann));
    let job = writer.done("submit_job", &json!({"input": "x"}))["id"].clone();
    let key = key(&server, &ann, &json!(["read"]));
    let reader = McpClient::open_with(&server, Some(&key));
    assert_eq!(reader.tools(), ["wait_job", "job_events"]);
    assert_eq!(reader.done("wait_job", &json!({"job_id": job, "timeout_s": 30}))["status"], "succeeded");
    for (tool, arguments) in [
        ("run_python", json!({"code": "print(1)"})),
        ("run_shell", json!({"command": "id"})),
        ("submit_job", json!({"input": "x"})),
        ("cancel_job", json!({"job_id": job})),
    ] {
        let refused = reader.failed(tool, &arguments);
        assert!(refused.contains("lacks the scope 'write'"), "{tool}: {refused}");
    }
}
