//! From the JSON of a request to a `JobSpec`: type, range and default of every field (DESIGN §3). Later
//! code relies on it.

mod conditions;
pub(crate) mod input;

use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::{ApprovalMode, JobOrigin, JobSpec, OnDisconnect, Priority};
use crate::domain::job_conditions::OnFailure;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::nearest::hint;
use crate::domain::tool::{Strictness, ToolChoice};
use crate::domain::webhook::WebhookUrl;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::request::values::{MaxTokens, Temperature, UnixMillis, WholeNumber};
use crate::http::request::{project, typed};
use crate::http::v1::webhook_url::check_address;
use crate::ports::ToolScope;
use conditions::ConditionsRequest;
use input::InputRequest;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The body of `POST /v1/jobs`, of a batch line and of a schedule's job.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRequest {
    pub(crate) input: Option<InputRequest>,
    pub(crate) model: Option<String>,
    pub(crate) conversation_id: Option<ConversationId>,
    pub(crate) project_id: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) temperature: Option<Temperature>,
    pub(crate) max_tokens: Option<MaxTokens>,
    pub(crate) thinking: Option<bool>,
    pub(crate) tools: Option<ToolsRequest>,
    pub(crate) strictness: Option<Strictness>,
    pub(crate) max_steps: Option<u64>,
    pub(crate) timeout_s: Option<u64>,
    pub(crate) max_total_tokens: Option<WholeNumber<1, { u64::MAX }>>,
    pub(crate) priority: Option<WholeNumber<0, 9>>,
    pub(crate) run_at: Option<UnixMillis>,
    pub(crate) max_attempts: Option<u64>,
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    pub(crate) webhook_url: Option<WebhookUrl>,
    pub(crate) approval: Option<ApprovalMode>,
    pub(crate) after: Option<Vec<JobId>>,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) deadline_at: Option<UnixMillis>,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) max_cost_micros: Option<WholeNumber<1, { u64::MAX }>>,
}

/// All tools, none, or those with these names and in these groups. Left out: the default set.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[derive(Debug, Deserialize)]
pub(crate) enum ToolsRequest {
    #[serde(rename = "true or false")]
    All(bool),
    #[serde(rename = "a list")]
    Named(Vec<String>),
}

/// A job with a prompt and defaults.
pub(crate) fn from_prompt(text: String, app: &AppDependencies, user: UserId) -> Result<JobSpec, ApiError> {
    let input = Some(InputRequest::Prompt(text));
    JobRequest { input, ..JobRequest::default() }.into_spec(app, user)
}

pub(crate) fn from_json(
    map: Map<String, Value>,
    app: &AppDependencies,
    user: UserId,
) -> Result<JobSpec, ApiError> {
    typed::from_map::<JobRequest>(map)?.into_spec(app, user)
}

impl JobRequest {
    /// Checks the values against the limits of the server and fills in defaults.
    pub(crate) fn into_spec(mut self, app: &AppDependencies, user: UserId) -> Result<JobSpec, ApiError> {
        let input = require_user_message(input::messages(self.input.take(), &app.limits)?)?;
        self.with_messages(input, app, user)
    }

    /// The same for messages that were read in another form.
    pub(crate) fn with_messages(
        self,
        input: Vec<Message>,
        app: &AppDependencies,
        user: UserId,
    ) -> Result<JobSpec, ApiError> {
        let limits = &app.limits;
        input::check_size(&input, self.system_prompt.as_deref(), limits)?;
        let max_steps = up_to("max_steps", self.max_steps, u64::from(app.max_iterations))?;
        let timeout_s = up_to("timeout_s", self.timeout_s, limits.job_timeout_max_s)?;
        let max_attempts = up_to("max_attempts", self.max_attempts, u64::from(limits.job_attempts))?;
        let model = model(self.model, app)?;
        check_sight(&model, &input, app)?;
        let conditions = ConditionsRequest {
            after: self.after.unwrap_or_default(),
            on_failure: self.on_failure,
            deadline_ms: self.deadline_at.map(|at| at.0),
            expires_at_ms: self.expires_at.map(|at| at.0),
            run_at_ms: self.run_at.map(|at| at.0),
            max_cost_micros: self.max_cost_micros.map(|most| most.0),
        };
        let conditions = conditions.check((&input, self.system_prompt.as_deref()), (&model, app))?;
        Ok(JobSpec {
            model,
            conditions,
            project_id: own_project(self.project_id, app, user)?,
            conversation_id: self.conversation_id,
            temperature: self.temperature.map(|temperature| temperature.0),
            max_tokens: self.max_tokens.map(MaxTokens::to_u32),
            thinking: self.thinking.unwrap_or(false),
            tools: tools(self.tools, app)?,
            strictness: strictness(self.strictness, app)?,
            max_steps: to_u32(max_steps).unwrap_or(app.max_iterations),
            timeout_s: timeout_s.unwrap_or(limits.job_timeout_s),
            max_total_tokens: self.max_total_tokens.map(|most| most.0),
            priority: self.priority.and_then(|level| Priority::new(level.0)).unwrap_or(Priority::DEFAULT),
            max_attempts: to_u32(max_attempts).unwrap_or(1),
            run_at_ms: self.run_at.map(|at| at.0),
            on_disconnect: self.on_disconnect.unwrap_or_default(),
            metadata: metadata(self.metadata.unwrap_or_default(), app)?,
            webhook_url: self.webhook_url.map(|url| check_address(url, app)).transpose()?,
            approval: self.approval.unwrap_or_default(),
            origin: JobOrigin::Client,
            input,
            system_prompt: self.system_prompt,
            functions: Vec::new(),
            settings: ModelSettings::default(),
            is_plain: false,
            max_tool_calls: None,
            response: None,
            is_stored_completion: false,
            handed_approvals: None,
            approval_tools: Vec::new(),
            trace_parent: None,
        })
    }
}

/// A number from 1 to a limit of the server.
fn up_to(name: &str, given: Option<u64>, most: u64) -> Result<Option<u64>, ApiError> {
    match given.filter(|number| !(1..=most).contains(number)) {
        Some(number) => Err(ApiError::value(
            name,
            format!("'{name}' must be a whole number from 1 to {most}, not {number}"),
        )),
        None => Ok(given),
    }
}

/// At least one message of the user must have content.
fn require_user_message(input: Vec<Message>) -> Result<Vec<Message>, ApiError> {
    let job_messages = input.iter().any(|message| match message {
        Message::User { content, attachments, images } => {
            !content.trim().is_empty() || !attachments.is_empty() || !images.is_empty()
        }
        _ => false,
    });
    if job_messages {
        Ok(input)
    } else {
        Err(ApiError::value("input", "'input' has no message of the user with content"))
    }
}

fn to_u32(number: Option<u64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

pub(crate) fn model(name: Option<String>, app: &AppDependencies) -> Result<String, ApiError> {
    let Some(name) = name else { return Ok(app.default_model.clone()) };
    let known = app.model.models();
    if known.iter().any(|model| model.id == name) {
        return Ok(name);
    }
    let known: Vec<String> = known.into_iter().map(|model| model.id).collect();
    Err(ApiError::ModelNotFound { name: quoted(&name), known: known.join(", ") })
}

/// Refuses images for a model that sees none.
pub(crate) fn check_sight(model: &str, input: &[Message], app: &AppDependencies) -> Result<(), ApiError> {
    let sees = |id: &str| app.model.model(id).is_some_and(|model| model.sees_images);
    if !Message::have_images(input) || sees(model) {
        return Ok(());
    }
    let seeing: Vec<String> =
        app.model.models().into_iter().filter(|model| model.sees_images).map(|model| model.id).collect();
    let advice = if seeing.is_empty() {
        "the operator sets 'vision: true' for models that do".to_owned()
    } else {
        format!("these models do: {}", seeing.join(", "))
    };
    Err(ApiError::Invalid {
        message: format!("model {} sees no images, and the messages have one; {advice}", quoted(model)),
        param: Some("model".to_owned()),
        code: "unsupported_value",
    })
}

/// The project, if it exists and belongs to the user (P7).
fn own_project(
    id: Option<String>,
    app: &AppDependencies,
    user: UserId,
) -> Result<Option<ProjectId>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    project::owned(app, user, project::parse_id(&id)?).map(|project| Some(project.id))
}

fn tools(given: Option<ToolsRequest>, app: &AppDependencies) -> Result<ToolChoice, ApiError> {
    let list = match given {
        None => return Ok(ToolChoice::Default),
        Some(ToolsRequest::All(all)) => return Ok(ToolChoice::All(all)),
        Some(ToolsRequest::Named(list)) => list,
    };
    let mut named: Vec<String> = Vec::new();
    for (index, name) in list.into_iter().enumerate() {
        let refused = |message| ApiError::Invalid {
            message,
            param: Some(format!("tools[{index}]")),
            code: "tool_not_found",
        };
        if !app.toolbox.has_tool(&name) && !ToolChoice::is_group(&name) {
            let tools = app.toolbox.offered(&ToolScope::EVERY);
            let known = tools.iter().map(|tool| tool.name.as_ref()).chain(ToolChoice::GROUPS);
            let meant = hint(&name, known);
            return Err(refused(format!("there is no tool {}{meant}", quoted(&name))));
        }
        if let Some(reason) = app.toolbox.never_works(&name) {
            return Err(refused(format!("the tool {} cannot be used: {reason}", quoted(&name))));
        }
        if !named.contains(&name) {
            named.push(name);
        }
    }
    Ok(ToolChoice::Named(named))
}

/// The job's level, if the operator allows it.
fn strictness(given: Option<Strictness>, app: &AppDependencies) -> Result<Option<Strictness>, ApiError> {
    let allowed = &app.strictness_levels;
    match given.filter(|level| !allowed.contains(level)) {
        Some(level) => {
            let names: Vec<&str> = allowed.iter().map(|level| level.name()).collect();
            Err(ApiError::value(
                "strictness",
                format!(
                    "'strictness' may be {} on this server, not {}: its operator sets code_execution.max_strictness_allowed",
                    names.join(" or "),
                    level.name()
                ),
            ))
        }
        None => Ok(given),
    }
}

/// Pairs of a client within the limits.
pub(crate) fn metadata(
    pairs: BTreeMap<String, String>,
    app: &AppDependencies,
) -> Result<BTreeMap<String, String>, ApiError> {
    let limits = &app.limits;
    if pairs.len() > limits.metadata_pairs {
        let most = limits.metadata_pairs;
        return Err(ApiError::value("metadata", format!("'metadata' has more than {most} pairs")));
    }
    for (key, value) in &pairs {
        let (most_key, most_value) = (limits.metadata_key_chars, limits.metadata_value_chars);
        let rule = if !(1..=most_key).contains(&key.chars().count()) {
            format!("a key of 'metadata' must have 1 to {most_key} characters")
        } else if value.chars().count() > most_value {
            format!("a value of 'metadata' may have {most_value} characters")
        } else {
            continue;
        };
        let path = format!("metadata.{}", key.chars().take(64).collect::<String>());
        return Err(ApiError::value(&path, rule));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
