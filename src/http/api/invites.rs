//! `POST /api/invites`: a code with which one person may register. It is shown once.

use super::dates::date;
use super::envelope;
use super::object::object;
use crate::http::arriving::Arriving;
use crate::http::auth::minted::{Kind, mint};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::NewInvite;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// How long an invite holds when nothing else is asked for, seconds.
const USUAL_S: u64 = 7 * 24 * 3_600;
/// At most.
const LONGEST_S: u64 = 366 * 24 * 3_600;
/// What may be said of one.
pub(crate) const KNOWN: &[&str] = &["expires_in_s"];

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Invite"))]
#[derive(Serialize)]
pub(crate) struct View<'a> {
    code: &'a str,
    expires_at: String,
}

/// Makes one.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let holds_s = read(object(door, &call, body).await?)?;
    let expires_at_ms = door.room.clock.now_ms().saturating_add(holds_s.saturating_mul(1_000));
    let invite = mint(Kind::Invite, door.room.entropy.as_ref());
    door.room.users.store_invite(NewInvite { digest: invite.digest, expires_at_ms }).await?;
    Ok(envelope::data(View { code: invite.secret.reveal(), expires_at: date(expires_at_ms) }))
}

/// How long it shall hold, seconds.
pub(crate) fn read(map: Map<String, Value>) -> Result<u64, Error> {
    let mut fields = Fields::new(map, KNOWN)?;
    Ok(fields.whole("expires_in_s", 1..=LONGEST_S)?.unwrap_or(USUAL_S))
}
