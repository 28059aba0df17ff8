//! Accounts over HTTP: login, sessions, cookies, tickets, API keys and registration.

pub(crate) mod first_account;
mod invites;
mod quotas;
mod sessions;

use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::time::Duration;

const MULTI: &str = "auth_mode: multi\n";
const PASSWORD: &str = "correct horse";

/// `METHOD path` with header lines and a JSON body.
pub(crate) fn ask(server: &Server, line: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    server.request((method, path), &all, &if body.is_null() { String::new() } else { body.to_string() })
}

/// The same as the owner of a token.
pub(crate) fn with(server: &Server, token: &str, line: &str, body: &Value) -> Reply {
    ask(server, line, &[("authorization", &format!("Bearer {token}"))], body)
}

fn register(server: &Server, name: &str) -> Value {
    let reply = server.register(&json!({"username": name, "password": PASSWORD}));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["data"].clone()
}

fn login(server: &Server, name: &str, password: &str) -> Reply {
    ask(server, "POST /api/auth/login", &[], &json!({"username": name, "password": password}))
}

fn token(data: &Value) -> String {
    data["token"].as_str().unwrap_or_else(|| panic!("no token: {data}")).to_owned()
}

/// The cookie that a response sets, in the form a browser sends it back.
fn cookie(reply: &Reply) -> String {
    let cookie = reply.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("; Path=/;"), "{cookie}");
    cookie.split(';').next().expect("a pair").to_owned()
}

/// The profile is the account with its quotas.
fn assert_is_profile(reply: &Reply, user: &Value) {
    let mut profile = reply.json()["data"].clone();
    assert!(profile.as_object_mut().is_some_and(|fields| fields.remove("quota").is_some()), "{profile}");
    assert_eq!(&profile, user);
}

#[test]
fn the_first_account_is_an_administrator_and_the_next_a_user() {
    let server = Server::start_with(MULTI);
    assert_eq!(server.get("/api/auth/mode").json()["data"]["mode"], "multi");
    let (ann, bob) = (register(&server, "ann"), register(&server, "bob"));
    assert_eq!((&ann["user"]["role"], &bob["user"]["role"]), (&json!("admin"), &json!("user")));
    let names: Vec<&str> = ann["user"].as_object().expect("a user").keys().map(String::as_str).collect();
    let expected = ["id", "username", "email", "avatar", "role", "is_active", "created_at", "last_login_at"];
    assert_eq!(names, expected);
    assert_eq!(with(&server, &token(&bob), "HEAD /v1/backup", &Value::Null).status, 403);
    assert_ne!(with(&server, &token(&ann), "HEAD /v1/backup", &Value::Null).status, 403);
    for (body, status, text) in [
        (json!({"username": "ANN", "password": PASSWORD}), 409, "taken"),
        (json!({"username": "x", "password": PASSWORD}), 400, "username"),
        (json!({"username": "carl", "password": "short"}), 400, "password"),
        (json!({"username": "carl", "password": PASSWORD, "email": "nowhere"}), 400, "email"),
        (json!({"password": PASSWORD}), 400, "'username' is missing"),
        (json!({}), 400, "'username' and 'password' are missing"),
        (json!({"username": 7, "password": PASSWORD}), 400, "username"),
        (json!({"username": "carl", "password": 12_345_678}), 400, "'password' must be a string\""),
        (json!({"username": "carl", "password": PASSWORD, "role": "admin"}), 400, "role"),
        (json!([]), 400, "object"),
        (json!({"username": "carl", "password": "x".repeat(20_000)}), 413, "larger"),
    ] {
        let reply = server.register(&body);
        assert_eq!(reply.status, status, "{}", reply.body);
        assert!(reply.body.contains(text), "{}", reply.body);
    }
    // P9: the log contains no password and no token.
    let log = server.log();
    assert!(!log.contains(PASSWORD) && !log.contains(&token(&ann)), "{log}");
}

#[test]
fn p9_a_login_needs_the_password_and_a_failed_one_reveals_nothing() {
    let server = Server::start_with(MULTI);
    register(&server, "ann");
    let right = login(&server, "Ann", PASSWORD);
    assert_eq!(right.status, 200, "{}", right.body);
    let data = right.json()["data"].clone();
    assert!(data["user"]["last_login_at"].is_string(), "{data}");
    let profile = with(&server, &token(&data), "GET /api/auth/profile", &Value::Null);
    assert_is_profile(&profile, &data["user"]);
    let (wrong, unknown, none) = (
        login(&server, "ann", "incorrect"),
        login(&server, "nobody", PASSWORD),
        login(&server, "default", ""),
    );
    assert_eq!((wrong.status, unknown.status, none.status), (401, 401, 401), "{}", wrong.body);
    assert_eq!((&wrong.body, &wrong.body), (&unknown.body, &none.body));
    let missing = ask(&server, "POST /api/auth/login", &[], &json!({"username": "ann"}));
    assert_eq!(missing.status, 400);
    assert!(missing.body.contains("'password' is missing"), "{}", missing.body);
    // Sessions outlive a crash: the key is on the disk.
    let server = server.crash_and_restart(MULTI);
    assert_eq!(with(&server, &token(&data), "GET /v1/jobs", &Value::Null).status, 200);
}

#[test]
fn p9_names_that_look_alike_are_one_name_or_refused() {
    let server = Server::start_with(MULTI);
    let account = register(&server, "Ａｎｎ");
    assert_eq!(account["user"]["username"], "Ann", "stored as it is compared");
    assert_eq!(login(&server, "ann", PASSWORD).status, 200);
    assert_eq!(login(&server, "ＡＮＮ", PASSWORD).status, 200);
    let root = token(&account);
    for (name, status) in [("ANＮ", 409), ("\u{430}nn", 400), ("иван", 200), ("用户", 200)] {
        let body = json!({"username": name, "password": PASSWORD});
        let reply = server.register(&body);
        assert_eq!(reply.status, status, "{name}: {}", reply.body);
        let reply = with(&server, &root, "POST /api/users", &body);
        assert_eq!(reply.status, if status == 200 { 409 } else { status }, "{name}: {}", reply.body);
    }
}

#[test]
fn p9_repeated_login_failures_lock_the_account_and_the_address() {
    let server = Server::start_with("auth_mode: multi\nlimits: {login_failures: 3}\n");
    register(&server, "ann");
    for _ in 0..3 {
        assert_eq!(login(&server, "ann", "incorrect").status, 401);
    }
    let stopped = login(&server, "ann", PASSWORD);
    assert_eq!(stopped.status, 429, "{}", stopped.body);
    let wait: u64 = stopped.header("retry-after").expect("when").parse().expect("seconds");
    assert!((1..=900).contains(&wait), "{wait}");
    // A local proxy that sends no client address: failures of one client do not block the others.
    assert_eq!(login(&server, "whoever", PASSWORD).status, 401);
    // A proxy that sends client addresses: the account stays locked for every address.
    let from = |client: &str, name: &str| {
        let body = json!({"username": name, "password": PASSWORD});
        ask(&server, "POST /api/auth/login", &[("x-forwarded-for", client)], &body).status
    };
    assert_eq!(from("203.0.113.7", "ann"), 429);
    assert_eq!(
        ["b1", "c1", "d1", "e1"].map(|name| from("203.0.113.7", name)),
        [401, 401, 401, 429],
        "the address is locked as well, by passwords that were checked"
    );
    assert_eq!(from("203.0.113.8", "e1"), 401);
}

#[test]
fn p9_a_password_change_ends_old_sessions_and_starts_a_new_one() {
    let server = Server::start_with(MULTI);
    let old = token(&register(&server, "ann"));
    let patch = |token: &str, body: Value| with(&server, token, "PATCH /api/auth/profile", &body);
    let missing = patch(&old, json!({"password": "another horse"}));
    assert_eq!(missing.status, 400);
    assert!(missing.body.contains("current_password"), "{}", missing.body);
    let wrong = patch(&old, json!({"password": "another horse", "current_password": "incorrect"}));
    assert_eq!(wrong.status, 403, "{}", wrong.body);
    let changed = patch(&old, json!({"password": "another horse", "current_password": PASSWORD}));
    assert_eq!(changed.status, 200, "{}", changed.body);
    let new = token(&changed.json()["data"]);
    assert_eq!(with(&server, &old, "GET /v1/jobs", &Value::Null).status, 401);
    assert_eq!(with(&server, &new, "GET /v1/jobs", &Value::Null).status, 200);
    assert_eq!(login(&server, "ann", PASSWORD).status, 401);
    assert_eq!(login(&server, "ann", "another horse").status, 200);
    // Fields that the request does not name stay; null removes a value.
    let set = patch(&new, json!({"email": "ann@example.org", "avatar": "a.png"})).json()["data"].clone();
    assert_eq!((&set["email"], &set["avatar"]), (&json!("ann@example.org"), &json!("a.png")), "{set}");
    let unset = patch(&new, json!({"avatar": null})).json()["data"].clone();
    assert_eq!((&unset["email"], &unset["avatar"]), (&json!("ann@example.org"), &Value::Null), "{unset}");
    assert_eq!(patch(&new, json!({"avatar": "x".repeat(513)})).status, 400);
    assert_eq!(patch(&new, json!({"role": "user"})).status, 400);
}

#[test]
fn a_browser_event_source_authenticates_by_ticket_or_cookie() {
    let server = Server::start_with(MULTI);
    register(&server, "ann");
    let reply = login(&server, "ann", PASSWORD);
    let (session, cookie) = (token(&reply.json()["data"]), cookie(&reply));
    let job = with(&server, &session, "POST /v1/jobs", &json!({"input": "hello"})).json();
    let events = format!("/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let ticket = with(&server, &session, "POST /api/auth/ticket", &Value::Null).json()["data"].clone();
    assert_eq!(ticket["expires_in"], 30);
    let ticket = ticket["ticket"].as_str().expect("a ticket").to_owned();
    assert_eq!(server.get(&events).status, 401);
    for query in ["?ticket=", "?ticket=x", &format!("?ticket={session}"), &format!("?ticket={ticket}x")] {
        assert_eq!(server.get(&format!("{events}{query}")).status, 401, "{query}");
    }
    let seen: Vec<crate::support::Event> =
        server.stream(&format!("{events}?ticket={ticket}&format=delta"), 0).collect();
    crate::support::assert_whole(&seen);
    // A ticket is not accepted as a session anywhere.
    assert_eq!(with(&server, &ticket, "GET /v1/jobs", &Value::Null).status, 401);
    assert_eq!(server.get(&format!("/v1/jobs?ticket={ticket}")).status, 401);
    let as_cookie = format!("nanoclaw_session={ticket}");
    assert_eq!(server.get_with(&events, &[("cookie", &as_cookie)]).status, 401);
    // The cookie is accepted when no other site can have sent the request.
    assert_eq!(
        server.get_with(&events, &[("cookie", &cookie), ("sec-fetch-site", "same-origin")]).status,
        200
    );
    assert_eq!(server.get_with(&events, &[("cookie", &cookie), ("sec-fetch-site", "same-site")]).status, 401);
    let post = |headers: &[(&str, &str)]| {
        let headers: Vec<(&str, &str)> =
            [("cookie", cookie.as_str())].iter().chain(headers).copied().collect();
        ask(&server, "POST /v1/jobs", &headers, &json!({"input": "x"})).status
    };
    assert_eq!(post(&[("origin", "http://evil.example")]), 403);
    assert_eq!(
        (post(&[("sec-fetch-site", "cross-site")]), post(&[("sec-fetch-site", "same-site")])),
        (403, 401)
    );
    assert_eq!((post(&[]), post(&[("origin", &server.url)])), (401, 202));
    let out = ask(&server, "POST /api/auth/logout", &[("cookie", &cookie)], &Value::Null);
    assert!(out.header("set-cookie").is_some_and(|c| c.starts_with("nanoclaw_session=;")), "{out:?}");
}

#[test]
fn registration_can_be_closed_after_the_first_account() {
    for (terms, reason) in [("closed", "registration is closed"), ("invite", "needs an invite")] {
        let server = Server::start_with(&format!("auth_mode: multi\nregistration: {terms}\n"));
        assert_eq!(register(&server, "ann")["user"]["role"], "admin");
        for body in [
            json!({"username": "bob", "password": PASSWORD}),
            json!({"username": "bob", "password": PASSWORD, "invite": "made up"}),
        ] {
            let refused = ask(&server, "POST /api/auth/register", &[], &body);
            assert_eq!(refused.status, 403, "{}", refused.body);
            assert!(refused.body.contains(reason), "{}", refused.body);
        }
    }
}

#[test]
fn single_mode_needs_no_login_and_its_token_is_invalid_in_multi_mode() {
    let server = Server::start();
    assert_eq!(server.get("/v1/jobs").status, 200);
    let reply = ask(&server, "POST /api/auth/login", &[], &Value::Null);
    assert_eq!((reply.status, reply.header("set-cookie")), (200, None), "{}", reply.body);
    let data = reply.json()["data"].clone();
    assert_eq!((&data["user"]["username"], &data["user"]["role"]), (&json!("default"), &json!("admin")));
    assert_eq!(with(&server, "junk", "GET /v1/jobs", &Value::Null).status, 200);
    let refused =
        ask(&server, "POST /api/auth/register", &[], &json!({"username": "ann", "password": PASSWORD}));
    assert_eq!(refused.status, 403, "{}", refused.body);
    let profile = with(&server, &token(&data), "GET /api/auth/profile", &Value::Null);
    assert_is_profile(&profile, &data["user"]);
    let server = server.crash_and_restart(MULTI);
    assert_eq!(with(&server, &token(&data), "GET /v1/jobs", &Value::Null).status, 401);
}

#[test]
fn p9_responses_have_security_headers_and_allowed_origins_get_cors() {
    let server = Server::start_with("auth_mode: multi\nallowed_origins: [\"https://ui.example\"]\n");
    let page = ("origin", "https://ui.example");
    for path in ["/healthz", "/v1/jobs", "/nowhere"] {
        let reply = server.get_with(path, &[page]);
        for (name, value) in [
            ("content-security-policy", "default-src 'none'; sandbox; frame-ancestors 'none'"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("access-control-allow-origin", "https://ui.example"),
            ("access-control-allow-credentials", "true"),
            ("vary", "Origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name} of {path}");
        }
        assert!(reply.header("access-control-expose-headers").is_some_and(|h| h.contains("x-job-id")));
    }
    let asking = [page, ("access-control-request-method", "POST")];
    let preflight = ask(&server, "OPTIONS /v1/jobs", &asking, &Value::Null);
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD, POST, OPTIONS"));
    assert!(preflight.header("access-control-allow-headers").is_some_and(|h| h.contains("authorization")));
    let without_origin = server.get("/healthz");
    assert_eq!(
        (without_origin.header("access-control-allow-origin"), without_origin.header("vary")),
        (None, Some("Origin"))
    );
    let evil = server.get_with("/healthz", &[("origin", "https://evil.example")]);
    assert_eq!((evil.status, evil.header("access-control-allow-origin")), (403, None));
}

#[test]
fn p9_an_api_key_survives_a_password_change_but_not_a_disabled_account() {
    let server = Server::start_with("auth_mode: multi\nregistration: invite\n");
    let admin = token(&register(&server, "ann"));
    let invite = with(&server, &admin, "POST /api/invites", &json!({})).json()["data"]["code"].clone();
    let account = json!({"username": "bob", "password": PASSWORD, "invite": invite});
    let reply = server.register(&account);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let bob = reply.json()["data"].clone();
    let made = with(&server, &token(&bob), "POST /api/tokens", &json!({"name": "script"}));
    assert_eq!(made.status, 200, "{}", made.body);
    let found = made.body.split('"').find(|part| part.starts_with("nck_") && part.len() == 47);
    let key = found.expect("a key").to_owned();
    let change = json!({"password": "another horse", "current_password": PASSWORD});
    assert_eq!(with(&server, &token(&bob), "PATCH /api/auth/profile", &change).status, 200);
    assert_eq!(with(&server, &token(&bob), "GET /v1/jobs", &Value::Null).status, 401);
    assert_eq!(with(&server, &key, "GET /v1/jobs", &Value::Null).status, 200);
    assert_eq!(with(&server, &key, "GET /api/users", &Value::Null).status, 403);
    let disabled = with(
        &server,
        &admin,
        &format!("PATCH /api/users/{}", bob["user"]["id"]),
        &json!({"is_active": false}),
    );
    assert_eq!(disabled.status, 200, "{}", disabled.body);
    assert_eq!(with(&server, &key, "GET /v1/jobs", &Value::Null).status, 401);
    assert_eq!(login(&server, "bob", "another horse").status, 403);
    assert_eq!(
        login(&server, "bob", PASSWORD).status,
        401,
        "only the owner can see that the account is disabled"
    );
}

/// Sends a request without the last byte of its body, runs `between`, sends that byte and returns the
/// status.
fn send_slowly(server: &Server, token: &str, path: &str, body: &Value, between: impl FnOnce()) -> String {
    use std::io::{Read, Write};
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut socket = std::net::TcpStream::connect(address).expect("a connection");
    let body = body.to_string();
    let (sent, held_back) = body.split_at(body.len() - 1);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{sent}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("sent");
    // The server has read the head once it has answered a later request.
    assert_eq!(server.get("/healthz").status, 200);
    std::thread::sleep(Duration::from_millis(200));
    between();
    socket.write_all(held_back.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn p9_access_revoked_while_the_body_arrives_rejects_the_request() {
    let server = Server::start_with(MULTI);
    let (root, ann) = (token(&register(&server, "root")), register(&server, "ann"));
    let route = format!("PATCH /api/users/{}", ann["user"]["id"]);
    let change = |change: Value| assert_eq!(with(&server, &root, &route, &change).status, 200);
    change(json!({"role": "admin"}));
    let account = json!({"username": "evil", "password": PASSWORD, "role": "admin"});
    let demote = || change(json!({"role": "user"}));
    assert_eq!(send_slowly(&server, &token(&ann), "/api/users", &account, demote), "401");
    let key =
        with(&server, &token(&ann), "POST /api/tokens", &json!({"expires_in_s": 600})).json()["data"].clone();
    let (id, key) = (key["id"].as_str().expect("an id"), key["key"].as_str().expect("a key"));
    let revoke = || {
        let line = format!("DELETE /api/tokens/{id}");
        assert_eq!(with(&server, &token(&ann), &line, &Value::Null).status, 200);
    };
    assert_eq!(send_slowly(&server, key, "/api/tokens", &json!({}), revoke), "401");
    let disable = || change(json!({"is_active": false}));
    assert_eq!(send_slowly(&server, &token(&ann), "/v1/jobs", &json!({"input": "x"}), disable), "401");
}

#[test]
fn p9_a_token_cannot_create_a_token_that_expires_later() {
    let server = Server::start_with(MULTI);
    let root = token(&register(&server, "root"));
    let made = with(&server, &root, "POST /api/tokens", &json!({"expires_in_s": 600})).json()["data"].clone();
    let child = with(&server, made["key"].as_str().expect("a key"), "POST /api/tokens", &json!({}));
    assert_eq!(child.json()["data"]["expires_at"], made["expires_at"], "{}", child.body);
}
