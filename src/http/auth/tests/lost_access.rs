//! Answers under way when their caller loses its access, by every way in which that happens.

use super::*;
use tokio::io::DuplexStream;

/// With what the caller has opened its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Credential {
    Key,
    Session,
    /// Made with the key.
    KeyTicket,
    /// Made with the session.
    SessionTicket,
}

/// How the access is lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Disabled,
    Demoted,
    PasswordChanged,
    SessionsEnded,
    SessionExpired,
    KeyRevoked,
    KeyExpired,
    ScopeLost,
}

const CREDENTIALS: [Credential; 4] =
    [Credential::Key, Credential::Session, Credential::KeyTicket, Credential::SessionTicket];

/// What ends with each loss.
const LOSSES: [(Loss, &[Credential]); 8] = [
    (Loss::Disabled, &CREDENTIALS),
    (Loss::Demoted, &CREDENTIALS),
    (Loss::PasswordChanged, &[Credential::Session, Credential::KeyTicket, Credential::SessionTicket]),
    (Loss::SessionsEnded, &[Credential::Session, Credential::KeyTicket, Credential::SessionTicket]),
    (Loss::SessionExpired, &[Credential::Session, Credential::SessionTicket]),
    (Loss::KeyRevoked, &[Credential::Key, Credential::KeyTicket]),
    (Loss::KeyExpired, &[Credential::Key, Credential::KeyTicket]),
    (Loss::ScopeLost, &[Credential::Key]),
];

const KEY_MS: u64 = 60_000;

/// An administrator with a key.
async fn administrator(house: &House, expires_at_ms: Option<u64>) -> (Account, String) {
    for name in ["root", "ann"] {
        drop(house.account(name).await);
    }
    let ann = house.users.account_named("ann").expect("reads").expect("there");
    let change = AccountChange { role: Some(Role::Admin), ..AccountChange::default() };
    let ann = house.users.change_account(ann.id, change).await.expect("changed").expect("there");
    let key = house.key(&ann, 1, (TokenScopes::ALL, expires_at_ms)).await;
    (ann, key)
}

impl Loss {
    async fn apply(self, house: &House, ann: &Account) {
        let none = AccountChange::default();
        let change = match self {
            Self::Disabled => AccountChange { is_active: Some(false), ..none },
            Self::Demoted => AccountChange { role: Some(Role::User), ..none },
            Self::PasswordChanged => {
                let password = PasswordHash::new("$argon2id$other".into());
                AccountChange { password: Some(password), ..none }
            }
            Self::SessionsEnded => AccountChange { ends_sessions: true, ..none },
            Self::SessionExpired => return house.clock.pass(WEEK_S * 1_000),
            Self::KeyExpired => return house.clock.pass(KEY_MS),
            Self::KeyRevoked | Self::ScopeLost => {
                assert!(house.users.revoke_token(ann.id, TokenId::from_bits(1)).await.expect("revoked"));
                if matches!(self, Self::ScopeLost) {
                    let scopes = TokenScopes { read: true, write: false, admin: true };
                    house.key(ann, 1, (scopes, None)).await;
                }
                return;
            }
        };
        house.users.change_account(ann.id, change).await.expect("changed");
    }
}

/// A ticket that a caller with this credential makes.
async fn ticket(house: &House, credential: &str) -> String {
    let header = format!("authorization: Bearer {credential}");
    let answer = house.server.ask("POST /api/auth/ticket", &[&header], "").await;
    answer.json()["data"]["ticket"].as_str().expect("a ticket").to_owned()
}

async fn open(house: &House, target: &str, header: &str) -> DuplexStream {
    let mut io = house.server.connect();
    let headers: Vec<&str> = [header].into_iter().filter(|header| !header.is_empty()).collect();
    io.write_all(&testing::request(&format!("GET {target}"), &headers, "")).await.expect("sends");
    io
}

/// Reads until this text has come, or to the end of the answer.
async fn read_to(io: &mut DuplexStream, text: &str) -> String {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while text.is_empty() || !seen.contains(text) {
        let count = io.read(&mut buffer).await.expect("reads");
        if count == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    seen
}

/// The rest of a stream and the held answer of a caller that loses its access; `None` for what has gone on
/// for a minute.
async fn after_loss(loss: Loss, credential: Credential) -> [Option<String>; 2] {
    let house = House::new();
    let expires_at_ms = matches!(loss, Loss::KeyExpired).then(|| house.clock.now_ms() + KEY_MS);
    let (ann, key) = administrator(&house, expires_at_ms).await;
    let session = house.session(&ann);
    let job = house.job(&ann).await;
    let bearer = |credential: &str| format!("authorization: Bearer {credential}");
    let (header, query) = match credential {
        Credential::Key => (bearer(&key), String::new()),
        Credential::Session => (bearer(&session), String::new()),
        Credential::KeyTicket => (String::new(), format!("?ticket={}", ticket(&house, &key).await)),
        Credential::SessionTicket => (String::new(), format!("?ticket={}", ticket(&house, &session).await)),
    };
    let mut stream = open(&house, &format!("/v1/jobs/{job}/events{query}"), &header).await;
    read_to(&mut stream, "queued").await;
    // Tickets are for streams alone.
    let held = if header.is_empty() { None } else { Some(format!("/v1/jobs/{job}?wait=60")) };
    let mut held = match held {
        Some(target) => Some(open(&house, &target, &header).await),
        None => None,
    };
    tokio::task::yield_now().await;
    loss.apply(&house, &ann).await;
    tokio::time::pause();
    let minute = Duration::from_secs(60);
    let rest = tokio::time::timeout(minute, read_to(&mut stream, "")).await.ok();
    let held = match &mut held {
        Some(held) => tokio::time::timeout(minute, read_to(held, "")).await.ok(),
        None => rest.clone(),
    };
    tokio::time::resume();
    [rest, held]
}

#[tokio::test]
async fn p9_streams_and_held_answers_end_with_the_access_of_their_caller() {
    for (loss, ended) in LOSSES {
        for credential in CREDENTIALS {
            let [rest, held] = after_loss(loss, credential).await;
            let context = format!("{loss:?} of {credential:?}: {rest:?} {held:?}");
            if ended.contains(&credential) {
                assert!(rest.is_some_and(|rest| rest.contains(ACCESS_LOST)), "{context}");
                assert!(held.is_some_and(|held| held.contains(ACCESS_LOST)), "{context}");
            } else {
                assert!(rest.is_none_or(|rest| !rest.contains(ACCESS_LOST)), "{context}");
            }
        }
    }
}

#[tokio::test]
async fn p9_a_ticket_cannot_resume_its_stream_once_its_key_is_revoked() {
    let house = House::new();
    let (ann, key) = administrator(&house, None).await;
    let (job, ticket) = (house.job(&ann).await, ticket(&house, &key).await);
    let target = format!("/v1/jobs/{job}/events?follow=false&ticket={ticket}");
    assert_eq!(house.server.get(&target).await.status, 200);
    house.clock.pass(KEY_MS - 1);
    assert_eq!(house.server.get(&target).await.status, 200, "it resumes its stream");
    Loss::KeyRevoked.apply(&house, &ann).await;
    assert_eq!(house.server.get(&target).await.status, 401);
}

#[tokio::test]
async fn p9_a_talking_stream_ends_too() {
    let house = House::new();
    let (ann, key) = administrator(&house, None).await;
    let job = house.job(&ann).await;
    let header = format!("authorization: Bearer {key}");
    let mut stream = open(&house, &format!("/v1/jobs/{job}/events?format=delta"), &header).await;
    read_to(&mut stream, "queued").await;
    Loss::KeyRevoked.apply(&house, &ann).await;
    tokio::time::pause();
    let talk = async {
        for word in 1.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            house.server.store.say(job, 0, &format!("word-{word} "));
        }
    };
    let rest = tokio::select! {
        rest = read_to(&mut stream, "") => rest,
        () = talk => unreachable!("it never ends"),
    };
    assert!(rest.contains("word-1 ") && !rest.contains("word-15 ") && rest.contains(ACCESS_LOST), "{rest}");
}
