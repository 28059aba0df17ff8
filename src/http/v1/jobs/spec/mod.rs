//! From the JSON of a request to a `JobSpec`: type, range and default of every field (DESIGN §3). Later
//! code relies on it.

pub(crate) mod input;

use crate::domain::id::{ConversationId, ProjectId, UserId};
use crate::domain::job::{JobOrigin, JobSpec, OnDisconnect, Priority};
use crate::domain::message::Message;
use crate::domain::nearest::hint;
use crate::domain::tool::ToolChoice;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::project;
use crate::http::request::quoted::quoted;
use crate::http::v1::webhook_url::webhook_url;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const KNOWN: &[&str] = &[
    "input",
    "model",
    "conversation_id",
    "project_id",
    "system_prompt",
    "temperature",
    "max_tokens",
    "thinking",
    "tools",
    "strictness",
    "max_steps",
    "timeout_s",
    "max_total_tokens",
    "priority",
    "run_at",
    "max_attempts",
    "on_disconnect",
    "metadata",
    "webhook_url",
    "approval",
];
/// The last time that a request may name, unix seconds: the end of the year 9999 less a day for time zones.
const LAST_SECOND: f64 = 253_402_207_200.0;

/// A job with a prompt and defaults.
pub(crate) fn from_prompt(text: String, app: &AppDependencies, user: UserId) -> Result<JobSpec, ApiError> {
    let mut map = Map::new();
    map.insert("input".to_owned(), Value::String(text));
    from_json(map, app, user)
}

pub(crate) fn from_json(
    map: Map<String, Value>,
    app: &AppDependencies,
    user: UserId,
) -> Result<JobSpec, ApiError> {
    let limits = &app.limits;
    let mut fields = ObjectFields::new(map, KNOWN)?;
    let input = input::messages(fields.take("input"), limits)?;
    let system_prompt = fields.text("system_prompt")?;
    input::check_size(&input, system_prompt.as_deref(), limits)?;
    let max_steps = fields.whole("max_steps", 1..=u64::from(app.max_iterations))?;
    let timeout_s = fields.whole("timeout_s", 1..=limits.job_timeout_max_s)?;
    Ok(JobSpec {
        model: model(fields.text("model")?, app)?,
        project_id: own_project(fields.text("project_id")?, app, user)?,
        conversation_id: conversation(fields.text("conversation_id")?)?,
        temperature: fields.number("temperature", 0.0..=2.0)?,
        max_tokens: to_u32(fields.whole("max_tokens", 1..=u64::from(u32::MAX))?),
        thinking: fields.flag("thinking")?.unwrap_or(false),
        tools: tools(fields.take("tools"), app)?,
        strictness: fields.word("strictness", &["strict", "standard", "lenient"])?,
        max_steps: to_u32(max_steps).unwrap_or(app.max_iterations),
        timeout_s: timeout_s.unwrap_or(limits.job_timeout_s),
        max_total_tokens: fields.whole("max_total_tokens", 1..=u64::MAX)?,
        priority: fields.whole("priority", 0..=9)?.and_then(Priority::new).unwrap_or(Priority::DEFAULT),
        max_attempts: to_u32(fields.whole("max_attempts", 1..=u64::from(limits.job_attempts))?).unwrap_or(1),
        run_at_ms: timestamp("run_at", fields.take("run_at"))?,
        on_disconnect: on_disconnect(&mut fields)?,
        metadata: metadata(fields.take("metadata"), app)?,
        webhook_url: webhook_url(fields.text("webhook_url")?, app)?,
        approval: fields.word("approval", &["wait", "auto-deny"])?.unwrap_or_default(),
        origin: JobOrigin::Client,
        input: require_user_message(input)?,
        system_prompt,
    })
}

fn on_disconnect(fields: &mut ObjectFields) -> Result<OnDisconnect, ApiError> {
    Ok(fields.word("on_disconnect", &["continue", "cancel"])?.unwrap_or_default())
}

/// At least one message of the user must have content.
fn require_user_message(input: Vec<Message>) -> Result<Vec<Message>, ApiError> {
    let job_messages = input.iter().any(|message| match message {
        Message::User { content, attachments } => !content.trim().is_empty() || !attachments.is_empty(),
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

fn conversation(name: Option<String>) -> Result<Option<ConversationId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let id = ConversationId::try_from(name);
    id.map(Some).map_err(|rule| ApiError::value("conversation_id", format!("'conversation_id' {rule}")))
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

fn tools(value: Option<Value>, app: &AppDependencies) -> Result<ToolChoice, ApiError> {
    let list = match value {
        None => return Ok(ToolChoice::All(true)),
        Some(Value::Bool(all)) => return Ok(ToolChoice::All(all)),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("tools", "true, false or a list of names", &other)),
    };
    let mut named: Vec<String> = Vec::new();
    for (at, value) in list.into_iter().enumerate() {
        let place = format!("tools[{at}]");
        let Value::String(name) = value else { return Err(wrong(&place, "a tool's name", &value)) };
        if !app.toolbox.has_tool(&name) {
            let offered = app.toolbox.offered(&ToolChoice::All(true), true);
            let meant = hint(&name, offered.iter().map(|tool| tool.name.as_ref()));
            return Err(ApiError::Invalid {
                message: format!("there is no tool {}{meant}", quoted(&name)),
                param: Some(place),
                code: "tool_not_found",
            });
        }
        if !named.contains(&name) {
            named.push(name);
        }
    }
    Ok(ToolChoice::Named(named))
}

/// Unix seconds or RFC 3339, in milliseconds.
pub(crate) fn timestamp(name: &str, value: Option<Value>) -> Result<Option<u64>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let millis = match &value {
        Value::String(text) => {
            text.parse::<jiff::Timestamp>().ok().and_then(|at| at.as_millisecond().try_into().ok())
        }
        // Many languages report time as a float.
        other => other
            .as_f64()
            .filter(|seconds| *seconds <= LAST_SECOND)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .and_then(|since| u64::try_from(since.as_millis()).ok()),
    };
    match millis {
        Some(millis) => Ok(Some(millis)),
        None => Err(wrong(name, "unix seconds or an RFC 3339 time since 1970, with its offset", &value)),
    }
}

fn metadata(value: Option<Value>, app: &AppDependencies) -> Result<BTreeMap<String, String>, ApiError> {
    let limits = &app.limits;
    let map = match value {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("metadata", "an object of strings", &other)),
    };
    if map.len() > limits.metadata_pairs {
        let most = limits.metadata_pairs;
        return Err(ApiError::value("metadata", format!("'metadata' has more than {most} pairs")));
    }
    let mut pairs = BTreeMap::new();
    for (key, value) in map {
        let place = format!("metadata.{}", key.chars().take(64).collect::<String>());
        if key.is_empty() || key.chars().count() > limits.metadata_key_chars {
            let most = limits.metadata_key_chars;
            return Err(ApiError::value(
                &place,
                format!("a key of 'metadata' must have 1 to {most} characters"),
            ));
        }
        match value {
            Value::String(text) if text.chars().count() <= limits.metadata_value_chars => {
                pairs.insert(key, text)
            }
            Value::String(_) => {
                let most = limits.metadata_value_chars;
                return Err(ApiError::value(
                    &place,
                    format!("a value of 'metadata' may have {most} characters"),
                ));
            }
            other => return Err(wrong(&place, "a string", &other)),
        };
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
