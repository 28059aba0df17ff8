//! `POST /api/conversations/{id}/cancel`: the stop of a front end that does not want to go away for it.

use super::{find, parse_id};
use crate::http::api::envelope;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CancelledJobs"))]
#[derive(Serialize)]
pub(crate) struct View {
    /// Jobs that were asked to end.
    cancelled: usize,
}

/// Cancels whatever of the conversation has not ended. The newest first, so that none begins because another one ends.
pub(crate) async fn cancel(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let (user, id) = (call.user, parse_id(call.segment("id"))?);
    find(door, user, id.as_str()).await?;
    let conversations = Arc::clone(&door.room.conversations);
    let jobs = door.read(move |_| conversations.unfinished(user, &id)).await?;
    for job in &jobs {
        door.room.store.cancel(user, *job).await?;
    }
    Ok(envelope::data(View { cancelled: jobs.len() }))
}
