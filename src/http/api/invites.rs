//! `POST /api/invites`: a code with which one person may register. It is shown once.

use super::envelope::{self, date};
use crate::http::auth::api_key::{SecretKind, generate};
use crate::http::context::ServerContext;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::WholeNumber;
use crate::http::response::HandlerResult;
use crate::ports::NewInvite;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Default lifetime of an invite, seconds.
const USUAL_S: u64 = 7 * 24 * 3_600;
/// At most.
const LONGEST_S: u64 = 366 * 24 * 3_600;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InviteRequest {
    expires_in_s: Option<WholeNumber<1, LONGEST_S>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Invite"))]
#[derive(Serialize)]
pub(crate) struct InviteResponse<'a> {
    code: &'a str,
    expires_at: String,
}

pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: InviteRequest = json::read(context, &request, body).await?;
    let life_s = body.expires_in_s.map_or(USUAL_S, |life| life.0);
    let expires_at_ms = context.app.clock.now_ms().saturating_add(life_s.saturating_mul(1_000));
    let invite = generate(SecretKind::Invite, context.app.entropy.as_ref());
    context.app.users.store_invite(NewInvite { digest: invite.digest, expires_at_ms }).await?;
    Ok(envelope::data(InviteResponse { code: invite.secret.reveal(), expires_at: date(expires_at_ms) }))
}
