//! `/api/users`: accounts, as administrators see and change them.

use super::account_view::AccountView;
use super::auth::form;
use super::object::object;
use super::page::{self, Page};
use super::{envelope, tokens};
use crate::domain::account::{Account, Email, PasswordHash, Quota, Role, Username};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::http::arriving::Arriving;
use crate::http::auth::password;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::{Query, digits};
use crate::http::quoted::quoted;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::{Fields, wrong};
use crate::ports::{AccountChange, NewAccount, RegistrationGate};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a page holds when nobody asks for more.
const PAGE: usize = 20;
/// The most that a quota can be: what JSON numbers hold exactly.
pub(crate) const QUOTA_MAX: u64 = (1 << 53) - 1;
const ROLES: &[&str] = &["admin", "user"];
/// The fields of who is made, and of what is changed.
pub(crate) const NEWCOMER: &[&str] = &["username", "password", "email", "role"];
pub(crate) const CHANGE: &[&str] = &["role", "is_active", "quota", "password"];
pub(crate) const QUOTAS: &[&str] = &["tokens_per_day", "unfinished_jobs", "project_bytes"];

/// An account and what it may use.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "User"))]
#[derive(Debug, Serialize)]
pub(crate) struct UserView {
    #[serde(flatten)]
    account: AccountView,
    quota: Quota,
}

impl UserView {
    /// What administrators see of it.
    pub(crate) fn of(account: Account) -> Self {
        Self { quota: account.quota, account: AccountView::of(account) }
    }
}

/// `GET /api/users`: by number; `?username=` for the one of that name.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &["cursor", "limit", "username"])?;
    let limit = page::limit(&query, PAGE, &door.room.limits)?;
    let after = query.text("cursor").map(cursor).transpose()?;
    let users = Arc::clone(&door.room.users);
    if let Some(name) = query.text("username").map(str::to_owned) {
        let found = door.read(move |_| users.account_named(&name)).await?;
        return Ok(envelope::data(Page::new(found.into_iter().map(UserView::of).collect(), None)));
    }
    let page = door.read(move |_| users.accounts(after, limit)).await?;
    let next = page.accounts.last().filter(|_| page.has_more).map(|last| last.id.0.to_string());
    Ok(envelope::data(Page::new(page.accounts.into_iter().map(UserView::of).collect(), next)))
}

/// `POST /api/users`: an account for somebody else.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let newcomer = Newcomer::read(object(door, &call, body).await?)?;
    let hash = password::hash(door, newcomer.password.clone()).await?;
    let new = newcomer.into_account(hash, door.room.clock.now_ms());
    Ok(envelope::data(UserView::of(door.room.users.register(new).await?)))
}

/// `PATCH /api/users/{id}`: what is not named stays.
pub(crate) async fn change(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let user = user(&call)?;
    let map = object(door, &call, body).await?;
    let (mut change, password) = change_of(map, &account(door, user).await?)?;
    if let Some(given) = password {
        change.password = Some(password::hash(door, given).await?);
    }
    let changed = door.room.users.change_account(user, change).await?;
    Ok(envelope::data(UserView::of(changed.ok_or(Error::NotFound("user"))?)))
}

/// Somebody for whom an account is made.
pub(crate) struct Newcomer {
    username: Username,
    email: Option<Email>,
    role: Role,
    pub(crate) password: Secret,
}

impl Newcomer {
    /// What the object says.
    pub(crate) fn read(map: Map<String, Value>) -> Result<Self, Error> {
        let mut fields = Fields::new(map, NEWCOMER)?;
        let username = required("username", fields.text("username")?)?;
        let email = fields.text("email")?.map(Email::try_from).transpose();
        Ok(Self {
            username: Username::try_from(username).map_err(|rule| bad("username", rule))?,
            email: email.map_err(|rule| bad("email", rule))?,
            role: fields.word("role", ROLES)?.unwrap_or_default(),
            password: password::fit(
                "password",
                required("password", form::secret(&mut fields, "password")?)?,
            )?,
        })
    }

    /// The account, with the password as it is kept.
    pub(crate) fn into_account(self, password: PasswordHash, created_at_ms: u64) -> NewAccount {
        let Self { username, email, role, .. } = self;
        NewAccount { username, email, password, role, admission: RegistrationGate::ByAdmin, created_at_ms }
    }
}

/// What the object changes of the account, and the password that is to be hashed for it.
pub(crate) fn change_of(
    map: Map<String, Value>,
    account: &Account,
) -> Result<(AccountChange, Option<Secret>), Error> {
    let quota = map.get("quota").map(|given| quota(account.quota, given)).transpose()?;
    let mut fields = Fields::new(map, CHANGE)?;
    let given = form::secret(&mut fields, "password")?;
    let password = given.map(|given| password::fit("password", given)).transpose()?;
    let (role, is_active) = (fields.word("role", ROLES)?, fields.flag("is_active")?);
    Ok((AccountChange { role, is_active, quota, ..AccountChange::default() }, password))
}

/// `GET /api/users/{id}/tokens`.
pub(crate) async fn tokens_of(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let owner = account(door, user(call)?).await?;
    tokens::list_of(door, call, owner.id).await
}

/// `POST /api/users/{id}/tokens`.
pub(crate) async fn mint_for(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let owner = account(door, user(&call)?).await?;
    tokens::mint_for(door, &call, body, owner.id).await
}

/// `DELETE /api/users/{id}/tokens/{token}`.
pub(crate) async fn revoke_of(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    tokens::revoke_of(door, call, user(call)?, call.segment("token")).await
}

async fn account(door: &Door, user: UserId) -> Result<Account, Error> {
    let users = Arc::clone(&door.room.users);
    door.read(move |_| users.account(user)).await?.ok_or(Error::NotFound("user"))
}

fn user(call: &Call) -> Result<UserId, Error> {
    number(call.segment("id")).ok_or(Error::NotFound("user"))
}

fn number(text: &str) -> Option<UserId> {
    digits(text).and_then(|number| u32::try_from(number).ok()).map(UserId)
}

fn cursor(text: &str) -> Result<UserId, Error> {
    let wanted = || format!("'cursor' must be the next_cursor of a page, not {}", quoted(text));
    number(text).ok_or_else(|| Error::value("cursor", wanted()))
}

/// The quota as it shall be: what is `null` is unbounded, what is not named stays, and `null` for all of it is none at all.
fn quota(is: Quota, given: &Value) -> Result<Quota, Error> {
    let map = match given {
        Value::Null => return Ok(Quota::default()),
        Value::Object(map) => map,
        other => {
            return Err(wrong("quota", format_args!("an object of {}, or null", QUOTAS.join(", ")), other));
        }
    };
    let mut fields = Fields::new(map.clone(), QUOTAS)?;
    let mut read = |name: &str, is: Option<u64>| -> Result<Option<u64>, Error> {
        if map.contains_key(name) { fields.whole(name, 0..=QUOTA_MAX) } else { Ok(is) }
    };
    Ok(Quota {
        tokens_per_day: read("tokens_per_day", is.tokens_per_day)?,
        unfinished_jobs: read("unfinished_jobs", is.unfinished_jobs)?,
        project_bytes: read("project_bytes", is.project_bytes)?,
    })
}

fn required(name: &str, given: Option<String>) -> Result<String, Error> {
    given.ok_or_else(|| Error::value(name, format!("'{name}' is missing")))
}

fn bad(name: &str, rule: &str) -> Error {
    Error::value(name, format!("'{name}' {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing;
    use serde_json::json;

    fn account() -> Account {
        testing::account(2)
    }

    #[test]
    fn p9_what_is_wrong_with_a_password_does_not_tell_it() {
        for password in [json!(12_345_678), json!(["12345678"]), json!({"a": "12345678"})] {
            let given = json!({"username": "ann", "password": password});
            let newcomer = Newcomer::read(given.as_object().expect("an object").clone());
            let why = newcomer.err().expect("refused").to_string();
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
            let mut fields = Map::new();
            fields.insert("password".to_owned(), password);
            let why = change_of(fields, &account()).expect_err("refused").to_string();
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
        }
    }

    #[test]
    fn a_quota_changes_where_it_is_named_and_null_is_none() {
        let is = Quota { tokens_per_day: Some(1), unfinished_jobs: Some(2), project_bytes: Some(3) };
        let now = |given: Value| quota(is, &given).map_err(|error| error.to_string());
        assert_eq!(now(json!({})), Ok(is));
        assert_eq!(now(json!(null)), Ok(Quota::default()));
        let one = now(json!({"tokens_per_day": null, "project_bytes": 9}));
        assert_eq!(one, Ok(Quota { tokens_per_day: None, project_bytes: Some(9), ..is }));
        for given in [
            json!(5),
            json!([]),
            json!({"tokens": 5}),
            json!({"unfinished_jobs": -1}),
            json!({"project_bytes": "1"}),
        ] {
            assert!(now(given.clone()).is_err(), "{given}");
        }
    }
}
