//! `POST /api/conversations/{id}/regenerate/{mid}`: the same question, asked anew with the conversation's settings as they
//! are now; the answer gives way, with all that came after it.

use super::send::manner;
use super::{answer_of, body, must_show, order};
use crate::domain::id::{ConversationId, MessageId};
use crate::domain::job::Job;
use crate::http::api::conversations::find;
use crate::http::api::object::large_object;
use crate::http::arriving::Arriving;
use crate::http::body as request_body;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::quota;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::streamed::{Reader, streamed};
use crate::ports::{MessageRef, NewJob, RegenerateRequest, StoreError};
use std::sync::Arc;

/// Stores the job that answers anew, and answers with its events.
pub(crate) async fn regenerate(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    let (wire, text) = manner(&call)?;
    let conversation = find(door, call.user, call.segment("id")).await?;
    let answer = answer_of(call.segment("mid"))?;
    let body = request_body::read(door, &call.headers, body).await?;
    drop(call); // nothing of the request outlives its reading
    let wish = large_object(door, body, body::wish).await?;
    let id = conversation.id.clone();
    quota::check(door, conversation.user, None).await?;
    let job = order::job(door, conversation, Vec::new(), &wish).await?;
    let reader = Reader { user: job.user, job: job.id, on_disconnect: wish.on_disconnect, wire, text };
    streamed(door, reader, store(door, id, answer, job)).await
}

/// The stored job, which no key can have stored before.
async fn store(
    door: &Arc<Door>,
    id: ConversationId,
    answer: MessageId,
    job: NewJob,
) -> Result<(Job, bool), Error> {
    must_show(door, job.user, &id, MessageRef::Answer(answer)).await?;
    match door.room.conversations.regenerate(job.user, id, RegenerateRequest { answer, job }).await {
        Ok(Some(job)) => Ok((job, false)),
        Ok(None) => Err(Error::NotFound("message")),
        Err(StoreError::WrongState { .. }) => Err(Error::Conflict(
            "a job of the conversation has not ended; wait for its end or cancel it first".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}
