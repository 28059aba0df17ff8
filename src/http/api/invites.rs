//! `/api/invites`: codes with which one person each may register, for administrators. A code is shown once,
//! when it is made.

use super::auth::NO_ACCOUNTS;
use super::envelope::{self, PageResponse, date};
use crate::domain::account::AuthMode;
use crate::domain::id::{InviteId, UserId};
use crate::http::auth::api_key::{SecretKind, generate};
use crate::http::auth::setup_invite::{SetupInviteResponse, generate_setup_invite};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::quoted::quoted;
use crate::http::request::values::WholeNumber;
use crate::http::response::HandlerResult;
use crate::ports::{NewInvite, PendingInvite, ValidSetupInvite};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Default lifetime of an invite, seconds.
const USUAL_S: u64 = 7 * 24 * 3_600;
/// At most.
const LONGEST_S: u64 = 366 * 24 * 3_600;
/// What a page holds when nobody asks for more.
const PAGE: usize = 20;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InviteRequest {
    expires_in_s: Option<WholeNumber<1, LONGEST_S>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Invite"))]
#[derive(Serialize)]
pub(crate) struct InviteResponse<'a> {
    id: InviteId,
    code: &'a str,
    expires_at: String,
}

/// An invite that nobody has used yet. The set-up invite has no `created_by`.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PendingInvite"))]
#[derive(Serialize)]
pub(crate) struct PendingInviteResponse {
    id: InviteId,
    created_at: Option<String>,
    expires_at: String,
    created_by: Option<UserId>,
}

impl From<PendingInvite> for PendingInviteResponse {
    fn from(invite: PendingInvite) -> Self {
        let PendingInvite { id, created_at_ms, expires_at_ms, created_by } = invite;
        Self { id, created_at: created_at_ms.map(date), expires_at: date(expires_at_ms), created_by }
    }
}

/// `POST /api/invites`.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: InviteRequest = json::read(context, &request, body).await?;
    let life_s = body.expires_in_s.map_or(USUAL_S, |life| life.0);
    let created_at_ms = context.app.clock.now_ms();
    let expires_at_ms = created_at_ms.saturating_add(life_s.saturating_mul(1_000));
    let invite = generate(SecretKind::Invite, context.app.entropy.as_ref());
    let new =
        NewInvite { digest: invite.digest, created_at_ms, expires_at_ms, created_by: Some(request.user) };
    context.app.users.store_invite(new).await?;
    Ok(envelope::data(InviteResponse {
        id: new.id(),
        code: invite.secret.reveal(),
        expires_at: date(expires_at_ms),
    }))
}

/// `POST /api/invites/setup`: a set-up invite for the first account; the one before stops working.
pub(crate) async fn renew_setup(context: &Arc<ServerContext>, _: &RequestContext) -> HandlerResult {
    let app = &context.app;
    if app.auth.mode == AuthMode::Single {
        return Err(NO_ACCOUNTS);
    }
    let (invite, code) = generate_setup_invite(&app.auth.session_key, app.clock.now_ms());
    let stored = app.users.store_setup_invite(invite, ValidSetupInvite::Replaced).await?;
    let console_url = app.console_url.as_deref();
    Ok(envelope::data(SetupInviteResponse::new(&code, console_url, stored.expires_at_ms)))
}

/// `GET /api/invites`: those that can still be used, by id.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let limit = envelope::limit(query, PAGE, &context.app.limits)?;
    let after = query.text("cursor").map(cursor).transpose()?;
    let (users, now_ms) = (Arc::clone(&context.app.users), context.app.clock.now_ms());
    let page = context.read(request.user, move |_| users.invites(after, limit, now_ms)).await?;
    let next = page.invites.last().filter(|_| page.has_more).map(|last| last.id.to_string());
    let items = page.invites.into_iter().map(PendingInviteResponse::from).collect();
    Ok(envelope::data(PageResponse::new(items, next)))
}

/// `DELETE /api/invites/{id}`: its code is refused from then on.
pub(crate) async fn revoke(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let was_valid = context.app.users.revoke_invite(request.id("invite")?).await?;
    if was_valid { Ok(envelope::done("revoked")) } else { Err(ApiError::NotFound("invite")) }
}

fn cursor(text: &str) -> Result<InviteId, ApiError> {
    let wanted = || format!("'cursor' must be the next_cursor of a page, not {}", quoted(text));
    text.parse().map_err(|_| ApiError::value("cursor", wanted()))
}
