//! `POST …/messages` and `POST …/regenerate/{mid}`: the job is stored and its events are the response.
//!
//! The job runs on when the client leaves, unless the body says `on_disconnect: "cancel"`. A regenerated
//! answer, to the same question or to another one, replaces the old answer and everything after it.

use super::request::MessageRequest;
use super::{answer_id, check_shown, job};
use crate::domain::id::ConversationId;
use crate::domain::job::Job;
use crate::http::api::conversations::find;
use crate::http::context::ServerContext;
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
use crate::http::v1::jobs::store::store;
use crate::http::v1::jobs::stream::{NewJobReader, streamed};
use crate::http::v1::jobs::{events, images};
use crate::ports::{ConversationError, Idempotent, MessageRef, NewWork, RegenerateRequest};
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
    let key = given.map(|key| {
        key.of(fingerprint("message", [conversation.id.as_str().as_bytes(), body.bytes.as_slice()]))
    });
    let (caller, socket) = (request.caller, request.socket.clone());
    drop(request); // frees the headers while the job runs
    let bytes = body.bytes.len();
    let (message, options) =
        json::read_large(context, caller.user, body, MessageRequest::into_message).await?;
    quota::check(context, conversation.user, given, NewWork::job(bytes)).await?;
    let job = job::job(context, conversation, vec![message], &options).await?;
    let on_disconnect = options.on_disconnect;
    let reader = NewJobReader { caller, job: job.id, on_disconnect, socket };
    streamed(context, reader, (wire, text), store(context, job, key)).await
}

fn fingerprint<'a>(kind: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> RequestFingerprint {
    let mut fingerprint = RequestFingerprint::new(kind);
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            fingerprint.update(&[0]);
        }
        fingerprint.update(part);
    }
    fingerprint
}

pub(crate) fn stream_options(request: &RequestContext) -> Result<(StreamFormat, TextMode), ApiError> {
    let query = &request.query;
    Ok((events::wire(&request.headers), events::text(query)?))
}

/// Stores a job that answers again, or answers another question in place of the old one, and answers with its
/// events.
pub(crate) async fn regenerate(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (wire, text) = stream_options(&request)?;
    let given = idempotency::key(&request.headers)?;
    let conversation = find(context, request.user, request.segment("id")).await?;
    let answer = answer_id(request.segment("mid"))?;
    let body = request_body::read(context, &request.headers, body).await?;
    let key = given.map(|key| {
        let path = [conversation.id.as_str().as_bytes(), request.segment("mid").as_bytes()];
        key.of(fingerprint("regenerate", path.into_iter().chain([body.bytes.as_slice()])))
    });
    let (caller, socket) = (request.caller, request.socket.clone());
    drop(request); // frees the headers while the job runs
    let bytes = body.bytes.len();
    let (question, options) =
        json::read_large(context, caller.user, body, MessageRequest::into_question).await?;
    let id = conversation.id.clone();
    quota::check(context, conversation.user, given, NewWork::job(bytes)).await?;
    let replaces_question = question.is_some();
    let job = job::job(context, conversation, question.into_iter().collect(), &options).await?;
    let on_disconnect = options.on_disconnect;
    let reader = NewJobReader { caller, job: job.id, on_disconnect, socket };
    let again = RegenerateRequest { answer, job, replaces_question, key };
    streamed(context, reader, (wire, text), store_regenerated(context, id, again)).await
}

async fn store_regenerated(
    context: &Arc<ServerContext>,
    id: ConversationId,
    mut again: RegenerateRequest,
) -> Result<(Job, bool), ApiError> {
    let user = again.job.user;
    check_answer(context, &id, &again).await?;
    // Until the job names them.
    let _pins = images::store(context, user, &mut again.job.spec.input).await?;
    match context.app.conversations.regenerate(user, id, again).await {
        Ok(Some(Idempotent::New(job))) => Ok((job, false)),
        Ok(Some(Idempotent::Replayed(job))) => Ok((job, true)),
        Ok(None) => Err(ApiError::NotFound("message")),
        Err(ConversationError::WrongState { .. }) => Err(ApiError::Conflict(
            "a job of the conversation has not ended; wait for its end or cancel it first".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Fails if the conversation does not show the answer. A request that is repeated with its key has replaced
/// it already.
async fn check_answer(
    context: &Arc<ServerContext>,
    id: &ConversationId,
    again: &RegenerateRequest,
) -> Result<(), ApiError> {
    let user = again.job.user;
    let shown = check_shown(context, user, id, MessageRef::Answer(again.answer)).await;
    match again.key.map(|key| key.key) {
        Some(key)
            if shown.is_err() && context.read(user, move |store| store.is_known(user, &key)).await? =>
        {
            Ok(())
        }
        _ => shown,
    }
}
