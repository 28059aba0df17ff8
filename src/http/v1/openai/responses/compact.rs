//! `/v1/responses/input_tokens` and `/v1/responses/compact`.

use super::request::{ResponsesRequest, required_model};
use super::{compaction, ids, object, request};
use crate::domain::id::UserId;
use crate::domain::job::{ApprovalMode, Job, JobSpec, OnDisconnect};
use crate::domain::message::Message;
use crate::domain::model_settings::ClientFunction;
use crate::domain::tokens::TokenEstimator;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::spec::{self, JobRequest, ToolsRequest};
use crate::http::v1::jobs::stream::store_new;
use crate::http::v1::openai::body::{JobIntake, KeyedBody};
use crate::http::v1::openai::failure::{self, unsupported};
use crate::http::v1::wait;
use hyper::StatusCode;
use serde_json::json;
use std::sync::Arc;

/// What the model is asked for.
const INSTRUCTION: &str = "Summarise the conversation above so that it can go on from your summary alone. Keep \
                           every fact, decision, name, number and open task. Answer with the summary alone.";

/// `POST /v1/responses/input_tokens`: an estimate, as no tokenizer is here.
pub(crate) async fn input_tokens(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let user = request.user;
    let body = KeyedBody::read(context, (user, &request.headers), body, "input_tokens").await?;
    let asked = body.parse(context, |map, _| request::read(map)).await.map_err(failure::of_request)?;
    let app = Arc::clone(&context.app);
    let tokens =
        context.app.blocking(user, move || count(asked, &app, user)).await?.map_err(failure::of_request)?;
    let counted = json!({"object": "response.input_tokens", "input_tokens": tokens});
    Ok(response::json(StatusCode::OK, &counted))
}

fn count(mut asked: ResponsesRequest, app: &AppDependencies, user: UserId) -> Result<u64, ApiError> {
    let model = spec::model(asked.model.take(), app)?;
    let offered = asked.offered(app, user)?;
    let messages = messages(&mut asked, app, user)?;
    let estimator = TokenEstimator::of_model(&model);
    let instructions = asked.instructions.map(|content| Message::System { content });
    let functions: Vec<_> = offered.functions.iter().map(ClientFunction::definition).collect();
    let messages = estimator.messages(instructions.iter().chain(&messages));
    Ok(messages.saturating_add(estimator.tools(&functions)))
}

/// `POST /v1/responses/compact`: asks the model for a summary and answers with the item that stands for it.
pub(crate) async fn compact(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let JobIntake { user, sender, headers, key, body, .. } =
        JobIntake::read(context, request, body, "compact").await?;
    let asked = body.parse(context, |map, _| request::read(map)).await.map_err(failure::of_request)?;
    headers.check_waits()?;
    let app = Arc::clone(&context.app);
    let spec = context.app.blocking(user, move || summary_job(asked, &app, user)).await?;
    let mut spec = spec.map_err(failure::of_request)?;
    spec.priority = headers.priority.unwrap_or(spec.priority);
    let mut stored = store_new(context, sender, spec, key).await?;
    let id = stored.job.id;
    wait::for_job(context, user, id, u32::MAX.into()).await?;
    if let Some(guard) = &mut stored.guard {
        guard.disarm();
    }
    let job = context.app.store.job(user, id)?.ok_or(ApiError::NotFound("job"))?;
    let summary = context.read(user, move |store| store.output(id)).await?;
    answer(context, &job, &summary.unwrap_or_default())
}

fn answer(context: &Arc<ServerContext>, job: &Job, summary: &str) -> HandlerResult {
    if !job.status.is_terminal() {
        return Err(failure::interrupted(context, job.id));
    }
    if let Some(error) = &job.error {
        return Err(failure::of_job(error.code, error.message.clone(), None));
    }
    let compacted = json!({
        "id": ids::response_id(job.id), "object": "response.compaction", "created_at": job.created_at_ms / 1_000,
        "output": [compaction::item(job.id, summary)], "usage": object::usage_json(job.usage),
    });
    Ok(response::json(StatusCode::OK, &compacted))
}

/// The messages of a request that belongs to no conversation.
fn messages(
    asked: &mut ResponsesRequest,
    app: &AppDependencies,
    user: UserId,
) -> Result<Vec<Message>, ApiError> {
    if asked.conversation.is_some() {
        let text = "'conversation' is supported by POST /v1/responses alone; use 'previous_response_id'";
        return Err(unsupported("conversation", text));
    }
    Ok(asked.read_input(app, user, None)?.messages)
}

/// Fails at fields of a response that a summary does not have.
fn check_fields(asked: &ResponsesRequest) -> Result<(), ApiError> {
    let given = [
        ("stream", asked.stream == Some(true)),
        ("background", asked.background == Some(true)),
        ("metadata", asked.metadata.is_some()),
        ("max_tool_calls", asked.max_tool_calls.is_some()),
    ];
    let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(unsupported(name, format!("'{name}' is not supported by POST /v1/responses/compact")))
}

fn summary_job(
    mut asked: ResponsesRequest,
    app: &AppDependencies,
    user: UserId,
) -> Result<JobSpec, ApiError> {
    check_fields(&asked)?;
    let model = required_model(asked.model.take())?;
    asked.offered(app, user)?;
    let mut messages = messages(&mut asked, app, user)?;
    messages.push(Message::user(INSTRUCTION));
    let job = JobRequest {
        model: Some(model),
        system_prompt: asked.instructions,
        temperature: asked.temperature,
        max_tokens: asked.max_output_tokens,
        tools: Some(ToolsRequest::All(false)),
        approval: Some(ApprovalMode::AutoDeny),
        on_disconnect: Some(OnDisconnect::Cancel),
        ..JobRequest::default()
    };
    let mut spec = job.with_messages(messages, app, user)?;
    spec.is_plain = true;
    Ok(spec)
}
