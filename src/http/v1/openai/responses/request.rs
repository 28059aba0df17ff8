//! From the body of `POST /v1/responses` to a job: type, range and meaning of every field.

use super::earlier_calls::EarlierCalls;
use super::images;
use super::input::{self, MessageBuilder};
use super::mcp_lists::Continued;
use super::open_calls::ClientCall;
use super::tools::{self, OfferedTools};
use super::{approval, earlier_tools, history, loaded_tools, open_calls, options};
use crate::domain::handed_approvals::HandedApprovals;
use crate::domain::hosted_tool::HostedTool;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{ApprovalMode, JobSpec, OnDisconnect};
use crate::domain::message::Message;
use crate::domain::model_settings::{ModelSettings, ReasoningEffort};
use crate::domain::response_request::{McpToolList, ResponseRequest};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::typed;
use crate::http::request::values::{AnyNumber, MaxTokens, Temperature, WholeNumber};
use crate::http::v1::jobs::spec::JobRequest;
use crate::http::v1::openai::chat::functions;
use crate::http::v1::openai::failure::{MODEL_ADVICE, missing, unsupported};
use crate::http::v1::openai::fields::{Fields, in_range};
use crate::http::v1::openai::headers::{JobHeaders, ServerTools};
use crate::http::v1::openai::reasoning::{ReasoningOptions, shown_reasoning};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is read, unused, and refused.
pub(crate) const FIELDS: Fields = Fields {
    read: &[
        "input",
        "model",
        "instructions",
        "previous_response_id",
        "conversation",
        "include",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "reasoning",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "max_output_tokens",
        "max_tool_calls",
        "truncation",
        "metadata",
        "store",
        "background",
        "stream",
        "stream_options",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
    ],
    unused: &[
        "user",
        "prompt_cache_options",
        "prompt_cache_retention",
        "image",
        // What Codex says of itself.
        "client_metadata",
    ],
    refused: &[
        ("top_logprobs", |value| value.as_u64() == Some(0), "this server passes on no probabilities"),
        ("moderation", |_| false, "this server has no model for it"),
        (
            "background_options",
            |value| *value == json!({"completion_window": "soonest"}),
            "a job begins as soon as a worker is free",
        ),
        ("prompt", |_| false, "this server stores no prompts; use 'instructions'"),
        (
            "context_management",
            |_| false,
            "long contexts are summarised by this server, or use /v1/responses/compact",
        ),
    ],
};

/// The body, without fields that are unused or refused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResponsesRequest {
    pub(super) input: Option<Value>,
    pub(super) model: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) previous_response_id: Option<String>,
    pub(super) conversation: Option<options::ConversationName>,
    include: Option<Vec<String>>,
    pub(super) tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    text: Option<options::TextRequest>,
    reasoning: Option<ReasoningOptions>,
    pub(super) temperature: Option<Temperature>,
    top_p: Option<AnyNumber>,
    presence_penalty: Option<AnyNumber>,
    frequency_penalty: Option<AnyNumber>,
    pub(super) max_output_tokens: Option<MaxTokens>,
    pub(super) max_tool_calls: Option<WholeNumber<1, { u32::MAX as u64 }>>,
    truncation: Option<options::Truncation>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    store: Option<bool>,
    pub(super) background: Option<bool>,
    pub(super) stream: Option<bool>,
    stream_options: Option<options::ResponseStreamOptions>,
    service_tier: Option<String>,
    safety_identifier: Option<String>,
    prompt_cache_key: Option<String>,
    /// A response that is not stored, but that this request may continue: its connection keeps it.
    #[serde(skip)]
    pub(super) kept: Option<JobId>,
}

/// A job, and how it is answered.
#[derive(Debug)]
pub(super) struct ResponseJob {
    pub(super) spec: JobSpec,
    pub(super) request: ResponseRequest,
    pub(super) is_stream: bool,
}

/// What `input` and the response before it say.
#[derive(Debug)]
pub(super) struct ReadInput {
    /// The messages for the model, history first. The history of a conversation is not among them: the job
    /// reads it when it runs.
    pub(super) messages: Vec<Message>,
    /// The input items as given.
    pub(super) items: Vec<Value>,
    /// The calls that the response before has handed to the client.
    handed: Vec<ClientCall>,
}

/// Reads the body.
pub(super) fn read(body: Map<String, Value>) -> Result<ResponsesRequest, ApiError> {
    typed::from_map(FIELDS.supported(body)?)
}

impl ResponsesRequest {
    /// Whether the store is read for earlier responses.
    pub(super) fn reads_history(&self) -> bool {
        let items = self.input.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        self.previous_response_id.is_some()
            || self.conversation.is_some()
            || items
                .iter()
                .any(|item| matches!(input::kind(item), "item_reference" | "mcp_approval_response"))
    }

    /// Whether images are decoded or read from files.
    pub(super) fn has_images(&self) -> bool {
        let items = self.input.as_ref().and_then(Value::as_array);
        items.is_some_and(|items| images::have_images(items))
    }

    pub(super) fn into_job(
        mut self,
        headers: JobHeaders,
        app: &AppDependencies,
        user: UserId,
    ) -> Result<ResponseJob, ApiError> {
        self.check()?;
        let (is_stored, is_background) = (self.store.unwrap_or(true), self.background.unwrap_or(false));
        if headers.webhook_url.is_some() && !is_stored {
            let text = "'nanoclaw-webhook' needs 'store': the event names a response that is read later";
            return Err(ApiError::value("nanoclaw-webhook", text));
        }
        if !is_background {
            headers.check_waits()?;
        }
        let model = required_model(self.model.take())?;
        let tools = self.tools.take().unwrap_or_default();
        let conversation_id = self.conversation_id(app, user)?;
        let (offered, loaded_before) = self.read_tools(&tools, conversation_id.as_ref(), (app, user))?;
        let settings = self.settings(&offered)?;
        let shown = self.shown(&tools, (is_stored, is_background));
        let ReadInput { messages, items: input, handed } =
            self.read_input(app, user, conversation_id.as_ref())?;
        open_calls::check(&handed, &input)?;
        let handed_approvals = self.handed_approvals(&offered, &input, (app, user))?;
        let (mcp_lists, listed_before) =
            self.mcp_lists(offered.mcp_lists, (&input, conversation_id.as_ref()), (app, user))?;
        let is_agent = app.model.model(&model).is_some_and(|model| model.is_agent);
        let choice = ServerTools::choose(offered.hosted, headers.tools, (offered.is_none, is_agent));
        let is_plain = matches!(choice, ServerTools::None);
        let is_kept = is_stored || is_background;
        let job = JobRequest {
            model: Some(model),
            conversation_id,
            project_id: headers.project_id,
            system_prompt: self.instructions,
            temperature: self.temperature,
            max_tokens: self.max_output_tokens,
            thinking: settings.reasoning_effort.map(ReasoningEffort::thinks),
            tools: choice.into_request(),
            strictness: headers.strictness,
            webhook_url: headers.webhook_url,
            run_at: headers.run_at,
            // Nobody who waits for this answer can decide.
            approval: Some(ApprovalMode::AutoDeny),
            metadata: self.metadata,
            on_disconnect: Some(if is_kept { OnDisconnect::Continue } else { OnDisconnect::Cancel }),
            ..JobRequest::default()
        };
        let mut spec = job.with_messages(messages, app, user).map_err(JobHeaders::name)?;
        functions::check_names(
            (&offered.functions, settings.call_mode.as_ref()),
            (&spec.tools, &spec.model),
            app,
        )?;
        spec.priority = headers.priority.unwrap_or(spec.priority);
        (spec.functions, spec.settings, spec.is_plain) = (offered.functions, settings, is_plain);
        spec.handed_approvals = handed_approvals;
        spec.max_tool_calls = self.max_tool_calls.and_then(|most| most.0.try_into().ok());
        let request = ResponseRequest {
            input,
            shown,
            is_stored,
            is_background,
            mcp_lists,
            listed_before,
            loaded_before,
        };
        spec.response = Some(request.clone());
        Ok(ResponseJob { spec, request, is_stream: self.stream.unwrap_or(false) })
    }

    /// What the model may call in a request that belongs to no conversation. Fails at a field that
    /// `POST /v1/responses` would refuse.
    pub(super) fn offered(&self, app: &AppDependencies, user: UserId) -> Result<OfferedTools, ApiError> {
        self.check()?;
        let (offered, _) = self.read_tools(self.tools.as_deref().unwrap_or_default(), None, (app, user))?;
        self.settings(&offered)?;
        Ok(offered)
    }

    /// What the model may call of these tools, and of those that the input brings or that earlier responses
    /// have brought. Returns the latter, too.
    fn read_tools(
        &self,
        tools: &[Value],
        conversation: Option<&ConversationId>,
        (app, user): (&AppDependencies, UserId),
    ) -> Result<(OfferedTools, Vec<Value>), ApiError> {
        let earlier = (self.previous_response_id.as_deref(), conversation);
        let before = earlier_tools::of(app, (user, self.kept), earlier)?;
        let items = self.input.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let loaded = loaded_tools::of_items((&before, items), tools);
        Ok((tools::read((tools, &loaded), self.tool_choice.as_ref(), app)?, before))
    }

    fn check(&self) -> Result<(), ApiError> {
        if self.background == Some(true) && self.store == Some(false) {
            return Err(ApiError::value(
                "background",
                "'background' needs 'store': its answer is read later",
            ));
        }
        if self.conversation.is_some() && self.previous_response_id.is_some() {
            let text = "'conversation' and 'previous_response_id' exclude each other: each has the history";
            return Err(ApiError::value("conversation", text));
        }
        if self.conversation.is_some() && self.store == Some(false) {
            let text = "'conversation' needs 'store': a response that is not stored leaves no items";
            return Err(ApiError::value("conversation", text));
        }
        if self.stream_options.is_some() && self.stream != Some(true) {
            let text = "'stream_options' may only be set when 'stream' is true";
            return Err(ApiError::value("stream_options", text));
        }
        for name in self.include.iter().flatten() {
            if !HostedTool::INCLUDES.contains(&name.as_str()) {
                let text = format!("'include' may hold {}", HostedTool::INCLUDES.join(", "));
                return Err(ApiError::value("include", text));
            }
            if name.ends_with("logprobs") {
                return Err(unsupported("include", "this server passes on no probabilities"));
            }
        }
        Ok(())
    }

    /// How the job asks for approvals: through the client, if it names an MCP server and the response is
    /// stored.
    fn handed_approvals(
        &self,
        offered: &OfferedTools,
        input: &[Value],
        (app, user): (&AppDependencies, UserId),
    ) -> Result<Option<HandedApprovals>, ApiError> {
        let decided = approval::decided(&*app.store, user, input)?;
        if self.store == Some(false) && offered.asked.as_ref().is_some_and(|asked| !asked.is_empty()) {
            let text = "'require_approval' needs 'store': the next request names the approval request";
            return Err(ApiError::value("store", text));
        }
        let tools = offered.asked.clone().filter(|_| self.store != Some(false));
        let is_needed = tools.is_some() || !decided.is_empty();
        Ok(is_needed.then(|| HandedApprovals { tools: tools.unwrap_or_default(), decided }))
    }

    /// The lists that the client does not have yet, and the labels of the others.
    fn mcp_lists(
        &self,
        mut lists: Vec<McpToolList>,
        (input, conversation): (&[Value], Option<&ConversationId>),
        (app, user): (&AppDependencies, UserId),
    ) -> Result<(Vec<McpToolList>, Vec<String>), ApiError> {
        if lists.is_empty() {
            return Ok((lists, Vec::new()));
        }
        let continued = Continued { previous: self.previous_response_id.as_deref(), conversation, input };
        let before = continued.listed(app, user)?;
        lists.retain(|list| !before.contains(&list.label));
        Ok((lists, before))
    }

    fn settings(&self, offered: &OfferedTools) -> Result<ModelSettings, ApiError> {
        let format = self.text.as_ref().map(options::TextRequest::format).transpose()?.flatten();
        Ok(ModelSettings {
            call_mode: offered.mode.clone(),
            parallel_tool_calls: self.parallel_tool_calls,
            // What was streamed cannot be taken back.
            checks_answer: format.is_some() && self.stream != Some(true),
            response_format: format,
            top_p: in_range("top_p", self.top_p, 0.0, 1.0)?,
            frequency_penalty: in_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?,
            presence_penalty: in_range("presence_penalty", self.presence_penalty, -2.0, 2.0)?,
            reasoning_effort: self.reasoning.as_ref().and_then(|reasoning| reasoning.effort),
            ..ModelSettings::default()
        })
    }

    /// The conversation, if the user has it.
    fn conversation_id(
        &self,
        app: &AppDependencies,
        user: UserId,
    ) -> Result<Option<ConversationId>, ApiError> {
        let Some(named) = &self.conversation else { return Ok(None) };
        let id = ConversationId::try_from(named.id().to_owned()).ok();
        let found = id.as_ref().map(|id| app.conversations.conversation(user, id)).transpose()?;
        if found.flatten().is_none() {
            return Err(ApiError::NotFound("conversation"));
        }
        Ok(id)
    }

    /// The input as messages and as items.
    pub(super) fn read_input(
        &mut self,
        app: &AppDependencies,
        user: UserId,
        conversation: Option<&ConversationId>,
    ) -> Result<ReadInput, ApiError> {
        let mut items = input::items(self.input.take())?;
        let most = app.limits.input_messages;
        if items.len() > most {
            let text = format!("'input' has more than limits.input_messages = {most} items");
            return Err(ApiError::value("input", text));
        }
        // Before others are put in place of references: what a client writes must not name a stored image.
        let images = images::take("input", &mut items, app, user)?;
        let items = history::resolved(app, (user, self.kept), "input", items)?;
        let mut handed = Vec::new();
        let builder = match (&self.previous_response_id, conversation) {
            (Some(id), _) => {
                let earlier = history::earlier((&*app.store, user), id, self.kept)?;
                handed = earlier.handed;
                MessageBuilder::after(earlier.messages)
            }
            (None, Some(id)) => MessageBuilder::behind(EarlierCalls::of(app, (user, id), &items)?),
            (None, None) => MessageBuilder::default(),
        };
        let messages = builder.with_images(images).extend("input", &items)?.finish();
        let decides = |item: &Value| input::kind(item) == "mcp_approval_response";
        if messages.is_empty() && conversation.is_none() && !items.iter().any(decides) {
            return Err(ApiError::value("input", "'input' is missing or empty"));
        }
        Ok(ReadInput { messages, items, handed })
    }

    /// The fields that the response repeats.
    fn shown(&self, tools: &[Value], (is_stored, is_background): (bool, bool)) -> Map<String, Value> {
        let number = |given: Option<AnyNumber>, usual: f64| json!(given.map_or(usual, |number| number.0));
        let tier = self.service_tier.as_deref().filter(|tier| *tier != "auto").unwrap_or("default");
        let shown = [
            ("previous_response_id", json!(self.previous_response_id)),
            ("instructions", json!(self.instructions)),
            ("tools", tools.iter().map(options::shown_tool).collect()),
            ("tool_choice", self.tool_choice.clone().unwrap_or_else(|| "auto".into())),
            ("truncation", json!(self.truncation.map_or("disabled", options::Truncation::as_str))),
            ("parallel_tool_calls", json!(self.parallel_tool_calls.unwrap_or(true))),
            ("text", self.text.as_ref().map_or_else(options::plain_text, options::TextRequest::shown)),
            ("top_p", number(self.top_p, 1.0)),
            ("presence_penalty", number(self.presence_penalty, 0.0)),
            ("frequency_penalty", number(self.frequency_penalty, 0.0)),
            ("top_logprobs", json!(0)),
            ("temperature", json!(self.temperature.map_or(1.0, |temperature| temperature.0))),
            ("reasoning", shown_reasoning(self.reasoning.as_ref())),
            ("max_output_tokens", json!(self.max_output_tokens.map(|most| most.0))),
            ("max_tool_calls", json!(self.max_tool_calls.map(|most| most.0))),
            ("store", json!(is_stored)),
            ("background", json!(is_background)),
            ("service_tier", json!(tier)),
            ("metadata", json!(self.metadata.clone().unwrap_or_default())),
            ("safety_identifier", json!(self.safety_identifier)),
            ("prompt_cache_key", json!(self.prompt_cache_key)),
        ];
        let conversation =
            self.conversation.as_ref().map(|named| ("conversation", json!({"id": named.id()})));
        shown.into_iter().chain(conversation).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The model, which must be named here.
pub(super) fn required_model(model: Option<String>) -> Result<String, ApiError> {
    model.ok_or_else(|| missing("model", MODEL_ADVICE))
}
