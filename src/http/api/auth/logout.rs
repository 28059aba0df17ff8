//! `POST /api/auth/logout`: takes the cookie away. A token that was given out holds until it is over, or the password changes.

use crate::http::api::envelope;
use crate::http::auth::cookie;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::header::SET_COOKIE;

/// Forgets the session in the browser.
pub(crate) fn logout(call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let mut reply = envelope::done("logged out");
    reply::set(&mut reply, SET_COOKIE, &cookie::take_away(&call.headers));
    Ok(reply)
}
