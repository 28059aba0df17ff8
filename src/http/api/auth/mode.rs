//! `GET /api/auth/mode`.

use crate::http::api::envelope;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AuthMode"))]
#[derive(Serialize)]
pub(crate) struct View {
    mode: &'static str,
}

/// Whether there are accounts.
pub(crate) fn mode(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    Ok(envelope::data(View { mode: door.room.auth.mode.as_str() }))
}
