//! From the body of a chat request to a job: type, range and meaning of every field.

use super::super::failure::{MODEL_ADVICE, missing, unsupported};
use super::super::fields::{Fields, in_range};
use super::super::headers::{JobHeaders, ServerTools};
use super::super::reasoning::{ReasoningOptions, effort_of_chat};
use super::functions::{self, ChatTool, FunctionChoice};
use super::message::{self, ChatMessageRequest};
use crate::domain::id::UserId;
use crate::domain::job::{ApprovalMode, JobSpec, OnDisconnect};
use crate::domain::model_settings::{ModelSettings, ReasoningEffort, ResponseFormat};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::typed;
use crate::http::request::values::{AnyNumber, MaxTokens, SignedNumber, Temperature};
use crate::http::v1::jobs::spec::JobRequest;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The most texts that end an answer.
const STOPS: usize = 4;

/// What is read, unused, and refused.
pub(crate) const FIELDS: Fields = Fields {
    read: &[
        "messages",
        "model",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "reasoning",
        "metadata",
        "store",
    ],
    unused: &[
        "user",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "verbosity",
    ],
    refused: &[
        ("n", |value| value.as_u64() == Some(1), "a job has one answer"),
        ("logprobs", |value| value == &Value::Bool(false), "this server passes on no probabilities"),
        ("top_logprobs", |value| value.as_u64() == Some(0), "this server passes on no probabilities"),
        (
            "logit_bias",
            |value| value.as_object().is_some_and(Map::is_empty),
            "providers number tokens differently",
        ),
        ("modalities", |value| *value == serde_json::json!(["text"]), "answers are text"),
        ("audio", |_| false, "answers are text"),
        ("prediction", |_| false, "few providers know it"),
        ("functions", |value| value.as_array().is_some_and(Vec::is_empty), "use 'tools'"),
        ("function_call", |value| value.as_str() == Some("none"), "use 'tool_choice'"),
        ("moderation", |_| false, "this server has no model for it"),
        ("web_search_options", |_| false, "the header NanoClaw-Tools offers web_search"),
    ],
};

/// The body, without fields that are unused or refused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatRequest {
    messages: Vec<ChatMessageRequest>,
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    temperature: Option<Temperature>,
    top_p: Option<AnyNumber>,
    max_tokens: Option<MaxTokens>,
    max_completion_tokens: Option<MaxTokens>,
    stop: Option<StopRequest>,
    seed: Option<SignedNumber>,
    frequency_penalty: Option<AnyNumber>,
    presence_penalty: Option<AnyNumber>,
    tools: Option<Vec<ChatTool>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    response_format: Option<ResponseFormatRequest>,
    reasoning_effort: Option<ReasoningEffort>,
    reasoning: Option<ReasoningOptions>,
    metadata: Option<BTreeMap<String, String>>,
    store: Option<bool>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    include_usage: Option<bool>,
    /// Accepted and unused.
    #[serde(rename = "include_obfuscation")]
    _include_obfuscation: Option<bool>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[derive(Debug, Deserialize)]
enum StopRequest {
    #[serde(rename = "a string")]
    One(String),
    #[serde(rename = "a list")]
    Several(Vec<String>),
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseFormatRequest {
    #[serde(rename = "type")]
    kind: FormatKind,
    json_schema: Option<JsonSchemaRequest>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormatKind {
    Text,
    JsonObject,
    JsonSchema,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonSchemaRequest {
    name: String,
    description: Option<String>,
    schema: Option<Map<String, Value>>,
    strict: Option<bool>,
}

/// A job, and how it is answered.
#[derive(Debug)]
pub(crate) struct ChatJob {
    pub(crate) spec: JobSpec,
    pub(crate) form: ChatForm,
}

/// How a job is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChatForm {
    /// At its end.
    Whole {
        /// Without the text before calls of the server's tools.
        final_text_only: bool,
    },
    /// In chunks.
    Chunks(ChunkOptions),
}

/// What a stream shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkOptions {
    pub(crate) include_usage: bool,
    /// The text is sent at the end, without that before calls of the server's tools.
    pub(crate) final_text_only: bool,
}

/// Reads the body.
pub(super) fn read(
    body: Map<String, Value>,
    headers: JobHeaders,
    app: &AppDependencies,
    user: UserId,
) -> Result<ChatJob, ApiError> {
    headers.check_waits()?;
    let request: ChatRequest = typed::from_map(FIELDS.supported(body)?)?;
    request.into_job(headers, app, user)
}

impl ChatRequest {
    fn into_job(self, headers: JobHeaders, app: &AppDependencies, user: UserId) -> Result<ChatJob, ApiError> {
        let is_stream = self.stream.unwrap_or(false);
        let include_usage = include_usage(is_stream, self.stream_options)?;
        let model = self.model.ok_or_else(|| missing("model", MODEL_ADVICE))?;
        let messages = message::messages(self.messages, &app.limits)?;
        let effort = effort_of_chat(self.reasoning_effort, self.reasoning.as_ref())?;
        let choice = FunctionChoice::read(self.tool_choice)?;
        let may_call = choice != FunctionChoice::None;
        // Read in any case, so that errors are found.
        let functions = functions::functions(self.tools.unwrap_or_default())?;
        let functions = if may_call { functions } else { Vec::new() };
        let settings = ModelSettings {
            call_mode: choice.into_mode(),
            parallel_tool_calls: self.parallel_tool_calls,
            response_format: self.response_format.map(ResponseFormatRequest::format).transpose()?.flatten(),
            checks_answer: false,
            stop: self.stop.map(stops).transpose()?.unwrap_or_default(),
            top_p: in_range("top_p", self.top_p, 0.0, 1.0)?,
            seed: self.seed.map(|seed| seed.0),
            frequency_penalty: in_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?,
            presence_penalty: in_range("presence_penalty", self.presence_penalty, -2.0, 2.0)?,
            reasoning_effort: effort,
            ..ModelSettings::default()
        };
        let is_agent = app.model.model(&model).is_some_and(|model| model.is_agent);
        let tools = ServerTools::choose(Vec::new(), headers.tools, (!may_call, is_agent));
        let is_plain = matches!(tools, ServerTools::None);
        let job = JobRequest {
            model: Some(model),
            project_id: headers.project_id,
            temperature: self.temperature,
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            thinking: effort.map(ReasoningEffort::thinks),
            tools: tools.into_request(),
            strictness: headers.strictness,
            webhook_url: headers.webhook_url,
            // Nobody who waits for this answer can decide.
            approval: Some(ApprovalMode::AutoDeny),
            metadata: self.metadata,
            on_disconnect: Some(if self.store == Some(true) {
                OnDisconnect::Continue
            } else {
                OnDisconnect::Cancel
            }),
            ..JobRequest::default()
        };
        let mut spec = job.with_messages(messages, app, user).map_err(JobHeaders::name)?;
        functions::check_names((&functions, settings.call_mode.as_ref()), (&spec.tools, &spec.model), app)?;
        spec.priority = headers.priority.unwrap_or(spec.priority);
        (spec.functions, spec.settings, spec.is_plain) = (functions, settings, is_plain);
        spec.is_stored_completion = self.store == Some(true);
        let final_text_only = shows_final_text_only(&spec);
        // What was streamed cannot be taken back.
        spec.settings.checks_answer =
            spec.settings.response_format.is_some() && (final_text_only || !is_stream);
        let form = if is_stream {
            ChatForm::Chunks(ChunkOptions { include_usage, final_text_only })
        } else {
            ChatForm::Whole { final_text_only }
        };
        Ok(ChatJob { spec, form })
    }
}

/// Whether text before calls of the server's tools is no part of the answer: it has another format.
pub(super) fn shows_final_text_only(spec: &JobSpec) -> bool {
    spec.settings.response_format.is_some() && !spec.is_plain
}

fn include_usage(is_stream: bool, options: Option<StreamOptions>) -> Result<bool, ApiError> {
    match options {
        Some(_) if !is_stream => {
            Err(ApiError::value("stream_options", "'stream_options' may only be set when 'stream' is true"))
        }
        options => Ok(options.and_then(|options| options.include_usage).unwrap_or(false)),
    }
}

fn stops(request: StopRequest) -> Result<Vec<String>, ApiError> {
    let stops = match request {
        StopRequest::One(text) => vec![text],
        StopRequest::Several(texts) => texts,
    };
    if stops.len() > STOPS || stops.iter().any(String::is_empty) {
        return Err(ApiError::value(
            "stop",
            format!("'stop' must hold at most {STOPS} texts, none of them empty"),
        ));
    }
    Ok(stops)
}

impl ResponseFormatRequest {
    fn format(self) -> Result<Option<ResponseFormat>, ApiError> {
        let path = "response_format.json_schema";
        match (self.kind, self.json_schema) {
            (FormatKind::Text, None) => Ok(None),
            (FormatKind::JsonObject, None) => Ok(Some(ResponseFormat::JsonObject)),
            (FormatKind::JsonSchema, Some(JsonSchemaRequest { name, description, schema, strict })) => {
                let schema = schema.map_or_else(|| serde_json::json!({"type": "object"}), Value::Object);
                Ok(Some(ResponseFormat::JsonSchema { name, description, schema, strict }))
            }
            (FormatKind::JsonSchema, None) => Err(ApiError::value(path, format!("'{path}' is missing"))),
            (FormatKind::Text | FormatKind::JsonObject, Some(_)) => {
                Err(unsupported(path, format!("'{path}' belongs to the type json_schema alone")))
            }
        }
    }
}
