//! `/v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API, so that its clients work
//! unchanged. A message is a job underneath, with the rules of `/v1/chat/completions`.
//!
//! A request without `NanoClaw-Tools` and server tools, for a model without `agent: true`, is a plain call of
//! the model. A client that goes away ends its job.

mod events;
pub(crate) mod input;
pub(crate) mod models;
pub(crate) mod object;
pub(crate) mod request;
#[cfg(test)]
mod tests;
pub(crate) mod tools;

use crate::domain::id::UserId;
use crate::domain::job::JobSpec;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::error::ErrorFormat;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::spec;
use crate::http::v1::jobs::store::name;
use crate::http::v1::jobs::stream::{StoredJob, store_new};
use crate::http::v1::openai::answer::pieces::AnswerPieces;
use crate::http::v1::openai::answer::{finished, stream};
use crate::http::v1::openai::body::{JobIntake, KeyedBody};
use crate::http::v1::openai::failure;
use events::MessageEventWriter;
use hyper::StatusCode;
use object::{MessageObject, TokenCountResponse};
use request::{MessagesForm, MessagesJob, MessagesRequest, input_tokens};
use std::sync::Arc;

/// Stores the job and answers with its message, whole or as events.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let intake = JobIntake::read(context, request, body, "messages").await?;
    let JobIntake { user, sender, request_id, headers, key, trace_parent, body } = intake;
    let caller = sender.0;
    let read = body.parse(context, move |map, app| request::read(map)?.into_job(headers, app, user));
    let MessagesJob { spec, form } = read.await.map_err(failure::of_request)?;
    let spec = JobSpec { trace_parent, ..spec };
    let stored = store_new(context, sender, spec, key).await?;
    let (id, is_replayed) = (stored.job.id, stored.is_replayed);
    let answer = if form.is_stream {
        let writer = MessageEventWriter::new(&stored.job, &form, request_id.clone());
        let pieces = AnswerPieces::new(id, Box::new(writer), form.final_text_only);
        stream::open(context, caller, stored, pieces).await
    } else {
        whole(context, stored, form).await
    };
    // Errors, too, name the job.
    let mut response =
        answer.unwrap_or_else(|error| error.into_response(ErrorFormat::Anthropic(&request_id)));
    name(&mut response, id, is_replayed);
    Ok(response)
}

async fn whole(context: &Arc<ServerContext>, stored: StoredJob, form: MessagesForm) -> HandlerResult {
    let answer = finished::wait_for(context, stored, form.final_text_only).await?;
    Ok(response::json(StatusCode::OK, &MessageObject::new(answer, form.thinking)))
}

/// `POST /v1/messages/count_tokens`: an estimate, as no tokenizer is here.
pub(crate) async fn count_tokens(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body = KeyedBody::read(context, (request.user, &request.headers), body, "count_tokens").await?;
    let user = request.user;
    let counted = body.parse(context, move |map, app| count(request::read_count(map)?, (app, user)));
    let input_tokens = counted.await.map_err(failure::of_request)?;
    Ok(response::json(StatusCode::OK, &TokenCountResponse { input_tokens }))
}

fn count(asked: MessagesRequest, (app, user): (&AppDependencies, UserId)) -> Result<u64, ApiError> {
    let model = spec::model(asked.model.clone(), app)?;
    let (messages, offered) = asked.prompt(app, user)?;
    Ok(input_tokens(&model, &messages, &offered.functions))
}
