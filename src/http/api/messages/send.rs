//! `POST …/messages` and `POST …/regenerate/{mid}`: the job is stored and its events are the response.
//!
//! The job runs on when the client leaves, unless the body says `on_disconnect: "cancel"`. A regenerated
//! answer replaces the old one and everything after it.

use super::request::{AnswerRequest, MessageRequest};
use super::{answer_id, check_shown, job};
use crate::domain::id::{ConversationId, MessageId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::http::api::conversations::find;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body as request_body;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::response::HandlerResult;
use crate::http::sse::event::StreamFormat;
use crate::http::sse::frame::TextMode;
use crate::http::v1::idempotency::{self, RequestFingerprint};
use crate::http::v1::jobs::events;
use crate::http::v1::jobs::store::store;
use crate::http::v1::jobs::stream::{NewJobReader, streamed};
use crate::ports::{ConversationError, MessageRef, NewJob, NewWork, RegenerateRequest};
use std::sync::Arc;

/// Stores the message with the job that answers it, and answers with the job's events.
pub(crate) async fn send(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (wire, text) = stream_options(&request)?;
    let given = idempotency::key(&request.headers)?;
    let conversation = find(context, request.user, request.segment("id")).await?;
    let body = request_body::read(context, &request.headers, body).await?;
    let key: Option<IdempotencyKey> = given.map(|key| {
        let mut fingerprint = RequestFingerprint::new("message");
        fingerprint.update(conversation.id.as_str().as_bytes());
        fingerprint.update(&[0]);
        fingerprint.update(&body.bytes);
        key.of(fingerprint)
    });
    let (caller, socket) = (request.caller, request.socket.clone());
    drop(request); // frees the headers while the job runs
    let bytes = body.bytes.len();
    let (message, options) = json::read_large(context, body, MessageRequest::into_message).await?;
    quota::check(context, conversation.user, given, NewWork::job(bytes)).await?;
    let job = job::job(context, conversation, vec![message], &options).await?;
    let on_disconnect = options.on_disconnect;
    let reader = NewJobReader { caller, job: job.id, on_disconnect, socket };
    streamed(context, reader, (wire, text), store(context, job, key)).await
}

pub(crate) fn stream_options(request: &RequestContext) -> Result<(StreamFormat, TextMode), ApiError> {
    let query = &request.query;
    Ok((events::wire(&request.headers), events::text(query)?))
}

/// Stores a job that answers again, and answers with its events.
pub(crate) async fn regenerate(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (wire, text) = stream_options(&request)?;
    let conversation = find(context, request.user, request.segment("id")).await?;
    let answer = answer_id(request.segment("mid"))?;
    let body = request_body::read(context, &request.headers, body).await?;
    let (caller, socket) = (request.caller, request.socket.clone());
    drop(request); // frees the headers while the job runs
    let into_options = |request: AnswerRequest, _: &AppDependencies| request.into_options();
    let options = json::read_large(context, body, into_options).await?;
    let id = conversation.id.clone();
    quota::check(context, conversation.user, None, NewWork::job(0)).await?;
    let job = job::job(context, conversation, Vec::new(), &options).await?;
    let on_disconnect = options.on_disconnect;
    let reader = NewJobReader { caller, job: job.id, on_disconnect, socket };
    streamed(context, reader, (wire, text), store_regenerated(context, id, answer, job)).await
}

async fn store_regenerated(
    context: &Arc<ServerContext>,
    id: ConversationId,
    answer: MessageId,
    job: NewJob,
) -> Result<(Job, bool), ApiError> {
    check_shown(context, job.user, &id, MessageRef::Answer(answer)).await?;
    match context.app.conversations.regenerate(job.user, id, RegenerateRequest { answer, job }).await {
        Ok(Some(job)) => Ok((job, false)),
        Ok(None) => Err(ApiError::NotFound("message")),
        Err(ConversationError::WrongState { .. }) => Err(ApiError::Conflict(
            "a job of the conversation has not ended; wait for its end or cancel it first".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}
