//! Accounts, tokens and invites: unique names and addresses, the first account, and the last administrator.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, job};
use nanoclaw::domain::account::{
    Account, ApiToken, Email, PasswordHash, Quota, Registration, Role, TokenScopes, Username,
};
use nanoclaw::domain::id::{InviteId, TokenId, UserId};
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{
    AccountChange, AccountError, NewAccount, NewInvite, NewToken, RegistrationGate, SecretDigest, Ticket,
    ValidSetupInvite,
};

const NOW_MS: u64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;

fn hash(text: &str) -> PasswordHash {
    PasswordHash::new(format!("$argon2id${text}"))
}

pub(crate) fn newcomer(name: &str) -> NewAccount {
    NewAccount {
        username: Username::try_from(name.to_owned()).unwrap(),
        email: None,
        password: hash(name),
        role: Role::User,
        admission: RegistrationGate::ByAdmin,
        created_at_ms: NOW_MS,
    }
}

fn with_email(name: &str, email: &str) -> NewAccount {
    NewAccount { email: Some(address(email)), ..newcomer(name) }
}

fn address(text: &str) -> Email {
    Email::try_from(text.to_owned()).unwrap()
}

fn made(fixture: &Fixture, new: NewAccount) -> Account {
    fixture.store.register(new).wait().unwrap()
}

fn change(fixture: &Fixture, user: UserId, change: AccountChange) -> Result<Option<Account>, AccountError> {
    fixture.store.change_account(user, change).wait()
}

fn new_invite(number: u8, expires_at_ms: u64) -> NewInvite {
    NewInvite { digest: digest(number), created_at_ms: NOW_MS, expires_at_ms, created_by: Some(ANN) }
}

/// A registration with this invite.
fn invited(number: u8) -> RegistrationGate {
    public(Registration::Invite, Some(number))
}

fn public(registration: Registration, invite: Option<u8>) -> RegistrationGate {
    RegistrationGate::Public { registration, invite: invite.map(digest) }
}

fn come(fixture: &Fixture, name: &str, admission: RegistrationGate) -> Result<Role, AccountError> {
    fixture.store.register(NewAccount { admission, ..newcomer(name) }).wait().map(|account| account.role)
}

/// Offers a set-up invite of a day; returns the number of the one in force.
fn set_up(fixture: &Fixture, number: u8, valid: ValidSetupInvite) -> Result<u8, AccountError> {
    let invite = NewInvite { created_by: None, ..new_invite(number, NOW_MS + DAY_MS) };
    let stored = fixture.store.store_setup_invite(invite, valid).wait()?;
    Ok(stored.id.to_bytes()[0])
}

fn digest(number: u8) -> SecretDigest {
    [number; 32]
}

pub(crate) fn token(number: u8, user: UserId) -> NewToken {
    let token = ApiToken {
        id: TokenId::from_bits(u128::from(number)),
        user,
        name: format!("script {number}"),
        scopes: TokenScopes::ALL,
        created_at_ms: NOW_MS,
        expires_at_ms: None,
        hint: "abcd".to_owned(),
    };
    NewToken { token, digest: digest(number) }
}

#[test]
fn the_default_user_exists_without_a_row_and_keeps_its_name() {
    let fixture = Fixture::new();
    let default = fixture.store.account_named(" Default ").unwrap().expect("the one user");
    assert_eq!((default.id, default.role, default.password), (UserId::SINGLE, Role::Admin, None));
    assert_eq!(fixture.store.account(UserId::SINGLE).unwrap().map(|found| found.id), Some(UserId::SINGLE));
    assert_eq!(fixture.store.account(UserId(2)).unwrap(), None);
    assert_eq!(fixture.store.accounts(None, 10).unwrap().accounts.len(), 1);
    assert_eq!(fixture.store.register(newcomer("DEFAULT")).wait(), Err(AccountError::NameTaken));
    let ann = made(&fixture, newcomer("Ann"));
    assert_eq!((ann.id, ann.role), (UserId(2), Role::Admin), "the first account with a password");
    let bob = made(&fixture, NewAccount { role: Role::User, ..newcomer("Bob") });
    assert_eq!((bob.id, bob.role), (UserId(3), Role::User));
    let default = fixture.store.account_named("default").unwrap().expect("still there");
    assert_eq!((default.id, default.created_at_ms), (UserId::SINGLE, NOW_MS));
}

#[test]
fn the_default_user_with_a_password_counts_as_the_first_account() {
    let fixture = Fixture::new();
    let given = change(
        &fixture,
        UserId::SINGLE,
        AccountChange { password: Some(hash("x")), ..AccountChange::default() },
    );
    assert_eq!(given.unwrap().map(|now| (now.password, now.generation)), Some((Some(hash("x")), 1)));
    assert_eq!(made(&fixture, newcomer("ann")).role, Role::User);
    assert_eq!(change(&fixture, UserId(9), AccountChange::default()), Ok(None));
}

#[test]
fn p4_concurrent_registrations_of_one_name_create_one_account() {
    let fixture = Fixture::new();
    for round in 0..20 {
        let spellings = [format!("User{round}"), format!("user{round}"), format!("USER{round}")];
        // All are sent before the first is committed, so that a group contains several.
        let tickets: Vec<Ticket<Account, AccountError>> =
            spellings.iter().map(|name| fixture.store.register(newcomer(name))).collect();
        let results: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
        let winners: Vec<&Account> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let losers = results.iter().filter(|result| **result == Err(AccountError::NameTaken)).count();
        assert_eq!(losers, 2, "{results:?}");
        let found = fixture.store.account_named(&spellings[2]).unwrap().map(|found| found.id);
        assert_eq!(found, Some(winners[0].id));
        assert_eq!(winners[0].role == Role::Admin, round == 0, "only the first account is an administrator");
    }
    let numbers: Vec<u32> =
        fixture.store.accounts(None, 100).unwrap().accounts.iter().map(|found| found.id.0).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<_>>(), "refused registrations use no number");
}

#[test]
fn an_email_address_belongs_to_one_account_until_it_is_removed() {
    let fixture = Fixture::new();
    let ann = made(&fixture, with_email("ann", "Ann@example.org"));
    let bob = made(&fixture, newcomer("bob"));
    let taken = fixture.store.register(with_email("carl", "ann@EXAMPLE.org")).wait();
    assert_eq!(taken, Err(AccountError::EmailTaken));
    let to = |email: Option<&str>| AccountChange {
        email: Some(email.map(address)),
        avatar: Some(Some("/a.png".to_owned())),
        ..AccountChange::default()
    };
    assert_eq!(change(&fixture, bob.id, to(Some("ann@example.org"))), Err(AccountError::EmailTaken));
    assert_eq!(fixture.store.account(bob.id).unwrap(), Some(bob.clone()), "a refused change changes nothing");
    let own = change(&fixture, ann.id, to(Some("ANN@example.org"))).unwrap().expect("ann");
    assert_eq!(
        own.email.as_ref().map(Email::as_str),
        Some("ANN@example.org"),
        "another spelling of the own address"
    );
    assert_eq!(change(&fixture, ann.id, to(None)).unwrap().and_then(|ann| ann.email), None);
    assert!(change(&fixture, bob.id, to(Some("ann@example.org"))).is_ok(), "the address is free again");
    assert_eq!(
        fixture.store.register(with_email("carl", "Ann@example.org")).wait(),
        Err(AccountError::EmailTaken)
    );
}

#[test]
fn the_last_administrator_who_can_log_in_keeps_the_role() {
    let fixture = Fixture::new();
    let (ann, bob) = (made(&fixture, newcomer("ann")), made(&fixture, newcomer("bob")));
    let role = |role| AccountChange { role: Some(role), ..AccountChange::default() };
    let active = |is_active| AccountChange { is_active: Some(is_active), ..AccountChange::default() };
    // `default` is an administrator as well, but cannot log in.
    assert_eq!(change(&fixture, ann.id, role(Role::User)), Err(AccountError::LastAdmin));
    assert_eq!(change(&fixture, ann.id, active(false)), Err(AccountError::LastAdmin));
    assert!(change(&fixture, UserId::SINGLE, active(false)).is_ok(), "no one can log in as `default`");
    change(&fixture, bob.id, role(Role::Admin)).unwrap();
    assert!(change(&fixture, ann.id, role(Role::User)).is_ok());
    assert_eq!(change(&fixture, bob.id, active(false)), Err(AccountError::LastAdmin));
    change(&fixture, ann.id, role(Role::Admin)).unwrap();
    change(&fixture, ann.id, active(false)).unwrap();
    assert_eq!(
        change(&fixture, bob.id, role(Role::User)),
        Err(AccountError::LastAdmin),
        "a disabled administrator does not count"
    );
    let both = [
        fixture.store.change_account(bob.id, role(Role::User)),
        fixture.store.change_account(ann.id, active(true)),
    ];
    let settled: Vec<bool> = both.into_iter().map(|ticket| ticket.wait().is_ok()).collect();
    assert_eq!(settled, [false, true], "changes apply in order");
}

#[test]
fn only_a_password_change_raises_the_session_generation() {
    let fixture = Fixture::new();
    let ann = made(&fixture, newcomer("ann"));
    let quota = Quota {
        tokens_per_day: Some(5),
        cost_micros_per_day: Some(9),
        unfinished_jobs: None,
        project_bytes: Some(7),
        stored_bytes: Some(8),
    };
    let all = AccountChange {
        avatar: Some(Some("/a.png".to_owned())),
        quota: Some(quota),
        logged_in_at_ms: Some(77),
        ..AccountChange::default()
    };
    let now = change(&fixture, ann.id, all).unwrap().expect("ann");
    assert_eq!((now.generation, now.quota, now.last_login_at_ms), (0, quota, Some(77)));
    let password = AccountChange { password: Some(hash("other")), ..AccountChange::default() };
    let after = change(&fixture, ann.id, password.clone()).unwrap().expect("ann");
    assert_eq!((after.generation, after.password), (1, Some(hash("other"))));
    assert_eq!(
        (after.avatar, after.last_login_at_ms),
        (Some("/a.png".to_owned()), Some(77)),
        "other fields stay"
    );
    assert_eq!(change(&fixture, ann.id, password).unwrap().map(|now| now.generation), Some(2));
}

#[test]
fn p9_the_store_lets_nobody_register_the_first_account_without_the_setup_invite() {
    for registration in [Registration::Open, Registration::Invite, Registration::Closed] {
        let fixture = Fixture::new();
        let needed = Err(AccountError::SetupInviteNeeded);
        fixture.store.store_invite(new_invite(1, NOW_MS + DAY_MS)).wait().unwrap();
        assert_eq!(set_up(&fixture, 2, ValidSetupInvite::Kept), Ok(2));
        for invite in [None, Some(1), Some(9)] {
            assert_eq!(come(&fixture, "eve", public(registration, invite)), needed, "{registration:?}");
        }
        assert_eq!(come(&fixture, "ann", public(registration, Some(2))), Ok(Role::Admin));
        let (later, with_ordinary) = match registration {
            Registration::Open => (Ok(Role::User), Ok(Role::User)),
            Registration::Closed => {
                (Err(AccountError::RegistrationClosed), Err(AccountError::RegistrationClosed))
            }
            Registration::Invite => (Err(AccountError::NotInvited), Ok(Role::User)),
        };
        assert_eq!(come(&fixture, "bob", public(registration, None)), later, "{registration:?}");
        assert_eq!(come(&fixture, "carl", public(registration, Some(2))), later, "used up");
        assert_eq!(come(&fixture, "dora", public(registration, Some(1))), with_ordinary);
        assert_eq!(come(&fixture, "emil", RegistrationGate::ByAdmin), Ok(Role::User));
    }
}

#[test]
fn p9_there_is_one_setup_invite_until_the_first_account() {
    let fixture = Fixture::new();
    assert_eq!(set_up(&fixture, 1, ValidSetupInvite::Kept), Ok(1));
    assert_eq!(set_up(&fixture, 2, ValidSetupInvite::Kept), Ok(1), "another start shows the same");
    let fixture = fixture.crash();
    assert_eq!(set_up(&fixture, 3, ValidSetupInvite::Replaced), Ok(3));
    let pending = fixture.store.invites(None, 9, NOW_MS).unwrap().invites;
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!(come(&fixture, "eve", invited(1)), Err(AccountError::SetupInviteNeeded), "replaced");
    fixture.clock.advance(2 * DAY_MS);
    assert_eq!(come(&fixture, "eve", invited(3)), Err(AccountError::SetupInviteNeeded), "expired");
    let late = NewInvite { created_by: None, ..new_invite(4, NOW_MS + 9 * DAY_MS) };
    let stored = fixture.store.store_setup_invite(late, ValidSetupInvite::Kept).wait().unwrap();
    assert_eq!(stored.id, late.id(), "an expired one is not kept");
    assert_eq!(come(&fixture, "ann", RegistrationGate::ByAdmin), Ok(Role::Admin), "user add needs none");
    assert_eq!(fixture.store.invites(None, 9, NOW_MS).unwrap().invites, []);
    assert_eq!(come(&fixture, "eve", invited(4)), Err(AccountError::NotInvited), "the account has ended it");
    assert_eq!(set_up(&fixture, 5, ValidSetupInvite::Replaced), Err(AccountError::AccountExists));
}

#[test]
fn p9_a_password_of_the_account_default_ends_the_setup_invite() {
    let fixture = Fixture::new();
    assert_eq!(set_up(&fixture, 1, ValidSetupInvite::Kept), Ok(1));
    let with_password = AccountChange { password: Some(hash("x")), ..AccountChange::default() };
    change(&fixture, UserId::SINGLE, with_password).unwrap();
    assert_eq!(fixture.store.invites(None, 9, NOW_MS).unwrap().invites, []);
    assert_eq!(come(&fixture, "eve", invited(1)), Err(AccountError::NotInvited));
}

#[test]
fn an_invite_works_once_and_expires() {
    let fixture = Fixture::new();
    made(&fixture, newcomer("ann"));
    let invite = |number, expires_at_ms| {
        fixture.store.store_invite(new_invite(number, expires_at_ms)).wait().unwrap();
    };
    let come = |fixture: &Fixture, name: &str, number| {
        fixture.store.register(NewAccount { admission: invited(number), ..newcomer(name) })
    };
    invite(1, NOW_MS + DAY_MS);
    invite(2, NOW_MS + 2 * DAY_MS);
    assert_eq!(come(&fixture, "ANN", 1).wait(), Err(AccountError::NameTaken));
    let two = [come(&fixture, "bob", 1), come(&fixture, "carl", 1)];
    let results: Vec<_> = two.into_iter().map(Ticket::wait).collect();
    assert!(results[0].is_ok(), "a refused registration does not use up the invite: {results:?}");
    assert_eq!(results[1], Err(AccountError::NotInvited));
    let fixture = fixture.crash();
    assert_eq!(come(&fixture, "carl", 1).wait(), Err(AccountError::NotInvited), "used up for good");
    fixture.clock.advance(2 * DAY_MS);
    assert_eq!(come(&fixture, "carl", 2).wait(), Err(AccountError::NotInvited), "expired");
}

#[test]
fn pending_invites_are_listed_by_id_and_a_revoked_one_is_gone() {
    let fixture = Fixture::new();
    made(&fixture, newcomer("ann"));
    for (number, days) in [(1, 1), (2, 3), (3, 3), (4, 3)] {
        let invite = new_invite(number, NOW_MS + days * DAY_MS);
        fixture.store.store_invite(invite).wait().unwrap();
    }
    let id = |number| InviteId::from_bytes([number; 16]);
    let page = |fixture: &Fixture, after: Option<InviteId>, limit, now_ms| {
        let page = fixture.store.invites(after, limit, now_ms).unwrap();
        (page.invites.iter().map(|invite| invite.id).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(page(&fixture, None, 2, NOW_MS), (vec![id(1), id(2)], true));
    assert_eq!(page(&fixture, Some(id(2)), 2, NOW_MS), (vec![id(3), id(4)], false));
    assert_eq!(page(&fixture, None, 9, NOW_MS + DAY_MS), (vec![id(2), id(3), id(4)], false), "one expired");
    let found = fixture.store.invites(None, 1, NOW_MS).unwrap().invites[0];
    assert_eq!((found.created_at_ms, found.created_by), (Some(NOW_MS), Some(ANN)));
    let revoke = |fixture: &Fixture, number| fixture.store.revoke_invite(id(number)).wait();
    assert_eq!(
        (revoke(&fixture, 2), revoke(&fixture, 2), revoke(&fixture, 9)),
        (Ok(true), Ok(false), Ok(false))
    );
    let come = |fixture: &Fixture, name: &str, number| come(fixture, name, invited(number)).map(drop);
    assert_eq!(come(&fixture, "bob", 2), Err(AccountError::NotInvited));
    let fixture = fixture.crash();
    assert_eq!(come(&fixture, "bob", 2), Err(AccountError::NotInvited), "also after a crash");
    assert_eq!(come(&fixture, "bob", 3), Ok(()));
    assert_eq!(
        page(&fixture, None, 9, NOW_MS),
        (vec![id(1), id(4)], false),
        "used and revoked ones are gone"
    );
}

#[test]
fn ending_the_sessions_of_an_account_raises_its_generation_only() {
    let fixture = Fixture::new();
    let ann = made(&fixture, newcomer("ann"));
    let ends = AccountChange { ends_sessions: true, ..AccountChange::default() };
    let after = change(&fixture, ann.id, ends).unwrap().unwrap();
    assert_eq!(after, Account { generation: ann.generation + 1, ..ann });
}

#[test]
fn p7_tokens_are_found_by_key_listed_by_owner_and_gone_when_revoked() {
    let fixture = Fixture::new();
    let (ann, bob) = (made(&fixture, newcomer("ann")).id, made(&fixture, newcomer("bob")).id);
    for (number, user) in [(1, ann), (2, bob), (3, ann)] {
        fixture.store.store_token(token(number, user), 10).wait().unwrap();
    }
    assert_eq!(fixture.store.token(&digest(2)).unwrap(), Some(token(2, bob).token));
    assert_eq!(fixture.store.token(&digest(4)).unwrap(), None);
    assert_eq!(fixture.store.tokens(ann).unwrap(), [token(1, ann).token, token(3, ann).token]);
    let revoke = |user, number: u128| fixture.store.revoke_token(user, TokenId::from_bits(number)).wait();
    assert_eq!(revoke(bob, 1), Ok(false), "another user's token");
    assert_eq!((revoke(ann, 1), revoke(ann, 1)), (Ok(true), Ok(false)));
    let fixture = fixture.crash();
    assert_eq!(fixture.store.token(&digest(1)).unwrap(), None);
    assert_eq!(fixture.store.tokens(ann).unwrap(), [token(3, ann).token]);
    assert_eq!(fixture.store.token(&digest(3)).unwrap(), Some(token(3, ann).token));
}

#[test]
fn p8_tokens_are_limited_for_each_user_and_expired_ones_are_replaced() {
    let fixture = Fixture::new();
    let mut short = token(1, UserId(2));
    short.token.expires_at_ms = Some(NOW_MS + 5);
    fixture.store.store_token(short.clone(), 2).wait().unwrap();
    fixture.store.store_token(token(2, UserId(2)), 2).wait().unwrap();
    let full = fixture.store.store_token(token(3, UserId(2)), 2).wait();
    assert_eq!(full, Err(AccountError::TokensFull { limit: 2 }));
    assert!(fixture.store.store_token(token(4, UserId(3)), 2).wait().is_ok(), "the limit is per user");
    fixture.clock.advance(5);
    assert_eq!(
        fixture.store.token(&digest(1)).unwrap(),
        Some(short.token),
        "an expired token can still be reported as expired"
    );
    fixture.store.store_token(token(3, UserId(2)), 2).wait().unwrap();
    assert_eq!(fixture.store.token(&digest(1)).unwrap(), None);
    assert_eq!(fixture.store.tokens(UserId(2)).unwrap().len(), 2);
}

#[test]
fn p7_unfinished_jobs_are_counted_for_each_user_up_to_a_maximum() {
    let fixture = Fixture::new();
    fixture.submit((1..=3).map(|number| job(number, ANN)));
    fixture.submit([job(4, BOB)]);
    let count = |user, limit| fixture.store.unfinished_count(user, limit).unwrap();
    assert_eq!((count(ANN, 10), count(ANN, 2), count(ANN, 0), count(BOB, 10)), (3, 2, 0, 1));
    let lease = fixture.claim();
    assert_eq!(count(ANN, 10) + count(BOB, 10), 4, "a running job is unfinished");
    let user = lease.job.user;
    let before = count(user, 10);
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    assert_eq!(count(user, 10), before - 1);
    assert_eq!(count(UserId(9), 10), 0);
}

#[test]
fn accounts_are_listed_in_pages_and_survive_a_crash() {
    let fixture = Fixture::new();
    for number in 2..=6 {
        made(&fixture, newcomer(&format!("user{number}")));
    }
    let fixture = fixture.crash();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.store.accounts(after, 4).unwrap();
        seen.extend(page.accounts.iter().map(|found| (found.id.0, found.username.as_str().to_owned())));
        after = page.accounts.last().map(|last| last.id);
        if !page.has_more {
            break;
        }
        assert_eq!(page.accounts.len(), 4);
    }
    let named = (2..=6).map(|number| (number, format!("user{number}")));
    let all: Vec<_> = std::iter::once((1, "default".to_owned())).chain(named).collect();
    assert_eq!(seen, all);
    assert_eq!(fixture.store.accounts(Some(UserId(6)), 4).unwrap().accounts, []);
    assert_eq!(made(&fixture, newcomer("next")).id, UserId(7), "numbers continue");
    let empty = Fixture::new();
    let page = empty.store.accounts(None, 1).unwrap();
    assert_eq!((page.accounts.len(), page.has_more), (1, false));
}

#[test]
fn p9_a_damaged_account_row_makes_no_new_user_an_administrator() {
    use redb::TableDefinition;
    const USERS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("users");
    let fixture = Fixture::file();
    assert!(fixture.store.has_no_accounts().unwrap());
    let ann = made(&fixture, newcomer("Ann"));
    assert!(!fixture.store.has_no_accounts().unwrap());
    fixture.store.close();
    let database = redb::Database::open(fixture.path()).unwrap();
    let writing = database.begin_write().unwrap();
    let key = u128::from(ann.id.0).to_be_bytes();
    let was =
        writing.open_table(USERS).unwrap().insert(key.as_slice(), b"\x01{".as_slice()).unwrap().is_some();
    assert!(was, "her row");
    writing.commit().unwrap();
    drop(database);
    let fixture = fixture.crash();
    assert!(!fixture.store.has_no_accounts().unwrap());
    assert_eq!(set_up(&fixture, 1, ValidSetupInvite::Kept), Err(AccountError::AccountExists));
    let refused = come(&fixture, "bob", public(Registration::Closed, None));
    assert_eq!(refused, Err(AccountError::RegistrationClosed));
    assert_eq!(made(&fixture, newcomer("Bob")).role, Role::User);
    // An unreadable account does not count as an administrator.
    let with_password = AccountChange { password: Some(hash("x")), ..AccountChange::default() };
    change(&fixture, UserId::SINGLE, with_password).unwrap();
    let no_more = AccountChange { role: Some(Role::User), ..AccountChange::default() };
    assert_eq!(change(&fixture, UserId::SINGLE, no_more), Err(AccountError::LastAdmin));
}

#[test]
fn p8_accounts_are_limited() {
    let fixture = Fixture::with(&Limits { accounts: 3, ..Limits::default() });
    made(&fixture, newcomer("Ann"));
    made(&fixture, newcomer("Bob"));
    let full = Err(AccountError::AccountsFull { limit: 3 });
    assert_eq!(fixture.store.register(newcomer("Cid")).wait(), full);
    let by_admin = NewAccount { admission: RegistrationGate::ByAdmin, ..newcomer("Cid") };
    assert_eq!(fixture.store.register(by_admin).wait(), full);
}

#[test]
fn disabling_an_account_raises_its_session_generation() {
    let fixture = Fixture::new();
    made(&fixture, newcomer("Ann"));
    let bob = made(&fixture, newcomer("Bob"));
    let active = |is_active| AccountChange { is_active: Some(is_active), ..AccountChange::default() };
    let generation =
        |is_active| change(&fixture, bob.id, active(is_active)).unwrap().expect("Bob").generation;
    assert_eq!([true, false, false, true].map(generation), [0, 1, 1, 1]);
}

#[test]
fn an_account_stored_before_names_were_normalised_keeps_its_name_and_is_found_by_it() {
    let fixture = Fixture::new();
    let old = made(&fixture, newcomer("Ａｎｎ"));
    let mixed = made(&fixture, newcomer("\u{430}nn"));
    let named = |name: &str| fixture.store.account_named(name).unwrap().map(|account| account.id);
    assert_eq!(
        (named("Ａｎｎ"), named("ａｎｎ"), named("\u{410}NN")),
        (Some(old.id), Some(old.id), Some(mixed.id))
    );
    assert_eq!(named("ann"), None, "the old name is another one");
    let new = made(&fixture, newcomer("ann"));
    let seen = AccountChange { logged_in_at_ms: Some(NOW_MS), ..AccountChange::default() };
    change(&fixture, old.id, seen).unwrap();
    assert_eq!(
        (named("ann"), named("ＡNN")),
        (Some(new.id), Some(new.id)),
        "a login of the old one takes nothing"
    );
    let fixture = fixture.crash();
    assert_eq!(
        fixture.store.account(old.id).unwrap().map(|account| account.username.as_str().to_owned()),
        Some("Ａｎｎ".to_owned())
    );
}
