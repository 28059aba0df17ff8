//! Input items and the messages that the model gets of them.

use super::earlier_calls::EarlierCalls;
use super::namespace::name_for_model;
use super::{compaction, custom_tool, declared_tools, ids, item, loaded_tools};
use crate::domain::client_call_id::ClientCallId;
use crate::domain::hosted_tool::HostedTool;
use crate::domain::id::JobId;
use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::domain::stored_file::ContentDigest;
use crate::domain::tool::ToolCall;
use crate::domain::user_parts::{ResultImages, UserPartsBuilder};
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::http::v1::openai::failure::unsupported;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// `input` as items: a string is a message of the user.
pub(super) fn items(input: Option<Value>) -> Result<Vec<Value>, ApiError> {
    match input {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![json!({"type": "message", "role": "user", "content": text})]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(ApiError::value("input", "'input' must be a string or a list of items")),
    }
}

/// The type of an item; clients leave it out for messages.
pub(super) fn kind(item: &Value) -> &str {
    match item.get("type").and_then(Value::as_str) {
        Some(kind) => kind,
        None if item.get("role").is_some() => "message",
        None if item.get("id").is_some() => "item_reference",
        None => "",
    }
}

/// Images of input items, by digest.
pub(super) type ItemImages = HashMap<ContentDigest, Image>;

/// An answer of the model that is being put together.
#[derive(Debug, Default)]
struct AnswerDraft {
    content: String,
    thinking: String,
    calls: Vec<ToolCall>,
}

/// Makes messages of items.
#[derive(Debug, Default)]
pub(super) struct MessageBuilder {
    messages: Vec<Message>,
    draft: AnswerDraft,
    /// The names of the called functions, by call.
    called: HashMap<String, String>,
    /// Calls of the conversation that the messages are for.
    earlier: EarlierCalls,
    /// Jobs whose calls were handed to the client: the engine restores the rest of their answers.
    handed: HashSet<JobId>,
    images: ItemImages,
    result_images: ResultImages,
    /// What searches found, by item: the items do not have it.
    found: HashMap<String, String>,
}

impl MessageBuilder {
    /// A builder behind the messages of earlier responses.
    pub(super) fn after(messages: Vec<Message>) -> Self {
        let mut called = HashMap::new();
        for message in &messages {
            if let Message::Assistant { tool_calls, .. } = message {
                called.extend(tool_calls.iter().map(|call| (call.id_ref.clone(), call.name.clone())));
            }
        }
        Self { messages, called, ..Self::default() }
    }

    /// A builder behind the messages of a conversation, which has these calls.
    pub(super) fn behind(earlier: EarlierCalls) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// The same with what searches among the items found, by id.
    pub(super) fn with_found(self, found: HashMap<String, String>) -> Self {
        Self { found, ..self }
    }

    /// The same with the images that the items name.
    pub(super) fn with_images(self, images: ItemImages) -> Self {
        Self { images, ..self }
    }

    /// Adds the items; `path` names them in errors.
    pub(super) fn extend(mut self, path: &str, items: &[Value]) -> Result<Self, ApiError> {
        let calls = items.iter().filter_map(|item| item.get("call_id")?.as_str()?.parse().ok());
        self.handed.extend(calls.map(|id: ClientCallId| id.job));
        for (index, item) in items.iter().enumerate() {
            self.item(&format!("{path}[{index}]"), item)?;
        }
        Ok(self)
    }

    pub(super) fn finish(mut self) -> Vec<Message> {
        self.flush();
        self.messages.extend(self.result_images.take());
        self.messages
    }

    fn item(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        member::check_object(path, item)?;
        member::optional_text(path, item, "type")?;
        if let Some(tool) = HostedTool::of_item(kind(item)) {
            return self.hosted_call(path, tool, item);
        }
        match kind(item) {
            "message" => self.message(path, item),
            "reasoning" => {
                self.begin_text();
                self.draft.thinking.push_str(&reasoning(path, item)?);
                Ok(())
            }
            "function_call" => self.function_call(path, item),
            custom_tool::CALL => self.custom_call(path, item),
            "local_shell_call" => self.shell_call(path, item),
            loaded_tools::CALL => self.search_call(path, item),
            loaded_tools::RESULT => self.search_result(path, item),
            "function_call_output" | custom_tool::RESULT => {
                self.result(path, member::text(path, item, "call_id")?, item)
            }
            // `OpenAI` names the call in `id`, Codex in `call_id`.
            "local_shell_call_output" => {
                let field = if item.get("call_id").is_some() { "call_id" } else { "id" };
                self.result(path, member::text(path, item, field)?, item)
            }
            "compaction" => {
                let summary = compaction::open(path, item)?;
                self.push(Message::System { content: summary });
                Ok(())
            }
            // The response that goes on makes the call again; lists of tools are the server's own.
            "mcp_approval_response" => declared_tools::check_decision(path, item),
            "mcp_approval_request" | "mcp_list_tools" => Ok(()),
            loaded_tools::ADDITIONAL => loaded_tools::check(path, item),
            "" => Err(ApiError::value(&format!("{path}.type"), format!("'{path}.type' is missing"))),
            other => {
                let text = format!("'{path}': items of type {} are not supported", quoted(other));
                Err(unsupported(&format!("{path}.type"), text))
            }
        }
    }

    fn message(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let role = member::text(path, item, "role")?;
        let images = if role == "user" { Some(&self.images) } else { None };
        let (content, images) = content_of(&format!("{path}.content"), item.get("content"), images)?;
        match role {
            "user" => self.push(Message::User { content, attachments: Vec::new(), images }),
            "system" | "developer" => self.push(Message::System { content }),
            "assistant" => {
                self.begin_text();
                if !self.draft.content.is_empty() && !content.is_empty() {
                    self.draft.content.push_str("\n\n");
                }
                self.draft.content.push_str(&content);
            }
            _ => {
                let text = format!(
                    "'{path}.role' must be user, assistant, system or developer, not {}",
                    quoted(role)
                );
                return Err(ApiError::value(&format!("{path}.role"), text));
            }
        }
        Ok(())
    }

    fn function_call(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let string = |name: &str| member::text(path, item, name);
        let (id, arguments) = (string("call_id")?, string("arguments")?);
        let name = name_in_item(path, item)?;
        self.call(id, &name, arguments.to_owned());
        Ok(())
    }

    fn custom_call(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let input = member::text(path, item, "input")?;
        let name = name_in_item(path, item)?;
        self.call(member::text(path, item, "call_id")?, &name, custom_tool::arguments(input));
        Ok(())
    }

    /// A search for tools. One that the other server ran has no id.
    fn search_call(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let arguments = member::optional_object(path, item, "arguments")?.cloned().unwrap_or_default();
        if let Some(id) = member::optional_text(path, item, "call_id")? {
            self.call(id, loaded_tools::SEARCH, Value::Object(arguments).to_string());
        }
        Ok(())
    }

    fn search_result(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        loaded_tools::check(path, item)?;
        match member::optional_text(path, item, "call_id")? {
            Some(id) => self.answer(path, id, (loaded_tools::found(item), Vec::new())),
            None => Ok(()),
        }
    }

    /// A command that the client ran for another server.
    fn shell_call(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let action = json!(member::object(path, item, "action")?);
        let path_of_action = format!("{path}.action");
        let words = member::list(&path_of_action, &action, "command")?;
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let Some(words) = words else {
            let path = format!("{path_of_action}.command");
            return Err(ApiError::value(&path, format!("'{path}' must be a list of strings")));
        };
        let name = HostedTool::Shell.tool().unwrap_or_default();
        let arguments = json!({"command": words.join(" ")}).to_string();
        self.call(member::text(path, item, "call_id")?, name, arguments);
        Ok(())
    }

    fn call(&mut self, id: &str, name: &str, arguments: String) {
        let (id_ref, name) = (id.to_owned(), name.to_owned());
        self.called.insert(id_ref.clone(), name.clone());
        self.draft.calls.push(ToolCall { id_ref, name, arguments });
    }

    fn result(&mut self, path: &str, call_id: &str, item: &Value) -> Result<(), ApiError> {
        let output = content_of(&format!("{path}.output"), item.get("output"), Some(&self.images))?;
        self.answer(path, call_id, output)
    }

    fn answer(
        &mut self,
        path: &str,
        call_id: &str,
        (content, images): (String, Vec<Image>),
    ) -> Result<(), ApiError> {
        let id_ref = call_id.to_owned();
        let (id_ref, name) = match (self.called.get(&id_ref), self.earlier.get(&id_ref)) {
            (Some(name), _) => (id_ref, name.clone()),
            (None, Some(call)) => (call.id_ref.clone(), call.name.clone()),
            (None, None) => {
                let text = format!("no call before this item has the call_id {}", quoted(&id_ref));
                return Err(ApiError::value(&format!("{path}.call_id"), text));
            }
        };
        self.flush();
        self.result_images.add(&name, images);
        self.messages.push(Message::Tool { id_ref, name, content });
        Ok(())
    }

    /// A call of this server's tool with its result, as the client had it.
    fn hosted_call(&mut self, path: &str, tool: HostedTool, item: &Value) -> Result<(), ApiError> {
        let id = member::optional_text(path, item, "id")?.unwrap_or_default();
        if ids::item_place(id).is_some_and(|(job, _)| self.handed.contains(&job)) {
            return Ok(());
        }
        let field = |name: &str| -> Result<String, ApiError> {
            Ok(member::optional_text(path, item, name)?.unwrap_or_default().to_owned())
        };
        let name = match tool.tool() {
            Some(name) => name.to_owned(),
            None => item::tool_name(&field("server_label")?, member::text(path, item, "name")?),
        };
        let (arguments, content) = match tool {
            HostedTool::Code => {
                let logs = item.pointer("/outputs/0/logs").and_then(Value::as_str).unwrap_or_default();
                (json!({"code": field("code")?}).to_string(), logs.to_owned())
            }
            HostedTool::Search => {
                let query = item.pointer("/action/query").cloned().unwrap_or_default();
                let lost = || "the results of this search are no longer here".to_owned();
                (json!({"query": query}).to_string(), self.found.get(id).cloned().unwrap_or_else(lost))
            }
            HostedTool::Shell | HostedTool::Other => (field("arguments")?, field("output")?),
        };
        // Providers match a result with its call by this id.
        let id_ref = if id.is_empty() { format!("hosted_{}", self.messages.len()) } else { id.to_owned() };
        self.draft.calls.push(ToolCall { id_ref: id_ref.clone(), name: name.clone(), arguments });
        self.push(Message::Tool { id_ref, name, content });
        Ok(())
    }

    /// Text after calls begins another answer.
    fn begin_text(&mut self) {
        if !self.draft.calls.is_empty() {
            self.flush();
        }
    }

    fn push(&mut self, message: Message) {
        self.flush();
        self.messages.extend(self.result_images.take());
        self.messages.push(message);
    }

    fn flush(&mut self) {
        let AnswerDraft { content, thinking, calls } = std::mem::take(&mut self.draft);
        if !content.is_empty() || !calls.is_empty() {
            self.messages.extend(self.result_images.take());
            self.messages.push(Message::Assistant { content, thinking, tool_calls: calls, echo: None });
        }
    }
}

/// The name for the model of the client's tool that an item calls.
fn name_in_item(path: &str, item: &Value) -> Result<String, ApiError> {
    let namespace = member::optional_text(path, item, "namespace")?;
    Ok(name_for_model(namespace, member::text(path, item, "name")?))
}

/// Whether a part of a content is an image.
pub(super) fn is_image(part: &Value) -> bool {
    kind(part) == "input_image"
}

/// The image that a part of a stored item names.
pub(super) fn named_image(part: &Value, images: &ItemImages) -> Option<Image> {
    if !is_image(part) {
        return None;
    }
    let image: Image = serde_json::from_value(part.get("image")?.clone()).ok()?;
    let data = images.get(&image.content).and_then(|found| found.data.clone());
    Some(Image { data, ..image })
}

/// The reasoning in the summary of an item, else in its content.
fn reasoning(path: &str, item: &Value) -> Result<String, ApiError> {
    let of = |field: &str| -> Result<String, ApiError> {
        let parts = member::list(path, item, field)?.iter().enumerate();
        let texts = parts.map(|(at, part)| member::text(&format!("{path}.{field}[{at}]"), part, "text"));
        Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n\n"))
    };
    let (summary, content) = (of("summary")?, of("content")?);
    Ok(if summary.is_empty() { content } else { summary })
}

/// The text of a content, and its images, if it may have them. Other parts are refused.
fn content_of(
    path: &str,
    content: Option<&Value>,
    with_images: Option<&ItemImages>,
) -> Result<(String, Vec<Image>), ApiError> {
    let parts = match content {
        Some(Value::String(text)) => return Ok((text.clone(), Vec::new())),
        Some(Value::Array(parts)) => parts,
        _ => return Err(ApiError::value(path, format!("'{path}' must be a string or a list of parts"))),
    };
    let mut read = UserPartsBuilder::default();
    for (index, part) in parts.iter().enumerate() {
        if let Some(images) = with_images.filter(|_| is_image(part)) {
            if let Some(image) = named_image(part, images) {
                read.image(image);
            }
            continue;
        }
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let field = match kind {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => "text",
            "refusal" => "refusal",
            "input_image" | "input_file" | "input_video" | "input_audio" => {
                let text =
                    format!("'{path}[{index}]': parts of type {kind} are not supported here; send text");
                return Err(unsupported(&format!("{path}[{index}].type"), text));
            }
            _ => {
                let text = format!("'{path}[{index}].type' must be input_text, not {}", quoted(kind));
                return Err(ApiError::value(&format!("{path}[{index}].type"), text));
            }
        };
        read.text("", member::text(&format!("{path}[{index}]"), part, field)?);
    }
    Ok(read.finish())
}

/// An input item as the list of input items shows it: with an id, a type, and parts.
pub(super) fn shown(job: JobId, place: usize, item: Value) -> Value {
    match item.get("id").and_then(Value::as_str).map(str::to_owned) {
        Some(given) => with_id(item, |_| given),
        None => with_id(item, |prefix| ids::input_id(prefix, job, place)),
    }
}

/// The item with this id, made of the prefix of its type, and with a type and parts.
pub(super) fn with_id(mut item: Value, id: impl FnOnce(&str) -> String) -> Value {
    let kind = kind(&item).to_owned();
    let prefix = match kind.as_str() {
        "function_call" => "fc",
        "function_call_output" => "fco",
        custom_tool::CALL => "ctc",
        custom_tool::RESULT => "ctco",
        loaded_tools::ADDITIONAL => "at",
        loaded_tools::CALL => "tsc",
        loaded_tools::RESULT => "tso",
        "local_shell_call" => "lsh",
        "local_shell_call_output" => "lsho",
        "reasoning" => "rs",
        "compaction" => "cmp",
        "mcp_approval_request" => "mcpr",
        "mcp_approval_response" => "mcpa",
        "mcp_list_tools" => "mcpl",
        kind => HostedTool::of_item(kind).map_or("msg", HostedTool::id_prefix),
    };
    let Value::Object(map) = &mut item else { return item };
    let is_answer = map.get("role").and_then(Value::as_str) == Some("assistant");
    if let Some(Value::String(text)) = map.get("content") {
        let part = if is_answer {
            json!({"type": "output_text", "text": text, "annotations": []})
        } else {
            json!({"type": "input_text", "text": text})
        };
        map.insert("content".to_owned(), json!([part]));
    }
    map.insert("id".to_owned(), id(prefix).into());
    let has_no_status =
        matches!(kind.as_str(), "reasoning" | "compaction" | "mcp_list_tools" | loaded_tools::ADDITIONAL);
    if !has_no_status && !kind.starts_with("mcp_approval") {
        map.entry("status").or_insert_with(|| "completed".into());
    }
    map.insert("type".to_owned(), kind.into());
    item
}
