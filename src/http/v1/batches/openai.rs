//! Translates batch lines of `OpenAI` (`/v1/chat/completions`, `/v1/responses`) into jobs. A field that would
//! change the answer and has no counterpart is an error: nothing is dropped silently.

use crate::http::error::ApiError;
use crate::http::request::typed::{from_map, must_be, unknown};
use crate::http::request::values::{MaxTokens, Temperature};
use crate::http::v1::jobs::spec::input::{AttachmentRequest, InputMessage, InputRequest, InputRole};
use crate::http::v1::jobs::spec::{JobRequest, ToolsRequest};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Fields that do not change the answer; ignored.
const IDLE: [&str; 7] = [
    "user",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "stream_options",
    "background",
];

/// Fields that only one of the endpoints has.
const CHAT_FIELDS: [&str; 5] = ["messages", "max_tokens", "max_completion_tokens", "reasoning_effort", "n"];
const RESPONSES_FIELDS: [&str; 4] = ["input", "instructions", "max_output_tokens", "reasoning"];
/// Fields that both have.
const COMMON_FIELDS: [&str; 6] = ["model", "temperature", "metadata", "stream", "tools", "tool_choice"];

/// A body of either endpoint.
#[derive(Deserialize)]
struct OpenAiRequest {
    messages: Option<OpenAiInput>,
    input: Option<OpenAiInput>,
    instructions: Option<String>,
    max_tokens: Option<MaxTokens>,
    max_completion_tokens: Option<MaxTokens>,
    max_output_tokens: Option<MaxTokens>,
    reasoning_effort: Option<String>,
    reasoning: Option<ReasoningRequest>,
    n: Option<Value>,
    stream: Option<bool>,
    tools: Option<Vec<IgnoredAny>>,
    tool_choice: Option<String>,
    model: Option<String>,
    temperature: Option<Temperature>,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ReasoningRequest {
    effort: Option<String>,
}

#[derive(Deserialize)]
enum OpenAiInput {
    #[serde(rename = "a string")]
    Prompt(String),
    #[serde(rename = "a list")]
    Messages(Vec<OpenAiMessage>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenAiMessage {
    role: OpenAiRole,
    content: Option<OpenAiContent>,
    attachments: Option<Vec<AttachmentRequest>>,
    #[serde(rename = "type")]
    _kind: Option<OpenAiMessageKind>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpenAiMessageKind {
    Message,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpenAiRole {
    System,
    Developer,
    User,
    Assistant,
}

#[derive(Deserialize)]
enum OpenAiContent {
    #[serde(rename = "a string")]
    Text(String),
    #[serde(rename = "a list")]
    Parts(Vec<Value>),
}

pub(crate) fn chat(body: Map<String, Value>) -> Result<JobRequest, ApiError> {
    job("messages", read(body, &CHAT_FIELDS)?)
}

pub(crate) fn responses(body: Map<String, Value>) -> Result<JobRequest, ApiError> {
    job("input", read(body, &RESPONSES_FIELDS)?)
}

fn read(mut body: Map<String, Value>, own: &[&str]) -> Result<OpenAiRequest, ApiError> {
    body.retain(|name, _| !IDLE.contains(&name.as_str()));
    let known: Vec<&str> = own.iter().chain(&COMMON_FIELDS).copied().collect();
    match body.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown(name, &known)),
        None => from_map(body),
    }
}

/// The job. `input` is the name of the field with its messages.
fn job(input: &str, body: OpenAiRequest) -> Result<JobRequest, ApiError> {
    if let Some(other) = body.n.filter(|n| n.as_u64() != Some(1)) {
        return Err(ApiError::value("n", format!("'n' {}", must_be("1: a job has one answer", &other))));
    }
    if body.stream == Some(true) {
        return Err(ApiError::value("stream", "'stream' must be false: a batch has results, not streams"));
    }
    let messages = body.messages.or(body.input);
    let messages = messages.ok_or_else(|| ApiError::value(input, format!("'{input}' is missing")))?;
    let effort = body.reasoning_effort.or(body.reasoning.and_then(|reasoning| reasoning.effort));
    Ok(JobRequest {
        input: Some(messages.into_input(input)?),
        system_prompt: body.instructions,
        max_tokens: body.max_completion_tokens.or(body.max_tokens).or(body.max_output_tokens),
        thinking: effort.map(|effort| !matches!(effort.as_str(), "none" | "minimal")),
        tools: no_tools(body.tools, body.tool_choice.as_deref())?,
        model: body.model,
        temperature: body.temperature,
        metadata: body.metadata,
        ..JobRequest::default()
    })
}

/// A line may switch the tools of this server off. It cannot bring its own.
fn no_tools(tools: Option<Vec<IgnoredAny>>, choice: Option<&str>) -> Result<Option<ToolsRequest>, ApiError> {
    match tools {
        Some(list) if !list.is_empty() => Err(ApiError::value(
            "tools",
            "'tools' must be empty or absent: this server's own tools are used; a line for /v1/jobs can name some of them",
        )),
        Some(_) => Ok(Some(ToolsRequest::All(false))),
        None => Ok((choice == Some("none")).then_some(ToolsRequest::All(false))),
    }
}

impl OpenAiInput {
    /// The input of a job: text parts joined, `developer` as `system`.
    fn into_input(self, name: &str) -> Result<InputRequest, ApiError> {
        let list = match self {
            Self::Prompt(text) => return Ok(InputRequest::Prompt(text)),
            Self::Messages(list) => list,
        };
        let messages = list.into_iter().enumerate().map(|(index, message)| {
            let role = match message.role {
                OpenAiRole::System | OpenAiRole::Developer => InputRole::System,
                OpenAiRole::User => InputRole::User,
                OpenAiRole::Assistant => InputRole::Assistant,
            };
            let content = message.content.map(|content| content.text(&format!("{name}[{index}].content")));
            Ok(InputMessage { role, content: content.transpose()?, attachments: message.attachments })
        });
        messages.collect::<Result<_, ApiError>>().map(InputRequest::Messages)
    }
}

impl OpenAiContent {
    fn text(self, path: &str) -> Result<String, ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let text = |part: &Value| {
            let kind = part.get("type").and_then(Value::as_str);
            let text = part.get("text").and_then(Value::as_str).map(str::to_owned);
            text.filter(|_| matches!(kind, Some("text" | "input_text" | "output_text")))
        };
        let texts: Option<String> = parts.iter().map(text).collect();
        texts.ok_or_else(|| ApiError::value(path, format!("'{path}' must hold text parts only")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Both read as the same job.
    fn same(job: Result<JobRequest, ApiError>, wanted: Value) {
        let wanted: JobRequest = from_map(map(wanted)).expect("a job");
        assert_eq!(format!("{:?}", job.expect("a job")), format!("{wanted:?}"));
    }

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn a_chat_completion_request_becomes_a_job() {
        let body = json!({
            "model": "demo", "temperature": 0.5, "max_completion_tokens": 9, "user": "u", "n": 1, "stream": false,
            "reasoning_effort": "high", "metadata": {"a": "b"},
            "messages": [
                {"role": "developer", "content": "be brief"},
                {"role": "user", "name": "ann", "content": [{"type":"text","text":"a"},{"type":"text","text":"b"}]},
            ],
        });
        let job = json!({
            "model": "demo", "temperature": 0.5, "metadata": {"a": "b"}, "max_tokens": 9, "thinking": true,
            "input": [{"role":"system","content":"be brief"},{"role":"user","content":"ab"}],
        });
        same(chat(map(body)), job);
    }

    #[test]
    fn a_responses_request_becomes_a_job() {
        let body = json!({"input": "hi", "instructions": "be brief", "max_output_tokens": 5, "reasoning": {"effort":"none"}});
        let job = json!({"input": "hi", "system_prompt": "be brief", "max_tokens": 5, "thinking": false});
        same(responses(map(body)), job);
    }

    #[test]
    fn fields_that_would_change_the_answer_are_refused_by_name() {
        for (body, word) in [
            (json!({"messages": [], "top_p": 0.1}), "top_p"),
            (json!({"messages": [], "n": 2}), "'n'"),
            (json!({"messages": [], "stream": true}), "'stream'"),
            (json!({}), "'messages' is missing"),
            (json!({"messages": [{"role":"user","content":[{"type":"image_url"}]}]}), "text parts only"),
        ] {
            let error = chat(map(body)).expect_err("refused");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
