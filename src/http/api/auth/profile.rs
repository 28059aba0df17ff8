//! `GET` and `PATCH /api/auth/profile`: the own account.

use super::{BODY_BOUNDS, token};
use crate::domain::account::{Account, AuthMode, Email, Quota, TokenScopes};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::domain::workspace::Workspace;
use crate::http::api::account::AccountResponse;
use crate::http::api::envelope;
use crate::http::auth::password::NewPassword;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::quoted::quoted;
use crate::http::request::values::{PlainText, Removable, SecretText, removable};
use crate::http::response::HandlerResult;
use crate::ports::{AccountChange, FileError, WorkQuota};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const GONE: ApiError = ApiError::NotFound("account");

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Profile"))]
#[derive(Serialize)]
pub(crate) struct ProfileResponse {
    #[serde(flatten)]
    user: AccountResponse,
    quota: Quota,
    /// With `?include=used` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<QuotaUseResponse>,
    /// A new session after a new password, which ends all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl ProfileResponse {
    fn of(account: Account) -> Self {
        Self { quota: account.quota, user: AccountResponse::of(account), used: None, token: None }
    }
}

/// What an account uses, whether or not it has quotas.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "QuotaUse"))]
#[derive(Serialize)]
pub(crate) struct QuotaUseResponse {
    /// Model tokens of today (UTC).
    tokens_today: u64,
    /// Their cost, millionths of the currency of the prices.
    cost_micros_today: u64,
    /// Unfinished jobs, with the lines of batches.
    unfinished_jobs: u64,
    /// Bytes in the files of all projects.
    project_bytes: u64,
    /// Bytes of jobs, batches, schedules and conversations; `null` with `auth_mode: single`, where they are
    /// not counted.
    stored_bytes: Option<u64>,
}

/// `null` removes the email or the avatar.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileRequest {
    #[serde(default, deserialize_with = "removable")]
    email: Removable<Email>,
    #[serde(default, deserialize_with = "removable")]
    avatar: Removable<PlainText<0, 512>>,
    password: Option<NewPassword>,
    current_password: Option<SecretText>,
}

/// `GET /api/auth/profile`. `?include=used` reads the sizes of all of the account's projects, so only a
/// caller that shows them asks for it.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let has_use = match request.query.text("include") {
        None => false,
        Some("used") => true,
        Some(other) => {
            let rule = format!("'include' must be used, not {}", quoted(other));
            return Err(ApiError::value("include", rule));
        }
    };
    let (app, user) = (Arc::clone(&context.app), request.user);
    let read = context.app.blocking(user, move || {
        let account = app.users.account(user)?.ok_or(GONE)?;
        let in_use = if has_use { Some(quota_use(&app, user)?) } else { None };
        Ok::<_, ApiError>(ProfileResponse { used: in_use, ..ProfileResponse::of(account) })
    });
    Ok(envelope::data(read.await??))
}

fn quota_use(app: &AppDependencies, user: UserId) -> Result<QuotaUseResponse, ApiError> {
    let today = WorkQuota::day(app.clock.now_ms());
    let usage = app.accounts.usage(user, today, today)?;
    let projects = app.projects.all_projects(user)?;
    let projects = projects.iter().map(Workspace::from);
    let workspaces: Vec<Workspace> = projects.chain([Workspace::of_memory(user)]).collect();
    let project_bytes = match app.workspaces.bytes_of(&workspaces) {
        // The rest of the profile is there on a node without the files.
        Err(FileError::Unavailable(_)) => 0,
        other => other?,
    };
    let has_sums = app.auth.mode == AuthMode::Multi;
    Ok(QuotaUseResponse {
        tokens_today: usage.iter().fold(0, |sum: u64, line| sum.saturating_add(line.usage.total_tokens)),
        cost_micros_today: usage.iter().fold(0, |sum: u64, line| sum.saturating_add(line.usage.cost_micros)),
        unfinished_jobs: app.store.unfinished_count(user, u64::MAX)?,
        project_bytes,
        stored_bytes: if has_sums { Some(app.accounts.stored_bytes(user)?) } else { None },
    })
}

/// A new password needs the current one, if there is one.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: ProfileRequest = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    let avatar = body.avatar.map(|avatar| avatar.map(|avatar| avatar.0));
    let mut change = AccountChange { email: body.email, avatar, ..AccountChange::default() };
    if let Some(password) = body.password {
        confirm(context, &request, body.current_password.map(|current| current.0)).await?;
        change.password =
            Some(context.auth.passwords.hash(request.owner, password.0, context.app.entropy.as_ref()).await?);
    }
    let opens = change.password.is_some();
    let account = context.app.users.change_account(request.user, change).await?.ok_or(GONE)?;
    answer(context, &request, account, opens)
}

fn answer(context: &ServerContext, request: &RequestContext, account: Account, opens: bool) -> HandlerResult {
    if !opens {
        return Ok(envelope::data(ProfileResponse::of(account)));
    }
    let token = token::token(context, &account)?;
    let mut response =
        envelope::data(ProfileResponse { token: Some(token.clone()), ..ProfileResponse::of(account) });
    token::set_cookie(context, &request.headers, &mut response, &token);
    Ok(response)
}

/// Checks the current password, so that an open session is not enough. Wrong ones count as failed logins.
async fn confirm(
    context: &ServerContext,
    request: &RequestContext,
    current: Option<Secret>,
) -> Result<(), ApiError> {
    let account = context.app.users.account(request.user)?.ok_or(GONE)?;
    let Some(hash) = account.password else {
        let is_whole = request.caller.scopes == TokenScopes::ALL;
        let refused = ApiError::Forbidden("the API key lacks the scopes for setting the first password");
        return if is_whole { Ok(()) } else { Err(refused) };
    };
    let Some(current) = current else {
        return Err(ApiError::value(
            "current_password",
            "'current_password' is missing: a new password needs it",
        ));
    };
    let name = account.username.as_str();
    let attempt = context.auth.throttle.attempt(name, request.address)?;
    let is_right = context.auth.passwords.is_right(request.owner, current, Some(hash)).await?;
    attempt.checked(is_right);
    if is_right { Ok(()) } else { Err(ApiError::Forbidden("'current_password' is wrong")) }
}
