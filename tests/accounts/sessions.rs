//! Sessions: how a page learns whether it has one, and how all sessions of an account end.

use super::{MULTI, PASSWORD, ask, cookie, login, register, token, with};
use crate::support::{Reply, Server};
use serde_json::{Value, json};

/// An API key with these scopes.
fn key(server: &Server, session: &str, scopes: &Value) -> String {
    let made = with(server, session, "POST /api/tokens", &json!({"scopes": scopes}));
    assert_eq!(made.status, 200, "{}", made.body);
    made.body.split('"').find(|part| part.starts_with("nck_") && part.len() == 47).expect("a key").to_owned()
}

#[test]
fn the_auth_mode_shows_whether_the_credential_is_valid() {
    let server = Server::start_with(MULTI);
    register(&server, "ann");
    let reply = login(&server, "ann", PASSWORD);
    let (session, cookie) = (token(&reply.json()["data"]), cookie(&reply));
    let bearer = format!("Bearer {session}");
    let key = format!("Bearer {}", key(&server, &session, &json!(["read"])));
    let is_authenticated = |headers: &[(&str, &str)]| {
        let reply = ask(&server, "GET /api/auth/mode", headers, &Value::Null);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let data = reply.json()["data"].clone();
        assert_eq!(
            data,
            json!({"mode": "multi", "authenticated": data["authenticated"], "has_accounts": true})
        );
        data["authenticated"].as_bool().expect("a flag")
    };
    for headers in [
        vec![],
        vec![("authorization", "Bearer junk")],
        vec![("authorization", "Basic YTpi")],
        vec![("x-api-key", "nck_none")],
        vec![("cookie", "nanoclaw_session=junk")],
        vec![("cookie", cookie.as_str()), ("sec-fetch-site", "same-site")],
        vec![("authorization", bearer.as_str()), ("authorization", "Bearer x")],
    ] {
        assert!(!is_authenticated(&headers), "{headers:?}");
    }
    let same_origin = ("sec-fetch-site", "same-origin");
    for headers in [
        vec![("authorization", bearer.as_str())],
        vec![("authorization", key.as_str())],
        vec![("cookie", cookie.as_str()), same_origin],
    ] {
        assert!(is_authenticated(&headers), "{headers:?}");
    }
    let single = Server::start();
    let mode = single.get("/api/auth/mode").json()["data"].clone();
    assert_eq!(mode, json!({"mode": "single", "authenticated": true, "has_accounts": false}));
    assert_eq!(
        single.post("/api/auth/logout", &json!({"everywhere": true})).status,
        200,
        "there is nothing to end"
    );
    assert_eq!(single.get("/v1/jobs").status, 200);
}

#[test]
fn p9_a_logout_everywhere_ends_all_sessions_of_the_account_and_no_others() {
    let server = Server::start_with(MULTI);
    let (first, bob) = (token(&register(&server, "ann")), token(&register(&server, "bob")));
    let reply = login(&server, "ann", PASSWORD);
    let (second, cookie) = (token(&reply.json()["data"]), cookie(&reply));
    let (writer, reader) =
        (key(&server, &first, &json!(["read", "write"])), key(&server, &first, &json!(["read"])));
    let status = |token: &str| with(&server, token, "GET /v1/jobs", &Value::Null).status;
    let out = |headers: &[(&str, &str)], body: &Value| ask(&server, "POST /api/auth/logout", headers, body);
    let everywhere = json!({"everywhere": true});
    let clears =
        |reply: &Reply| reply.header("set-cookie").is_some_and(|c| c.starts_with("nanoclaw_session=;"));
    for body in [Value::Null, json!({}), json!({"everywhere": false}), json!({"everywhere": null})] {
        let reply = with(&server, &first, "POST /api/auth/logout", &body);
        assert!(reply.status == 200 && clears(&reply), "{body}: {reply:?}");
    }
    for bad in [json!({"everywhere": "yes"}), json!({"everywhere": 1}), json!({"everywher": true}), json!([])]
    {
        let reply = with(&server, &first, "POST /api/auth/logout", &bad);
        assert_eq!((reply.status, clears(&reply)), (400, false), "{bad}: {}", reply.body);
    }
    assert_eq!(out(&[], &Value::Null).status, 200, "as before, nobody may log out, too");
    // A cookie that another site may have sent does not count.
    for headers in [vec![], vec![("authorization", "Bearer junk")], vec![("cookie", cookie.as_str())]] {
        assert_eq!(out(&headers, &everywhere).status, 401, "{headers:?}");
    }
    assert_eq!(with(&server, &reader, "POST /api/auth/logout", &everywhere).status, 403);
    assert_eq!([&first, &second, &bob].map(|token| status(token)), [200; 3], "nothing has ended yet");
    let ended = out(&[("cookie", &cookie), ("origin", &server.url)], &everywhere);
    assert!(ended.status == 200 && clears(&ended), "{ended:?}");
    assert_eq!([&first, &second].map(|token| status(token)), [401; 2]);
    assert_eq!([&bob, &writer, &reader].map(|token| status(token)), [200; 3], "keys and others stay");
    let third = token(&login(&server, "ann", PASSWORD).json()["data"]);
    assert_eq!(status(&third), 200, "the password is the same");
    assert_eq!(with(&server, &writer, "POST /api/auth/logout", &everywhere).status, 200);
    assert_eq!(status(&third), 401, "a key that may write ends them as well");
    let server = server.crash_and_restart(MULTI);
    assert_eq!(with(&server, &first, "GET /v1/jobs", &Value::Null).status, 401);
    assert_eq!(with(&server, &bob, "GET /v1/jobs", &Value::Null).status, 200);
}
