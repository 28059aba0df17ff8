//! `POST /api/auth/ticket`: what an `EventSource` without cookies shows in `?ticket=`. It opens streams for half a minute and does
//! nothing else. A browser that reconnects to the same address later needs the cookie.

use crate::http::api::envelope;
use crate::http::auth::{Purpose, TICKET_S};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Ticket"))]
#[derive(Serialize)]
pub(crate) struct View {
    ticket: String,
    /// Seconds.
    expires_in: u64,
}

/// Gives one out.
pub(crate) fn ticket(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    if !call.caller.scopes.read {
        return Err(Error::Forbidden("the API key lacks the scope 'read'"));
    }
    let room = &door.room;
    let account = room.users.account(call.user)?.ok_or(Error::NotFound("account"))?;
    let ticket = door.auth.sessions.sign(&account, Purpose::Ticket, room.clock.now_ms(), TICKET_S)?;
    Ok(envelope::data(View { ticket, expires_in: TICKET_S }))
}
