//! Proofs that do not hold, and what accounts and keys still allow.

mod lost_access;

use super::session::{SessionClaims, SessionSigner};
use super::*;
use crate::domain::account::{Account, ApiToken, AuthMode, PasswordHash, Role, TokenScopes, Username};
use crate::domain::id::{JobId, TokenId, UserId};
use crate::domain::secret::Secret;
use crate::http::testing::{self, HandClock, MemoryStore, Server, app};
use crate::ports::{AccountChange, Clock, NewAccount, NewToken, RegistrationGate, Users};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const KEY: [u8; 32] = [7; 32];
const NOW_MS: u64 = 1_700_000_000_123;
const WEEK_S: u64 = 604_800;

fn account(id: u32) -> Account {
    Account { generation: 3, ..testing::account(id) }
}

fn signed(purpose: TokenPurpose) -> String {
    SessionSigner::new(&KEY).sign(&account(2), purpose, NOW_MS, WEEK_S).expect("signed")
}

fn read(token: &str) -> Option<SessionClaims> {
    SessionSigner::new(&KEY).read(token, TokenPurpose::Session, NOW_MS)
}

/// The token's parts; the first two decoded.
fn parts(token: &str) -> (Value, Value, String) {
    let mut parts = token.split('.');
    let mut value = || {
        let part = URL_SAFE_NO_PAD.decode(parts.next().expect("a part")).expect("base64url");
        serde_json::from_slice(&part).expect("JSON")
    };
    let (header, claims) = (value(), value());
    (header, claims, parts.next().expect("a signature").to_owned())
}

fn joined(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

#[test]
fn a_session_names_its_user_and_its_expiry() {
    let claims = read(&signed(TokenPurpose::Session)).expect("holds");
    assert_eq!((claims.user_id, claims.username.as_str(), claims.generation), (UserId(2), "ann", 3));
    assert_eq!((claims.iat, claims.exp), (1_700_000_000, 1_700_000_000 + WEEK_S));
    let (_, claims, _) = parts(&signed(TokenPurpose::Session));
    let names: Vec<&str> = claims.as_object().expect("claims").keys().map(String::as_str).collect();
    assert_eq!(names, ["user_id", "username", "role", "gen", "iat", "exp", "use"]);
}

#[test]
fn p9_tokens_with_other_algorithms_are_refused() {
    let (header, claims, signature) = parts(&signed(TokenPurpose::Session));
    for alg in ["none", "None", "NONE", "HS384", "HS512", "RS256", "ES256", "PS256", "EdDSA", "", "hs256"] {
        for signature in ["", signature.as_str()] {
            let forged = joined(&json!({"typ": "JWT", "alg": alg}), &claims, signature);
            assert_eq!(read(&forged), None, "{alg}");
        }
    }
    assert_eq!(read(&joined(&header, &claims, "")), None, "no signature");
    // Signed well, with our own key, but otherwise than we sign.
    for alg in [Algorithm::HS384, Algorithm::HS512] {
        let forged = jsonwebtoken::encode(&Header::new(alg), &claims, &EncodingKey::from_secret(&KEY))
            .expect("signed");
        assert_eq!(read(&forged), None, "{alg:?}");
    }
}

#[test]
fn p9_key_references_in_a_token_header_are_ignored() {
    let (_, claims, _) = parts(&signed(TokenPurpose::Session));
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("../../dev/null".into());
    header.jku = Some("http://evil.example/keys".into());
    let forged = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(b"")).expect("signed");
    assert_eq!(read(&forged), None);
}

#[test]
fn p9_foreign_tampered_and_truncated_tokens_are_refused() {
    let token = signed(TokenPurpose::Session);
    assert!(read(&token).is_some());
    assert_eq!(SessionSigner::new(&[8; 32]).read(&token, TokenPurpose::Session, NOW_MS), None, "foreign");
    for end in 0..token.len() {
        assert_eq!(read(&token[..end]), None, "truncated at {end}");
    }
    for more in [".", "A", "=", " ", ".x"] {
        assert_eq!(read(&format!("{token}{more}")), None, "{more:?} at the end");
    }
    let (header, claims, signature) = parts(&token);
    for (name, value) in
        [("user_id", json!(1)), ("gen", json!(4)), ("exp", json!(u64::MAX)), ("role", json!("admin"))]
    {
        let mut tampered = claims.clone();
        tampered[name] = value;
        assert_ne!(tampered, claims);
        assert_eq!(read(&joined(&header, &tampered, &signature)), None, "{name}");
    }
    for junk in ["", "..", "a.b.c", "é", &"A".repeat(9_999), &format!("{token}.{token}")] {
        assert_eq!(read(junk), None);
    }
}

#[test]
fn a_session_expires_by_the_server_clock() {
    let (sessions, token) = (SessionSigner::new(&KEY), signed(TokenPurpose::Session));
    let end_ms = (NOW_MS / 1_000 + WEEK_S) * 1_000;
    assert!(sessions.read(&token, TokenPurpose::Session, end_ms - 1).is_some());
    assert_eq!(sessions.read(&token, TokenPurpose::Session, end_ms), None);
}

#[test]
fn p9_a_token_is_valid_for_one_purpose() {
    let sessions = SessionSigner::new(&KEY);
    let all = [TokenPurpose::Session, TokenPurpose::Ticket, TokenPurpose::Single];
    for (signed_for, wanted) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
        let holds = sessions.read(&signed(signed_for), wanted, NOW_MS).is_some();
        assert_eq!(holds, signed_for == wanted, "{signed_for:?} as {wanted:?}");
    }
    let (_, mut claims, _) = parts(&signed(TokenPurpose::Session));
    claims.as_object_mut().expect("claims").remove("use");
    let key = EncodingKey::from_secret(&KEY);
    let without = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).expect("signed");
    assert_eq!(read(&without), None);
}

/// A server with accounts, and its store of them.
struct House {
    server: Server,
    users: Arc<dyn Users>,
    clock: HandClock,
}

impl House {
    fn new() -> Self {
        let users = app(&Arc::new(MemoryStore::default())).users;
        let clock = HandClock::default();
        let server = Server::with(|app| {
            app.auth.mode = AuthMode::Multi;
            app.auth.session_key = KEY.to_vec();
            app.users = Arc::clone(&users);
            app.clock = Arc::new(clock.clone());
        });
        Self { server, users, clock }
    }

    async fn account(&self, name: &str) -> Account {
        let new = NewAccount {
            username: Username::try_from(name.to_owned()).expect("a name"),
            email: None,
            password: password::hash_password(&Secret::from("password".to_owned()), 1).expect("hashed"),
            role: Role::User,
            admission: RegistrationGate::ByAdmin,
            created_at_ms: 0,
        };
        self.users.register(new).await.expect("registered")
    }

    /// A key of the account's.
    async fn key(
        &self,
        account: &Account,
        id: u8,
        (scopes, expires_at_ms): (TokenScopes, Option<u64>),
    ) -> String {
        let key = format!("nck_{}", char::from(b'a' + id).to_string().repeat(43));
        let token = ApiToken {
            id: TokenId::from_bits(u128::from(id)),
            user: account.id,
            name: "k".into(),
            scopes,
            created_at_ms: 0,
            expires_at_ms,
            hint: "xxxx".into(),
        };
        let new = NewToken { token, digest: Sha256::digest(key.as_bytes()).into() };
        self.users.store_token(new, 9).await.expect("kept");
        key
    }

    async fn status(&self, line: &str, credential: &str) -> u16 {
        let header = format!("authorization: bearer {credential}");
        let body = if line.starts_with("POST") { r#"{"input":"x"}"# } else { "" };
        self.server.ask(line, &[&header, "content-type: application/json"], body).await.status
    }

    /// A queued job of the account.
    async fn job(&self, account: &Account) -> JobId {
        assert_eq!(self.status("POST /v1/jobs", &self.session(account)).await, 202);
        self.server.store.newest_id()
    }

    fn session(&self, account: &Account) -> String {
        self.signed(account, TokenPurpose::Session, WEEK_S)
    }

    fn ticket(&self, account: &Account) -> String {
        self.signed(account, TokenPurpose::Ticket, TICKET_S)
    }

    fn signed(&self, account: &Account, purpose: TokenPurpose, valid_s: u64) -> String {
        SessionSigner::new(&KEY).sign(account, purpose, self.clock.now_ms(), valid_s).expect("signed")
    }
}

#[tokio::test]
async fn p9_a_disabled_account_is_refused_with_every_credential_at_once() {
    let house = House::new();
    drop(house.account("admin").await);
    let ann = house.account("ann").await;
    let key = house.key(&ann, 1, (TokenScopes::ALL, None)).await;
    let session = house.session(&ann);
    let cookie = format!("cookie: nanoclaw_session={session}");
    for credential in [&key, &session] {
        assert_eq!(house.status("GET /v1/jobs", credential).await, 200);
    }
    assert_eq!(house.server.ask("GET /v1/jobs", &[&cookie], "").await.status, 200);
    let off = AccountChange { is_active: Some(false), ..AccountChange::default() };
    house.users.change_account(ann.id, off).await.expect("changed");
    for (password, status) in [("password", 403), ("passw0rd", 401)] {
        let body = json!({"username": "ann", "password": password}).to_string();
        let answer = house.server.ask("POST /api/auth/login", &[], &body).await;
        assert_eq!(answer.status, status, "only the owner learns of it: {}", answer.body);
    }
    for credential in [&key, &session] {
        assert_eq!(house.status("GET /v1/jobs", credential).await, 401);
    }
    let answer = house.server.ask("GET /v1/jobs", &[&cookie], "").await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
    assert!(answer.body.contains("Unauthorized - please login"), "{}", answer.body);
}

#[tokio::test]
async fn p9_a_password_change_ends_sessions_and_keeps_api_keys() {
    let house = House::new();
    let ann = house.account("ann").await;
    let (key, session) = (house.key(&ann, 1, (TokenScopes::ALL, None)).await, house.session(&ann));
    let password = Some(PasswordHash::new("$argon2id$other".into()));
    let change = AccountChange { password, ..AccountChange::default() };
    let now = house.users.change_account(ann.id, change).await.expect("changed").expect("there");
    assert_eq!(house.status("GET /v1/jobs", &session).await, 401);
    assert_eq!(house.status("GET /v1/jobs", &key).await, 200);
    assert_eq!(house.status("GET /v1/jobs", &house.session(&now)).await, 200);
}

#[tokio::test]
async fn p9_an_api_key_is_limited_by_its_scopes_and_its_expiry() {
    let house = House::new();
    let (admin, ann) = (house.account("admin").await, house.account("ann").await);
    let scopes = |read, write, admin| TokenScopes { read, write, admin };
    let cases = [
        (&ann, scopes(true, false, false), [200, 403, 403]),
        (&ann, scopes(false, true, false), [403, 202, 403]),
        (&ann, scopes(true, true, true), [200, 202, 403]),
        (&admin, scopes(true, true, false), [200, 202, 403]),
        (&admin, scopes(true, false, true), [200, 403, 200]),
    ];
    for (number, (owner, scopes, wanted)) in (1..).zip(cases) {
        let key = house.key(owner, number, (scopes, Some(60_000))).await;
        let found = [
            house.status("GET /v1/jobs", &key).await,
            house.status("POST /v1/jobs", &key).await,
            house.status("GET /v1/backup", &key).await,
        ];
        assert_eq!(found, wanted, "{scopes:?} of {}", owner.username.as_str());
        assert_eq!(house.status("HEAD /v1/jobs", &key).await, wanted[0]);
    }
    let key = house.key(&ann, 9, (TokenScopes::ALL, Some(60_000))).await;
    assert_eq!(house.status("GET /v1/jobs", &key).await, 200);
    house.clock.pass(60_000);
    assert_eq!(house.status("GET /v1/jobs", &key).await, 401);
    assert_eq!(house.status("GET /v1/jobs", &format!("nck_{}", "z".repeat(43))).await, 401);
}

#[tokio::test]
async fn p9_read_only_routes_need_the_read_scope_only() {
    let house = House::new();
    let ann = house.account("ann").await;
    let scopes = |read, write| TokenScopes { read, write, admin: false };
    for (number, (scopes, may)) in (1..).zip([(scopes(true, false), true), (scopes(false, true), false)]) {
        let key = house.key(&ann, number, (scopes, None)).await;
        for line in ["POST /api/auth/ticket", "POST /api/projects/none/search"] {
            assert_eq!(house.status(line, &key).await != 403, may, "{line} with {scopes:?}");
        }
    }
}

#[tokio::test]
async fn p9_a_ticket_authenticates_only_an_event_stream() {
    let house = House::new();
    let ann = house.account("ann").await;
    let ticket = house.ticket(&ann);
    let ask = async |path: &str| house.server.get(&format!("{path}?ticket={ticket}")).await.status;
    assert_eq!(ask("/api/conversations/none/messages/none/events").await, 404);
    assert_eq!(ask("/api/conversations/none/messages").await, 401, "a list is no stream");
}

#[tokio::test]
async fn a_ticket_resumes_its_stream_long_after_it_expired() {
    let house = House::new();
    let ann = house.account("ann").await;
    let ticket = house.ticket(&ann);
    let (job, other) = (house.job(&ann).await, house.job(&ann).await);
    let ask = async |job: &JobId, query: &str| {
        house.server.get(&format!("/v1/jobs/{job}/events?{query}ticket={ticket}")).await.status
    };
    assert_eq!(ask(&job, "follow=false&").await, 200);
    house.clock.pass(9 * 60 * 1_000);
    assert_eq!(ask(&job, "follow=false&").await, 200, "the same stream, nine minutes later");
    house.clock.pass(9 * 60 * 1_000);
    assert_eq!(ask(&job, "after=1&follow=false&").await, 200, "each resume extends the time");
    assert_eq!(ask(&other, "follow=false&").await, 401, "another stream");
    house.clock.pass(10 * 60 * 1_000);
    assert_eq!(ask(&job, "follow=false&").await, 401, "ten minutes after the last cut");
}

#[tokio::test]
async fn p9_requests_without_a_valid_credential_are_401() {
    let house = House::new();
    let ann = house.account("ann").await;
    let session = house.session(&ann);
    for headers in [
        vec![],
        vec!["authorization: Bearer".to_owned()],
        vec!["authorization: Bearer x.y.z".to_owned()],
        vec!["authorization: Basic YTpi".to_owned()],
        vec![format!("authorization: Bearer {session}"), "authorization: Bearer x".to_owned()],
        vec!["authorization: Bearer x".to_owned(), format!("cookie: nanoclaw_session={session}")],
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        for line in
            ["GET /v1/jobs", "POST /v1/jobs", "GET /v1/backup", "GET /v1/usage", "GET /api/auth/profile"]
        {
            let answer = house.server.ask(line, &headers, "").await;
            assert_eq!(answer.status, 401, "{line} with {headers:?}");
            assert!(!answer.body.contains(&session));
        }
    }
    assert_eq!(house.server.get("/healthz").await.status, 200);
    let ticket = house.session(&ann);
    assert_eq!(house.server.get(&format!("/v1/jobs?ticket={ticket}")).await.status, 401, "not there");
}

#[tokio::test]
async fn p8_rate_limits_are_reported_and_enforced() {
    let house = House::new();
    let ann = house.account("ann").await;
    let header = format!("authorization: Bearer {}", house.session(&ann));
    let first = house.server.ask("GET /v1/jobs", &[&header], "").await;
    assert_eq!(first.header("ratelimit-policy"), Some("\"requests\";q=600;w=60"));
    assert_eq!(first.header("ratelimit"), Some("\"requests\";r=599;t=60"));
    for _ in 1..600 {
        drop(house.server.ask("GET /v1/jobs/none", &[&header], "").await);
    }
    let over = house.server.ask("GET /v1/jobs", &[&header], "").await;
    assert_eq!((over.status, over.header("retry-after")), (429, Some("60")));
    assert_eq!(over.header("ratelimit"), Some("\"requests\";r=0;t=60"));
    assert_eq!(house.server.get("/healthz").await.status, 200);
    house.clock.pass(60_000);
    assert_eq!(house.server.ask("GET /v1/jobs", &[&header], "").await.status, 200);
}

#[tokio::test]
async fn single_mode_needs_and_checks_no_credential() {
    let server = Server::new();
    for header in ["x: y", "authorization: Bearer junk", "cookie: nanoclaw_session=junk"] {
        let answer = server.ask("GET /v1/jobs", &[header], "").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "{header}");
    }
}

#[tokio::test]
async fn a_server_refuses_the_control_key_of_another_one_also_without_accounts() {
    let (own, other) = (format!("nckc_{}", "a".repeat(43)), format!("nckc_{}", "b".repeat(43)));
    let digest = api_key::digest(&own);
    let server = Server::with(|app| app.auth.control_key_digest = Some(digest));
    for (key, status) in [(own, 200), (other, 401)] {
        let answer = server.ask("GET /v1/jobs", &[&format!("authorization: Bearer {key}")], "").await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}
