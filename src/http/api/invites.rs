//! `POST /api/invites`: a code with which one person may register. It is shown once.

use super::body::object;
use super::envelope::{self, date};
use crate::http::auth::api_key::{SecretKind, generate};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::ObjectFields;
use crate::http::response::HttpResponse;
use crate::ports::NewInvite;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Default lifetime of an invite, seconds.
const USUAL_S: u64 = 7 * 24 * 3_600;
/// At most.
const LONGEST_S: u64 = 366 * 24 * 3_600;
pub(crate) const KNOWN: &[&str] = &["expires_in_s"];

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
) -> Result<HttpResponse, ApiError> {
    let holds_s = read(object(context, &request, body).await?)?;
    let expires_at_ms = context.app.clock.now_ms().saturating_add(holds_s.saturating_mul(1_000));
    let invite = generate(SecretKind::Invite, context.app.entropy.as_ref());
    context.app.users.store_invite(NewInvite { digest: invite.digest, expires_at_ms }).await?;
    Ok(envelope::data(InviteResponse { code: invite.secret.reveal(), expires_at: date(expires_at_ms) }))
}

/// The lifetime, seconds.
pub(crate) fn read(map: Map<String, Value>) -> Result<u64, ApiError> {
    let mut fields = ObjectFields::new(map, KNOWN)?;
    Ok(fields.whole("expires_in_s", 1..=LONGEST_S)?.unwrap_or(USUAL_S))
}
