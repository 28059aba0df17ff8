//! `/api/users`: accounts, for administrators.

use super::account::AccountResponse;
use super::auth::body;
use super::body::object;
use super::envelope::{self, PageResponse};
use super::tokens;
use crate::domain::account::{Account, Email, PasswordHash, Quota, Role, Username};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::http::auth::password;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::query::{QueryString, digits};
use crate::http::request::quoted::quoted;
use crate::http::response::HttpResponse;
use crate::ports::{AccountChange, NewAccount, RegistrationGate};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a page holds when nobody asks for more.
const PAGE: usize = 20;
/// The most that a quota can be: what JSON numbers hold exactly.
pub(crate) const QUOTA_MAX: u64 = (1 << 53) - 1;
const ROLES: &[&str] = &["admin", "user"];
/// The fields of a new account and of a change.
pub(crate) const NEWCOMER: &[&str] = &["username", "password", "email", "role"];
pub(crate) const CHANGE: &[&str] = &["role", "is_active", "quota", "password"];
pub(crate) const QUOTAS: &[&str] = &["tokens_per_day", "unfinished_jobs", "project_bytes"];

/// An account and what it may use.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "User"))]
#[derive(Debug, Serialize)]
pub(crate) struct UserResponse {
    #[serde(flatten)]
    account: AccountResponse,
    quota: Quota,
}

impl UserResponse {
    /// What administrators see of it.
    pub(crate) fn of(account: Account) -> Self {
        Self { quota: account.quota, account: AccountResponse::of(account) }
    }
}

/// `GET /api/users`: by number, or the one with `?username=`.
pub(crate) async fn list(
    context: &Arc<ServerContext>,
    request: &RequestContext,
) -> Result<HttpResponse, ApiError> {
    let query = QueryString::parse(request.query.as_deref(), &["cursor", "limit", "username"])?;
    let limit = envelope::limit(&query, PAGE, &context.app.limits)?;
    let after = query.text("cursor").map(cursor).transpose()?;
    let users = Arc::clone(&context.app.users);
    if let Some(name) = query.text("username").map(str::to_owned) {
        let found = context.read(move |_| users.account_named(&name)).await?;
        return Ok(envelope::data(PageResponse::new(
            found.into_iter().map(UserResponse::of).collect(),
            None,
        )));
    }
    let page = context.read(move |_| users.accounts(after, limit)).await?;
    let next = page.accounts.last().filter(|_| page.has_more).map(|last| last.id.0.to_string());
    Ok(envelope::data(PageResponse::new(page.accounts.into_iter().map(UserResponse::of).collect(), next)))
}

/// `POST /api/users`: an account for somebody else.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    let newcomer = NewUserRequest::read(object(context, &request, body).await?)?;
    let hash = context.auth.passwords.hash(newcomer.password.clone(), context.app.entropy.as_ref()).await?;
    let new = newcomer.into_account(hash, context.app.clock.now_ms());
    Ok(envelope::data(UserResponse::of(context.app.users.register(new).await?)))
}

/// `PATCH /api/users/{id}`: what is not named stays.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    let user = user(&request)?;
    let map = object(context, &request, body).await?;
    let (mut change, password) = change_of(map, &account(context, user).await?)?;
    if let Some(given) = password {
        change.password = Some(context.auth.passwords.hash(given, context.app.entropy.as_ref()).await?);
    }
    let changed = context.app.users.change_account(user, change).await?;
    Ok(envelope::data(UserResponse::of(changed.ok_or(ApiError::NotFound("user"))?)))
}

pub(crate) struct NewUserRequest {
    username: Username,
    email: Option<Email>,
    role: Role,
    pub(crate) password: Secret,
}

impl NewUserRequest {
    pub(crate) fn read(map: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = ObjectFields::new(map, NEWCOMER)?;
        let username = required("username", fields.text("username")?)?;
        let email = fields.text("email")?.map(Email::try_from).transpose();
        Ok(Self {
            username: Username::try_from(username).map_err(|rule| bad("username", rule))?,
            email: email.map_err(|rule| bad("email", rule))?,
            role: fields.word("role", ROLES)?.unwrap_or_default(),
            password: password::check_length(
                "password",
                required("password", body::secret(&mut fields, "password")?)?,
            )?,
        })
    }

    pub(crate) fn into_account(self, password: PasswordHash, created_at_ms: u64) -> NewAccount {
        let Self { username, email, role, .. } = self;
        NewAccount { username, email, password, role, admission: RegistrationGate::ByAdmin, created_at_ms }
    }
}

/// The change in the object, and a new password, which has to be hashed.
pub(crate) fn change_of(
    map: Map<String, Value>,
    account: &Account,
) -> Result<(AccountChange, Option<Secret>), ApiError> {
    let quota = map.get("quota").map(|given| quota(account.quota, given)).transpose()?;
    let mut fields = ObjectFields::new(map, CHANGE)?;
    let given = body::secret(&mut fields, "password")?;
    let password = given.map(|given| password::check_length("password", given)).transpose()?;
    let (role, is_active) = (fields.word("role", ROLES)?, fields.flag("is_active")?);
    Ok((AccountChange { role, is_active, quota, ..AccountChange::default() }, password))
}

/// `GET /api/users/{id}/tokens`.
pub(crate) async fn tokens_of(
    context: &Arc<ServerContext>,
    request: &RequestContext,
) -> Result<HttpResponse, ApiError> {
    let owner = account(context, user(request)?).await?;
    tokens::list_of(context, request, owner.id).await
}

/// `POST /api/users/{id}/tokens`.
pub(crate) async fn mint_for(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    let owner = account(context, user(&request)?).await?;
    tokens::mint_for(context, &request, body, owner.id).await
}

/// `DELETE /api/users/{id}/tokens/{token}`.
pub(crate) async fn revoke_of(
    context: &Arc<ServerContext>,
    request: &RequestContext,
) -> Result<HttpResponse, ApiError> {
    tokens::revoke_of(context, request, user(request)?, request.segment("token")).await
}

async fn account(context: &ServerContext, user: UserId) -> Result<Account, ApiError> {
    let users = Arc::clone(&context.app.users);
    context.read(move |_| users.account(user)).await?.ok_or(ApiError::NotFound("user"))
}

fn user(request: &RequestContext) -> Result<UserId, ApiError> {
    number(request.segment("id")).ok_or(ApiError::NotFound("user"))
}

fn number(text: &str) -> Option<UserId> {
    digits(text).and_then(|number| u32::try_from(number).ok()).map(UserId)
}

fn cursor(text: &str) -> Result<UserId, ApiError> {
    let wanted = || format!("'cursor' must be the next_cursor of a page, not {}", quoted(text));
    number(text).ok_or_else(|| ApiError::value("cursor", wanted()))
}

/// The new quota: absent fields stay, `null` removes a limit, and `null` for the whole quota removes all.
fn quota(is: Quota, given: &Value) -> Result<Quota, ApiError> {
    let map = match given {
        Value::Null => return Ok(Quota::default()),
        Value::Object(map) => map,
        other => {
            return Err(wrong("quota", format_args!("an object of {}, or null", QUOTAS.join(", ")), other));
        }
    };
    let mut fields = ObjectFields::new(map.clone(), QUOTAS)?;
    let mut read = |name: &str, is: Option<u64>| -> Result<Option<u64>, ApiError> {
        if map.contains_key(name) { fields.whole(name, 0..=QUOTA_MAX) } else { Ok(is) }
    };
    Ok(Quota {
        tokens_per_day: read("tokens_per_day", is.tokens_per_day)?,
        unfinished_jobs: read("unfinished_jobs", is.unfinished_jobs)?,
        project_bytes: read("project_bytes", is.project_bytes)?,
    })
}

fn required(name: &str, given: Option<String>) -> Result<String, ApiError> {
    given.ok_or_else(|| ApiError::value(name, format!("'{name}' is missing")))
}

fn bad(name: &str, rule: &str) -> ApiError {
    ApiError::value(name, format!("'{name}' {rule}"))
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
    fn p9_errors_about_a_password_do_not_repeat_it() {
        for password in [json!(12_345_678), json!(["12345678"]), json!({"a": "12345678"})] {
            let given = json!({"username": "ann", "password": password});
            let newcomer = NewUserRequest::read(given.as_object().expect("an object").clone());
            let why = newcomer.err().expect("refused").to_string();
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
            let mut fields = Map::new();
            fields.insert("password".to_owned(), password);
            let why = change_of(fields, &account()).expect_err("refused").to_string();
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
        }
    }

    #[test]
    fn a_quota_changes_in_named_fields_and_null_removes_it() {
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
