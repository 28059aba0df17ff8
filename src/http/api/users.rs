//! `/api/users`: accounts, for administrators.

use super::account::AccountResponse;
use super::envelope::{self, PageResponse};
use super::tokens;
use crate::domain::account::{Account, Email, NewUsername, PasswordHash, Quota, Role};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::http::auth::password::NewPassword;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::query::digits;
use crate::http::request::quoted::quoted;
use crate::http::request::values::{Removable, WholeNumber, removable};
use crate::http::response::HandlerResult;
use crate::ports::{AccountChange, NewAccount, RegistrationGate};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a page holds when nobody asks for more.
const PAGE: usize = 20;

/// A limit of a quota: what JSON numbers hold exactly.
type QuotaLimit = WholeNumber<0, { (1 << 53) - 1 }>;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUserRequest {
    username: NewUsername,
    pub(crate) password: NewPassword,
    email: Option<Email>,
    role: Option<Role>,
}

impl NewUserRequest {
    pub(crate) fn into_account(self, password: PasswordHash, created_at_ms: u64) -> NewAccount {
        let Self { username: NewUsername(username), email, role, .. } = self;
        let (role, admission) = (role.unwrap_or_default(), RegistrationGate::ByAdmin);
        NewAccount { username, email, password, role, admission, created_at_ms }
    }
}

/// A change. `null` removes the whole quota.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChangeRequest {
    role: Option<Role>,
    is_active: Option<bool>,
    #[serde(default, deserialize_with = "removable")]
    quota: Removable<QuotaRequest>,
    password: Option<NewPassword>,
}

impl UserChangeRequest {
    /// The change, and the new password, which has to be hashed.
    pub(crate) fn into_change(self, old: Quota) -> (AccountChange, Option<Secret>) {
        let quota = self.quota.map(|quota| quota.map_or_else(Quota::default, |quota| quota.change(old)));
        let (role, is_active) = (self.role, self.is_active);
        let change = AccountChange { role, is_active, quota, ..AccountChange::default() };
        (change, self.password.map(|password| password.0))
    }
}

/// Absent limits stay, `null` removes one.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaRequest {
    #[serde(default, deserialize_with = "removable")]
    tokens_per_day: Removable<QuotaLimit>,
    #[serde(default, deserialize_with = "removable")]
    cost_micros_per_day: Removable<QuotaLimit>,
    #[serde(default, deserialize_with = "removable")]
    unfinished_jobs: Removable<QuotaLimit>,
    #[serde(default, deserialize_with = "removable")]
    project_bytes: Removable<QuotaLimit>,
    #[serde(default, deserialize_with = "removable")]
    stored_bytes: Removable<QuotaLimit>,
}

impl QuotaRequest {
    fn change(self, old: Quota) -> Quota {
        let new = |given: Removable<QuotaLimit>, old| given.map_or(old, |limit| limit.map(|limit| limit.0));
        Quota {
            tokens_per_day: new(self.tokens_per_day, old.tokens_per_day),
            cost_micros_per_day: new(self.cost_micros_per_day, old.cost_micros_per_day),
            unfinished_jobs: new(self.unfinished_jobs, old.unfinished_jobs),
            project_bytes: new(self.project_bytes, old.project_bytes),
            stored_bytes: new(self.stored_bytes, old.stored_bytes),
        }
    }
}

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
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let limit = envelope::limit(query, PAGE, &context.app.limits)?;
    let after = query.text("cursor").map(cursor).transpose()?;
    let users = Arc::clone(&context.app.users);
    if let Some(name) = query.text("username").map(str::to_owned) {
        let found = context.read(request.user, move |_| users.account_named(&name)).await?;
        return Ok(envelope::data(PageResponse::new(
            found.into_iter().map(UserResponse::of).collect(),
            None,
        )));
    }
    let page = context.read(request.user, move |_| users.accounts(after, limit)).await?;
    let next = page.accounts.last().filter(|_| page.has_more).map(|last| last.id.0.to_string());
    Ok(envelope::data(PageResponse::new(page.accounts.into_iter().map(UserResponse::of).collect(), next)))
}

/// `POST /api/users`: an account for somebody else.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: NewUserRequest = json::read(context, &request, body).await?;
    let hash = context
        .auth
        .passwords
        .hash(request.owner, body.password.0.clone(), context.app.entropy.as_ref())
        .await?;
    let new = body.into_account(hash, context.app.clock.now_ms());
    Ok(envelope::data(UserResponse::of(context.app.users.register(new).await?)))
}

/// `PATCH /api/users/{id}`: what is not named stays.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let user = user(&request)?;
    let body: UserChangeRequest = json::read(context, &request, body).await?;
    let (mut change, password) = body.into_change(account(context, &request, user).await?.quota);
    if let Some(new) = password {
        change.password =
            Some(context.auth.passwords.hash(request.owner, new, context.app.entropy.as_ref()).await?);
    }
    let changed = context.app.users.change_account(user, change).await?;
    Ok(envelope::data(UserResponse::of(changed.ok_or(ApiError::NotFound("user"))?)))
}

/// `GET /api/users/{id}/tokens`.
pub(crate) async fn tokens_of(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let owner = account(context, request, user(request)?).await?;
    tokens::list_of(context, request.user, owner.id).await
}

/// `POST /api/users/{id}/tokens`.
pub(crate) async fn mint_for(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let owner = account(context, &request, user(&request)?).await?;
    tokens::mint_for(context, &request, body, owner.id).await
}

/// `DELETE /api/users/{id}/tokens/{token}`.
pub(crate) async fn revoke_of(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    tokens::revoke_of(context, request, user(request)?, "token").await
}

async fn account(
    context: &ServerContext,
    request: &RequestContext,
    user: UserId,
) -> Result<Account, ApiError> {
    let users = Arc::clone(&context.app.users);
    context.read(request.user, move |_| users.account(user)).await?.ok_or(ApiError::NotFound("user"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::typed::from_map;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
        from_map(value.as_object().expect("an object").clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn p9_password_errors_do_not_contain_the_password() {
        for password in [json!(12_345_678), json!(["12345678"]), json!({"a": "12345678"})] {
            let newcomer = read::<NewUserRequest>(&json!({"username": "ann", "password": password}));
            let why = newcomer.err().expect("refused");
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
            let why = read::<UserChangeRequest>(&json!({"password": password})).err().expect("refused");
            assert!(why.contains("'password' must be a string") && !why.contains("12345678"), "{why}");
        }
    }

    #[test]
    fn given_quota_fields_change_and_null_removes_them() {
        let old = Quota {
            tokens_per_day: Some(1),
            cost_micros_per_day: Some(5),
            unfinished_jobs: Some(2),
            project_bytes: Some(3),
            stored_bytes: Some(4),
        };
        let now = |given: Value| {
            let body: UserChangeRequest = read(&json!({"quota": given}))?;
            Ok(body.into_change(old).0.quota.expect("a change"))
        };
        assert_eq!(now(json!({})), Ok::<_, String>(old));
        assert_eq!(now(json!(null)), Ok(Quota::default()));
        let one = now(json!({"tokens_per_day": null, "project_bytes": 9}));
        assert_eq!(one, Ok(Quota { tokens_per_day: None, project_bytes: Some(9), ..old }));
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
