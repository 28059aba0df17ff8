//! Messages of a chat: roles, parts of content, calls and their results.

use super::super::failure::unsupported;
use super::super::fields::check_messages;
use crate::domain::image::Image;
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::user_parts::UserPartsBuilder;
use crate::http::error::ApiError;
use crate::http::request::image;
use crate::http::request::member;
use crate::http::request::quoted::{listed, quoted};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::HashMap;

/// A message. Clients send back whole messages of the assistant, so their other fields are accepted, too.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatMessageRequest {
    role: ChatRole,
    content: Option<ChatContent>,
    tool_calls: Option<Vec<ChatToolCall>>,
    tool_call_id: Option<String>,
    /// Reasoning of the assistant.
    reasoning_content: Option<String>,
    /// The same, as other providers name it.
    reasoning: Option<String>,
    refusal: Option<String>,
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "annotations")]
    #[cfg_attr(test, schemars(with = "Option<Vec<Value>>"))]
    _annotations: Option<IgnoredAny>,
    /// The content again, as packages of `OpenAI` have parsed it.
    #[serde(rename = "parsed")]
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    _parsed: Option<IgnoredAny>,
    /// Refused unless `null`.
    function_call: Option<Value>,
    /// Refused unless `null`.
    audio: Option<Value>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChatRole {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[derive(Debug, Deserialize)]
enum ChatContent {
    #[serde(rename = "a string")]
    Text(String),
    #[serde(rename = "a list")]
    Parts(Vec<Value>),
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatToolCall {
    id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    function: ChatCalledFunction,
    /// Clients that gather chunks may leave it.
    #[serde(rename = "index")]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    _index: Option<IgnoredAny>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatCalledFunction {
    name: String,
    arguments: String,
    /// The arguments again, as packages of `OpenAI` have parsed them.
    #[serde(rename = "parsed_arguments")]
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    _parsed_arguments: Option<IgnoredAny>,
}

/// The messages as the engine has them.
pub(super) fn messages(list: Vec<ChatMessageRequest>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    check_messages(&list, limits)?;
    // The names of the functions that were called, by call.
    let mut called = HashMap::new();
    let read = list.into_iter().enumerate().map(|(index, given)| message(index, given, &mut called, limits));
    let messages = read.collect::<Result<Vec<_>, _>>()?;
    check_answered(&messages)?;
    Ok(messages)
}

/// Fails at a message with calls that are not answered by the messages of role tool right behind it.
fn check_answered(messages: &[Message]) -> Result<(), ApiError> {
    for (index, message) in messages.iter().enumerate() {
        let Message::Assistant { tool_calls, .. } = message else { continue };
        let behind = messages.iter().skip(index.saturating_add(1));
        let answered: Vec<&str> = behind.map_while(Message::answered_call).collect();
        let open = tool_calls.iter().map(|call| call.id_ref.as_str()).filter(|id| !answered.contains(id));
        let open: Vec<&str> = open.collect();
        if !open.is_empty() {
            let text = format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                listed(&open)
            );
            return Err(ApiError::value(&format!("messages[{index}].tool_calls"), text));
        }
    }
    Ok(())
}

fn message(
    index: usize,
    given: ChatMessageRequest,
    called: &mut HashMap<String, String>,
    limits: &Limits,
) -> Result<Message, ApiError> {
    let path = |field: &str| format!("messages[{index}].{field}");
    for (field, value) in [("function_call", &given.function_call), ("audio", &given.audio)] {
        if value.is_some() {
            return Err(unsupported(&path(field), format!("'{}' is not supported", path(field))));
        }
    }
    let is_assistant = given.role == ChatRole::Assistant;
    if given.tool_calls.is_some() && !is_assistant {
        let text = format!("'{}' belongs to messages of role assistant alone", path("tool_calls"));
        return Err(ApiError::value(&path("tool_calls"), text));
    }
    let images = Some(limits).filter(|_| given.role == ChatRole::User);
    let content = given.content.map(|content| content.read(&path("content"), images)).transpose()?;
    let (content, images) = content.map_or((None, Vec::new()), |(text, images)| (Some(text), images));
    let has_calls = given.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let Some(content) = content.or(given.refusal).or_else(|| has_calls.then(String::new)) else {
        return Err(ApiError::value(&path("content"), format!("'{}' is missing", path("content"))));
    };
    Ok(match given.role {
        ChatRole::System | ChatRole::Developer => Message::System { content },
        ChatRole::User => Message::User { content, attachments: Vec::new(), images },
        ChatRole::Assistant => {
            let mut tool_calls = Vec::new();
            for (at, call) in given.tool_calls.unwrap_or_default().into_iter().enumerate() {
                let call = tool_call(&format!("{}[{at}]", path("tool_calls")), call)?;
                called.insert(call.id_ref.clone(), call.name.clone());
                tool_calls.push(call);
            }
            let thinking = given.reasoning_content.or(given.reasoning).unwrap_or_default();
            Message::Assistant { content, thinking, tool_calls, echo: None }
        }
        ChatRole::Tool => {
            let id_ref = given.tool_call_id.ok_or_else(|| {
                ApiError::value(&path("tool_call_id"), format!("'{}' is missing", path("tool_call_id")))
            })?;
            let Some(name) = called.get(&id_ref).cloned() else {
                let text = format!("no message before this one has a call with the id {}", quoted(&id_ref));
                return Err(ApiError::value(&path("tool_call_id"), text));
            };
            Message::Tool { id_ref, name, content }
        }
    })
}

fn tool_call(path: &str, call: ChatToolCall) -> Result<ToolCall, ApiError> {
    if call.kind.as_deref().is_some_and(|kind| kind != "function") {
        let text = format!("'{path}.type' must be function");
        return Err(unsupported(&format!("{path}.type"), text));
    }
    let ChatCalledFunction { name, arguments, .. } = call.function;
    Ok(ToolCall { id_ref: call.id, name, arguments })
}

/// The image of a part: `{url, detail}`, or the URL alone, as some clients send it.
fn image_part(path: &str, given: Option<&Value>, limits: &Limits) -> Result<Image, ApiError> {
    let given = given.unwrap_or(&Value::Null);
    if let Value::String(url) = given {
        return image::of_url(path, url, limits);
    }
    let image = image::of_url(&format!("{path}.url"), member::text(path, given, "url")?, limits)?;
    Ok(Image { detail: image::detail(&format!("{path}.detail"), given.get("detail"))?, ..image })
}

impl ChatContent {
    /// The text of all parts, and the images, if they may be there. Other parts are refused.
    fn read(self, path: &str, with_images: Option<&Limits>) -> Result<(String, Vec<Image>), ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok((text, Vec::new())),
            Self::Parts(parts) => parts,
        };
        let mut read = UserPartsBuilder::default();
        for (index, part) in parts.iter().enumerate() {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
            if let Some(limits) = with_images.filter(|_| kind == "image_url") {
                let path = format!("{path}[{index}].image_url");
                read.image(image_part(&path, part.get("image_url"), limits)?);
                continue;
            }
            let field = match kind {
                "text" | "refusal" => kind,
                "image_url" | "input_audio" | "file" => {
                    let text = format!("'{path}[{index}]': parts of type {kind} are not supported here");
                    return Err(unsupported(&format!("{path}[{index}].type"), text));
                }
                _ => {
                    let text = format!("'{path}[{index}].type' must be text, not {}", quoted(kind));
                    return Err(ApiError::value(&format!("{path}[{index}].type"), text));
                }
            };
            read.text("", member::text(&format!("{path}[{index}]"), part, field)?);
        }
        Ok(read.finish())
    }
}
