//! From the settings of a conversation to the job that answers in it. A setting that is not set is not sent
//! to providers, which have their own defaults.

use super::request::AnswerOptions;
use crate::domain::conversation::Conversation;
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::domain::tool::ToolChoice;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::project;
use crate::http::v1::jobs::spec::{self, input};
use crate::ports::NewJob;
use std::sync::Arc;

/// The job that answers in the conversation. Its project belongs to the user, and its model is configured.
pub(crate) async fn job(
    context: &Arc<ServerContext>,
    conversation: Conversation,
    input: Vec<Message>,
    options: &AnswerOptions,
) -> Result<NewJob, ApiError> {
    let user = conversation.user;
    if let Some(id) = options.project_id {
        project::check(context, user, id).await?;
    }
    let spec = spec(conversation, input, options, &context.app)?;
    let created_at_ms = context.app.clock.now_ms();
    // The conversation may be deleted meanwhile: the store checks it again.
    let id = context.app.job_id(created_at_ms);
    Ok(NewJob { id, user, created_at_ms, spec, in_existing: true })
}

fn spec(
    conversation: Conversation,
    input: Vec<Message>,
    options: &AnswerOptions,
    app: &AppDependencies,
) -> Result<JobSpec, ApiError> {
    let settings = conversation.settings;
    let system_prompt = Some(settings.system_prompt).filter(|prompt| !prompt.is_empty());
    input::check_size(&input, system_prompt.as_deref(), &app.limits)?;
    let model = spec::model(Some(settings.model), app)?;
    spec::check_sight(&model, &input, app)?;
    Ok(JobSpec {
        conversation_id: Some(conversation.id),
        project_id: options.project_id.or(settings.project_id),
        system_prompt,
        temperature: settings.temperature,
        max_tokens: settings.max_tokens,
        thinking: settings.thinking_enabled,
        tools: if options.tools_enabled { ToolChoice::Default } else { ToolChoice::All(false) },
        on_disconnect: options.on_disconnect,
        ..JobSpec::new(model, input, app.max_iterations, app.limits.job_timeout_s)
    })
}
