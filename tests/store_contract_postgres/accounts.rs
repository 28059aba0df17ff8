//! Accounts, tokens and usage that several nodes change at the same time.

use super::batches::{batch, lines, new};
use super::fixture::Fixture;
use crate::support::store::{ANN, chat, name};
use nanoclaw::domain::account::{
    ApiToken, Email, PasswordHash, Quota, Registration, Role, TokenScopes, Username,
};
use nanoclaw::domain::id::{FileId, TokenId, UserId};
use nanoclaw::domain::message::Message;
use nanoclaw::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    AccountChange, AccountError, Accounts, BatchError, Batches, ConversationItems, Conversations, NewAccount,
    NewInvite, NewItems, NewToken, RegistrationGate, StoredFileError, StoredFiles, Users, ValidSetupInvite,
};
use serde_json::json;

const NOW_MS: u64 = 1_000_000;

fn newcomer(name: &str) -> NewAccount {
    NewAccount {
        username: Username::try_from(name.to_owned()).unwrap(),
        email: None,
        password: PasswordHash::new("$argon2id$x".to_owned()),
        role: Role::User,
        admission: RegistrationGate::ByAdmin,
        created_at_ms: NOW_MS,
    }
}

/// Runs `act` on two nodes, several times on each, at the same time.
fn at_once<T: Send>(fixture: &Fixture, act: impl Fn(&Fixture, usize) -> T + Sync) -> Vec<T> {
    let other = fixture.beside();
    std::thread::scope(|scope| {
        let (act, other) = (&act, &other);
        let run = |number: usize| {
            let node = if number.is_multiple_of(2) { fixture } else { other };
            scope.spawn(move || act(node, number))
        };
        let runs: Vec<_> = (0..8).map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

#[test]
fn p4_nodes_create_one_account_of_a_name_and_one_first_administrator() {
    let Some(fixture) = Fixture::new() else { return };
    let results = at_once(&fixture, |node, number| {
        let name = if number < 4 { "Ann".to_owned() } else { format!("user{number}") };
        node.store.register(newcomer(&name)).wait()
    });
    let made: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(made.len(), 5, "{results:?}");
    assert_eq!(made.iter().filter(|account| account.role == Role::Admin).count(), 1);
    let mut ids: Vec<u32> = made.iter().map(|account| account.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (2..=6).collect::<Vec<_>>(), "refused registrations use no number");
}

#[test]
fn p4_nodes_give_an_address_and_an_invite_to_one_account() {
    let Some(fixture) = Fixture::new() else { return };
    for number in 0..8 {
        fixture.store.register(newcomer(&format!("user{number}"))).wait().unwrap();
    }
    let results = at_once(&fixture, |node, number| {
        let email = Some(Some(Email::try_from("ann@example.org".to_owned()).unwrap()));
        let user = UserId(u32::try_from(number).unwrap() + 2);
        node.store.change_account(user, AccountChange { email, ..AccountChange::default() }).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    let invite = NewInvite {
        digest: [7; 32],
        created_at_ms: NOW_MS,
        expires_at_ms: 2 * NOW_MS,
        created_by: Some(ANN),
    };
    fixture.store.store_invite(invite).wait().unwrap();
    let results = at_once(&fixture, |node, number| {
        let admission =
            RegistrationGate::Public { registration: Registration::Invite, invite: Some([7; 32]) };
        node.store.register(NewAccount { admission, ..newcomer(&format!("guest{number}")) }).wait()
    });
    let refused = results.iter().filter(|result| **result == Err(AccountError::NotInvited)).count();
    assert_eq!(refused, 7, "{results:?}");
}

#[test]
fn p4_nodes_that_start_at_once_have_one_setup_invite_and_it_makes_one_account() {
    let Some(fixture) = Fixture::new() else { return };
    let invite = |number| NewInvite {
        digest: [u8::try_from(number).unwrap(); 32],
        created_at_ms: NOW_MS,
        expires_at_ms: 2 * NOW_MS,
        created_by: None,
    };
    let results = at_once(&fixture, |node, number| {
        node.store.store_setup_invite(invite(number), ValidSetupInvite::Kept).wait().unwrap().id
    });
    let kept = results[0];
    assert_eq!(results, vec![kept; 8]);
    let number = (0..8).find(|number| invite(*number).id() == kept).unwrap();
    let results = at_once(&fixture, |node, other| {
        let admission = RegistrationGate::Public {
            registration: Registration::Invite,
            invite: Some(invite(number).digest),
        };
        node.store.register(NewAccount { admission, ..newcomer(&format!("guest{other}")) }).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
}

#[test]
fn p4_nodes_keep_one_active_administrator() {
    let Some(fixture) = Fixture::new() else { return };
    let admin = |number| NewAccount { role: Role::Admin, ..newcomer(&format!("admin{number}")) };
    for number in 0..8 {
        fixture.store.register(admin(number)).wait().unwrap();
    }
    let results = at_once(&fixture, |node, number| {
        let change = AccountChange { role: Some(Role::User), ..AccountChange::default() };
        node.store.change_account(UserId(u32::try_from(number).unwrap() + 2), change).wait()
    });
    let kept = results.iter().filter(|result| **result == Err(AccountError::LastAdmin)).count();
    assert_eq!(kept, 1, "{results:?}");
}

#[test]
fn p8_nodes_keep_the_limit_of_tokens() {
    let Some(fixture) = Fixture::new() else { return };
    let results = at_once(&fixture, |node, number| {
        let token = ApiToken {
            id: TokenId::from_bits(number as u128),
            user: UserId(u32::MAX),
            name: "script\0".to_owned(),
            scopes: TokenScopes::ALL,
            created_at_ms: NOW_MS,
            expires_at_ms: None,
            hint: "abcd".to_owned(),
        };
        node.store.store_token(NewToken { token, digest: [u8::try_from(number).unwrap(); 32] }, 3).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3, "{results:?}");
    assert_eq!(fixture.store.tokens(UserId(u32::MAX)).unwrap().len(), 3);
}

fn set_quota(fixture: &Fixture, quota: Quota) {
    let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
    fixture.store.change_account(ANN, change).wait().unwrap();
}

#[test]
fn p8_nodes_keep_the_quota_of_stored_bytes_for_files_and_items() {
    let Some(fixture) = Fixture::new() else { return };
    let (bytes, created_at_ms) = (300 << 20, NOW_MS);
    set_quota(&fixture, Quota { stored_bytes: Some(1_000 << 20), ..Quota::default() });
    let results = at_once(&fixture, |node, number| {
        let (id, content) = (FileId::from_bits(number as u128), ContentDigest::from_bytes([1; 32]));
        let (name, purpose) = ("f".to_owned(), FilePurpose::Batch);
        let file =
            StoredFile { id, user: ANN, name, purpose, bytes, content, created_at_ms, expires_at_ms: None };
        node.store.add_file(file).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3, "{results:?}");
    let refused = |result: &&Result<_, _>| matches!(result, Err(StoredFileError::Quota(_)));
    assert_eq!(results.iter().filter(refused).count(), 5, "{results:?}");

    // What is left of a quota is kept for a second.
    fixture.clock.advance(2_000);
    let stored = fixture.store.stored_bytes(ANN).unwrap();
    set_quota(&fixture, Quota { stored_bytes: Some(stored + 100_000), ..Quota::default() });
    fixture.store.create_conversation(chat(ANN, "chat", NOW_MS), 9).wait().unwrap();
    let results = at_once(&fixture, |node, number| {
        let text = "x".repeat(14_000);
        let items = vec![json!({"id": format!("item_{number}"), "content": text})];
        let (conversation, messages) = (name("chat"), vec![Message::user(&text)]);
        node.store.add_items(NewItems { user: ANN, conversation, creates: None, items, messages }).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3, "{results:?}");
}

#[test]
fn p8_nodes_keep_the_quota_of_jobs_for_batches() {
    let Some(fixture) = Fixture::new() else { return };
    set_quota(&fixture, Quota { unfinished_jobs: Some(5), ..Quota::default() });
    let results = at_once(&fixture, |node, number| {
        let number = number as u128 + 1;
        node.store.fill((ANN, batch(number)), 0, lines(0, 2)).wait().unwrap();
        node.store.accept(new(number, 2, 1), None).wait()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2, "{results:?}");
    let refused = |result: &&Result<_, _>| matches!(result, Err(BatchError::Quota(_)));
    assert_eq!(results.iter().filter(refused).count(), 6, "{results:?}");
}

#[test]
fn usage_of_all_nodes_adds_up_and_ends_at_the_largest_number() {
    let Some(fixture) = Fixture::new() else { return };
    let booked = at_once(&fixture, |node, number| {
        for model in ["a", "b", "c\0"] {
            let usage = Usage::new(1, number as u64);
            node.store.book_usage(UserId(1), model.to_owned(), usage).wait().unwrap();
        }
    });
    assert_eq!(booked.len(), 8);
    let days = fixture.store.usage(UserId(1), 0, u32::MAX).unwrap();
    let found: Vec<_> =
        days.iter().map(|day| (day.model.as_str(), day.usage.total_tokens, day.jobs)).collect();
    assert_eq!(found, [("a", 36, 0), ("b", 36, 0), ("c\0", 36, 0)]);
    for _ in 0..2 {
        let most = Usage::new(u64::MAX, u64::MAX);
        fixture.store.book_usage(UserId(1), "a".to_owned(), most).wait().unwrap();
    }
    let largest = i64::MAX as u64;
    assert_eq!(fixture.store.usage(UserId(1), 0, 0).unwrap()[0].usage.prompt_tokens, largest);
    let (groups, is_cut) = fixture.store.usage_by_user(None, (0, 0), 1).unwrap();
    assert_eq!((groups[0].usage.total_tokens, is_cut), (largest, false));
    assert_eq!(fixture.store.usage_by_hour(None, 0, 0).unwrap().len(), 3);
}

#[test]
fn a_name_with_any_characters_is_no_account() {
    let Some(fixture) = Fixture::new() else { return };
    assert_eq!(fixture.store.account_named("a\0b").unwrap(), None);
    assert_eq!(fixture.store.account_named("default\0").unwrap(), None);
}
