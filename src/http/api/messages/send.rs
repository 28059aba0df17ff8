//! `POST /api/conversations/{id}/messages`: a message, and the stream of its answer. What is answered is stored, whether the
//! client stays or not; `on_disconnect: "cancel"` is for one whose leaving means stop.

use super::{body, order};
use crate::domain::idempotency::IdempotencyKey;
use crate::http::api::conversations::find;
use crate::http::api::object::large_object;
use crate::http::arriving::Arriving;
use crate::http::body as request_body;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::frame::{Text, Wire};
use crate::http::query::Query;
use crate::http::quota;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::events;
use crate::http::v1::once::{self, Fingerprint};
use crate::http::v1::stored::store;
use crate::http::v1::streamed::{Reader, streamed};
use std::sync::Arc;

/// Stores the message with the job that answers it, and answers with the job's events.
pub(crate) async fn send(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let (wire, text) = manner(&call)?;
    let given = once::key(&call.headers)?;
    let conversation = find(door, call.user, call.segment("id")).await?;
    let body = request_body::read(door, &call.headers, body).await?;
    let key: Option<IdempotencyKey> = given.map(|key| {
        let mut fingerprint = Fingerprint::new("message");
        fingerprint.take_in(conversation.id.as_str().as_bytes());
        fingerprint.take_in(&[0]);
        fingerprint.take_in(&body.bytes);
        key.of(fingerprint)
    });
    drop(call); // nothing of the request outlives its reading
    let said = large_object(door, body, body::said).await?;
    quota::check(door, conversation.user, given).await?;
    let job = order::job(door, conversation, vec![said.message], &said.wish).await?;
    let on_disconnect = said.wish.on_disconnect;
    let reader = Reader { user: job.user, job: job.id, on_disconnect, wire, text };
    streamed(door, reader, store(door, job, key)).await
}

/// How the client wants its events.
pub(super) fn manner(call: &Call) -> Result<(Wire, Text), Error> {
    let query = Query::parse(call.query.as_deref(), &["format"])?;
    Ok((events::wire(&call.headers), events::text(&query)?))
}
