//! From the body of a messages request to a job: type, range and meaning of every field.

use super::input::{self, MessageParam};
use super::object::ThinkingView;
use super::tools::{self, OfferedClientTools};
use crate::domain::id::UserId;
use crate::domain::job::{ApprovalMode, JobSpec, OnDisconnect};
use crate::domain::message::Message;
use crate::domain::model_settings::{ClientFunction, ModelSettings, ReasoningEffort, ResponseFormat};
use crate::domain::tokens::TokenEstimator;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::typed;
use crate::http::request::values::{AnyNumber, MaxTokens, Temperature, WholeNumber};
use crate::http::v1::jobs::spec::JobRequest;
use crate::http::v1::openai::chat::functions::check_names;
use crate::http::v1::openai::failure::{MODEL_ADVICE, missing, unsupported};
use crate::http::v1::openai::fields::{Fields, in_range};
use crate::http::v1::openai::headers::{JobHeaders, ServerTools};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The most texts that end an answer.
const STOPS: usize = 16;
/// The least budget for reasoning.
const BUDGET_MIN: u64 = 1_024;

/// What is read, unused, and refused.
pub(crate) const FIELDS: Fields = Fields {
    read: &[
        "model",
        "messages",
        "max_tokens",
        "system",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "tools",
        "tool_choice",
        "metadata",
        "output_config",
        "output_format",
    ],
    unused: &[
        "service_tier",
        "cache_control",
        "inference_geo",
        "speed",
        "diagnostics",
        "user_profile_id",
        "workspace_id",
        // This server shortens long prompts itself.
        "context_management",
    ],
    refused: &[
        ("container", |_| false, "a project keeps files: name it in the header NanoClaw-Project"),
        (
            "mcp_servers",
            |value| value.as_array().is_some_and(Vec::is_empty),
            "the operator configures MCP servers; the header NanoClaw-Tools offers their tools",
        ),
    ],
};

/// The body, without fields that are unused or refused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessagesRequest {
    pub(super) model: Option<String>,
    messages: Vec<MessageParam>,
    max_tokens: Option<MaxTokens>,
    system: Option<Value>,
    stream: Option<bool>,
    temperature: Option<AnyNumber>,
    top_p: Option<AnyNumber>,
    top_k: Option<WholeNumber<0, { u32::MAX as u64 }>>,
    stop_sequences: Option<Vec<String>>,
    thinking: Option<ThinkingRequest>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    metadata: Option<MessageMetadata>,
    output_config: Option<OutputConfig>,
    /// The older place of `output_config.format`.
    output_format: Option<OutputFormat>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThinkingRequest {
    #[serde(rename = "type")]
    kind: ThinkingKind,
    budget_tokens: Option<WholeNumber<BUDGET_MIN, { u32::MAX as u64 }>>,
    display: Option<ThinkingDisplay>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ThinkingKind {
    Enabled,
    /// The provider decides how much.
    Adaptive,
    Disabled,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ThinkingDisplay {
    Summarized,
    Omitted,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageMetadata {
    user_id: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputConfig {
    effort: Option<OutputEffort>,
    format: Option<OutputFormat>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutputEffort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputFormat {
    #[serde(rename = "type")]
    _kind: OutputFormatKind,
    schema: Map<String, Value>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputFormatKind {
    JsonSchema,
}

/// A job, and how it is answered.
#[derive(Debug)]
pub(super) struct MessagesJob {
    pub(super) spec: JobSpec,
    pub(super) form: MessagesForm,
}

/// How a job is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessagesForm {
    pub(super) is_stream: bool,
    /// Without the text before calls of the server's tools.
    pub(super) final_text_only: bool,
    pub(super) thinking: ThinkingView,
    /// The estimate that a stream begins with; 0 if there is no stream.
    pub(super) input_tokens: u64,
}

/// The tokens of a prompt: an estimate, as no tokenizer is here.
pub(super) fn input_tokens(model: &str, messages: &[Message], functions: &[ClientFunction]) -> u64 {
    let estimator = TokenEstimator::of_model(model);
    let functions: Vec<_> = functions.iter().map(ClientFunction::definition).collect();
    estimator.messages(messages).saturating_add(estimator.tools(&functions))
}

/// Reads the body.
pub(super) fn read(body: Map<String, Value>) -> Result<MessagesRequest, ApiError> {
    if body.get("thread").is_some_and(|thread| !thread.is_null()) {
        // Clients know this code and send the same request without the field.
        return Err(ApiError::Invalid {
            message: "'thread' is not supported: send the whole conversation without it".to_owned(),
            param: Some("thread".to_owned()),
            code: "thread_unsupported_request",
        });
    }
    let request: MessagesRequest = typed::from_map(FIELDS.supported(body)?)?;
    if request.model.is_none() {
        return Err(missing("model", MODEL_ADVICE));
    }
    if request.max_tokens.is_none() {
        return Err(missing("max_tokens", "say how long the answer may be, in tokens"));
    }
    Ok(request)
}

/// Reads the body of a request that counts tokens: no `max_tokens` is needed.
pub(super) fn read_count(mut body: Map<String, Value>) -> Result<MessagesRequest, ApiError> {
    body.entry("max_tokens").or_insert_with(|| 1.into());
    read(body)
}

impl MessagesRequest {
    /// The messages for the model, and what it may call.
    pub(super) fn prompt(
        self,
        app: &AppDependencies,
        user: UserId,
    ) -> Result<(Vec<Message>, OfferedClientTools), ApiError> {
        let offered = tools::read(&self.tools.unwrap_or_default(), self.tool_choice.as_ref(), app)?;
        Ok((input::messages(self.system, self.messages, (app, user))?, offered))
    }

    pub(super) fn into_job(
        mut self,
        headers: JobHeaders,
        app: &AppDependencies,
        user: UserId,
    ) -> Result<MessagesJob, ApiError> {
        headers.check_waits()?;
        let is_stream = self.stream.unwrap_or(false);
        let thinking = self.thinking()?;
        let mut settings = self.settings()?;
        let (model, max_tokens, temperature) = (self.model.take(), self.max_tokens, self.temperature);
        let temperature = in_range("temperature", temperature, 0.0, 1.0)?;
        let user_id = self.metadata.take().and_then(|metadata| metadata.user_id);
        let metadata: BTreeMap<_, _> = user_id.map(|id| ("user_id".to_owned(), id)).into_iter().collect();
        input::check_answered(&self.messages)?;
        let (messages, offered) = self.prompt(app, user)?;
        let is_agent =
            model.as_deref().and_then(|model| app.model.model(model)).is_some_and(|model| model.is_agent);
        let choice = ServerTools::choose(offered.hosted, headers.tools, (offered.is_none, is_agent));
        let is_plain = matches!(choice, ServerTools::None);
        let job = JobRequest {
            model,
            project_id: headers.project_id,
            temperature: temperature.map(Temperature),
            max_tokens,
            thinking: Some(thinking != ThinkingView::Hidden),
            tools: choice.into_request(),
            strictness: headers.strictness,
            webhook_url: headers.webhook_url,
            // Nobody who waits for this answer can decide.
            approval: Some(ApprovalMode::AutoDeny),
            metadata: Some(metadata),
            on_disconnect: Some(OnDisconnect::Cancel),
            ..JobRequest::default()
        };
        let mut spec = job.with_messages(messages, app, user).map_err(JobHeaders::name)?;
        check_names((&offered.functions, offered.mode.as_ref()), (&spec.tools, &spec.model), app)?;
        tools::check_examples(&offered.functions, &spec.model, app)?;
        spec.priority = headers.priority.unwrap_or(spec.priority);
        let final_text_only = settings.response_format.is_some() && !is_plain;
        // What was streamed cannot be taken back.
        settings.checks_answer = settings.response_format.is_some() && (final_text_only || !is_stream);
        settings.call_mode = offered.mode;
        settings.parallel_tool_calls = offered.is_single.then_some(false);
        (spec.functions, spec.settings, spec.is_plain) = (offered.functions, settings, is_plain);
        spec.max_tool_calls = offered.max_uses;
        let input_tokens =
            if is_stream { input_tokens(&spec.model, &spec.input, &spec.functions) } else { 0 };
        Ok(MessagesJob { spec, form: MessagesForm { is_stream, final_text_only, thinking, input_tokens } })
    }

    /// Whether the model thinks, and whether the client sees it.
    fn thinking(&self) -> Result<ThinkingView, ApiError> {
        let Some(thinking) = &self.thinking else { return Ok(ThinkingView::Hidden) };
        let field = "thinking.budget_tokens";
        match (thinking.kind, thinking.budget_tokens) {
            (ThinkingKind::Enabled, None) => {
                return Err(ApiError::value(field, format!("'{field}' is missing")));
            }
            (ThinkingKind::Enabled, Some(budget))
                if self.max_tokens.is_some_and(|most| most.0 <= budget.0) =>
            {
                let text = format!("'{field}' must be less than 'max_tokens', which it is a part of");
                return Err(ApiError::value(field, text));
            }
            (ThinkingKind::Adaptive | ThinkingKind::Disabled, Some(_)) => {
                return Err(unsupported(field, format!("'{field}' belongs to the type enabled alone")));
            }
            _ => {}
        }
        Ok(match (thinking.kind, thinking.display) {
            (ThinkingKind::Disabled, _) => ThinkingView::Hidden,
            (_, Some(ThinkingDisplay::Omitted)) => ThinkingView::Omitted,
            _ => ThinkingView::Shown,
        })
    }

    fn settings(&mut self) -> Result<ModelSettings, ApiError> {
        let stop = self.stop_sequences.take().unwrap_or_default();
        if stop.len() > STOPS || stop.iter().any(String::is_empty) {
            let rule = format!("'stop_sequences' must hold at most {STOPS} texts, none of them empty");
            return Err(ApiError::value("stop_sequences", rule));
        }
        let output = self.output_config.take();
        let (effort, format) = output.map_or((None, None), |output| (output.effort, output.format));
        let format = format.or_else(|| self.output_format.take());
        Ok(ModelSettings {
            response_format: format.map(|format| ResponseFormat::JsonSchema {
                name: "answer".to_owned(),
                description: None,
                schema: format.schema.into(),
                strict: Some(true),
            }),
            stop,
            top_p: in_range("top_p", self.top_p, 0.0, 1.0)?,
            top_k: self.top_k.map(WholeNumber::to_u32),
            reasoning_effort: effort.map(OutputEffort::effort),
            reasoning_tokens: self
                .thinking
                .as_ref()
                .and_then(|thinking| thinking.budget_tokens)
                .map(WholeNumber::to_u32),
            ..ModelSettings::default()
        })
    }
}

impl OutputEffort {
    fn effort(self) -> ReasoningEffort {
        match self {
            Self::Low => ReasoningEffort::Low,
            Self::Medium => ReasoningEffort::Medium,
            Self::High => ReasoningEffort::High,
            Self::Xhigh | Self::Max => ReasoningEffort::Xhigh,
        }
    }
}
