//! Messages of a request: roles, content blocks, calls and their results.

use super::tools;
use crate::domain::attachment::Attachment;
use crate::domain::id::UserId;
use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::user_parts::{ResultImages, UserPartsBuilder};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::image;
use crate::http::request::member;
use crate::http::request::quoted::{listed, quoted};
use crate::http::request::typed::must_be;
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::fields::check_messages;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Fields that change nothing here.
pub(crate) const IDLE: [&str; 5] = ["type", "cache_control", "citations", "caller", "toolset_name"];

/// A message.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageParam {
    role: MessageRole,
    /// A text, or a list of blocks.
    content: Value,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MessageRole {
    User,
    Assistant,
    System,
}

/// The messages as the engine has them, the system prompt first.
pub(super) fn messages(
    system: Option<Value>,
    list: Vec<MessageParam>,
    (app, user): (&AppDependencies, UserId),
) -> Result<Vec<Message>, ApiError> {
    check_messages(&list, &app.limits)?;
    let mut reader = MessageReader { messages: Vec::new(), called: HashMap::new(), app, user };
    if let Some(system) = system {
        let content = texts("system", system)?;
        if !content.is_empty() {
            reader.messages.push(Message::System { content });
        }
    }
    for (index, message) in list.into_iter().enumerate() {
        let path = format!("messages[{index}].content");
        match message.role {
            MessageRole::User => reader.user(&path, message.content)?,
            MessageRole::Assistant => reader.assistant(&path, message.content)?,
            MessageRole::System => {
                let content = texts(&path, message.content)?;
                reader.messages.push(Message::System { content });
            }
        }
    }
    Ok(reader.messages)
}

/// Fails at calls that the next message does not answer. Neighbours of one role are one message.
pub(super) fn check_answered(list: &[MessageParam]) -> Result<(), ApiError> {
    // The ids of the last calls, and the message that has them.
    let (mut open, mut place): (Vec<&str>, usize) = (Vec::new(), 0);
    let mut role_before = MessageRole::User;
    for (index, message) in list.iter().enumerate() {
        let blocks = message.content.as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = |kind_of_block: &'static str, field: &'static str| {
            let of_kind = blocks.iter().filter(move |block| kind(block) == kind_of_block);
            of_kind.filter_map(move |block| block.get(field)?.as_str())
        };
        match message.role {
            MessageRole::System => continue,
            MessageRole::User => {
                let answered: Vec<&str> = ids("tool_result", "tool_use_id").collect();
                open.retain(|id| !answered.contains(id));
            }
            MessageRole::Assistant => {
                if role_before == MessageRole::User {
                    fail_if_open(place, &open)?;
                }
                open.extend(ids("tool_use", "id"));
                place = index;
            }
        }
        role_before = message.role;
    }
    fail_if_open(place, &open)
}

fn fail_if_open(place: usize, ids: &[&str]) -> Result<(), ApiError> {
    if ids.is_empty() {
        return Ok(());
    }
    let path = format!("messages[{place}]");
    let text = format!(
        "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` \
         block must have a corresponding `tool_result` block in the next message.",
        listed(ids)
    );
    Err(ApiError::value(&path, text))
}

struct MessageReader<'a> {
    messages: Vec<Message>,
    /// The names of the tools that were called, by call.
    called: HashMap<String, String>,
    app: &'a AppDependencies,
    user: UserId,
}

impl MessageReader<'_> {
    /// Results of calls become messages of their own, before the text.
    fn user(&mut self, path: &str, content: Value) -> Result<(), ApiError> {
        let (mut parts, mut attachments) = (UserPartsBuilder::default(), Vec::new());
        let mut result_images = ResultImages::default();
        let before = self.messages.len();
        for (path, block) in blocks(path, content)? {
            match kind(&block) {
                "text" => parts.text("\n\n", &text_of(&path, &block, "text")?),
                "document" => attachments.push(document(&path, &block)?),
                "search_result" => attachments.push(search_result(&path, &block)?),
                "image" => parts.image(image_of(&path, &block, (self.app, self.user))?),
                "tool_result" => self.result(&path, &block, &mut result_images)?,
                _ => {
                    let known = "text, image, document, search_result or tool_result";
                    return Err(refused(&path, &block, known));
                }
            }
        }
        self.messages.extend(result_images.take());
        let (content, images) = parts.finish();
        let is_empty = content.is_empty() && attachments.is_empty() && images.is_empty();
        if is_empty && self.messages.len() == before {
            return Err(ApiError::value(path, format!("'{path}' is empty")));
        }
        if !is_empty {
            self.messages.push(Message::User { content, attachments, images });
        }
        Ok(())
    }

    fn result(&mut self, path: &str, block: &Value, images: &mut ResultImages) -> Result<(), ApiError> {
        check_fields(path, block, &["tool_use_id", "content", "is_error"])?;
        let given = member::text(path, block, "tool_use_id")?;
        let id = tools::call_id(given);
        let Some(name) = self.called.get(&id).cloned() else {
            let path = format!("{path}.tool_use_id");
            let text =
                format!("'{path}': no message before this one has a tool_use with the id {}", quoted(given));
            return Err(ApiError::value(&path, text));
        };
        let content = match block.get("content") {
            None | Some(Value::Null) => String::new(),
            Some(content) => {
                let path = format!("{path}.content");
                let (pictures, others) = blocks(&path, content.clone())?
                    .into_iter()
                    .partition(|(_, block)| kind(block) == "image");
                for (path, block) in Vec::<(String, Value)>::into_iter(pictures) {
                    images.add(&name, vec![image_of(&path, &block, (self.app, self.user))?]);
                }
                let texts = others.iter().map(|(path, block)| result_text(path, block));
                texts.collect::<Result<Vec<_>, _>>()?.join("\n\n")
            }
        };
        let has_failed = member::optional_flag(path, block, "is_error")?.unwrap_or(false);
        let content =
            if has_failed { json!({"success": false, "error": content}).to_string() } else { content };
        self.messages.push(Message::Tool { id_ref: id, name, content });
        Ok(())
    }

    fn assistant(&mut self, path: &str, content: Value) -> Result<(), ApiError> {
        let (mut content_text, mut thinking, mut tool_calls) = (String::new(), String::new(), Vec::new());
        for (path, block) in blocks(path, content)? {
            match kind(&block) {
                "text" => content_text.push_str(&text_of(&path, &block, "text")?),
                // The signature is not needed: ids of calls lead to what the provider signed.
                "thinking" => thinking.push_str(&text_of(&path, &block, "thinking")?),
                "redacted_thinking" => {}
                "tool_use" => tool_calls.push(self.call(&path, &block)?),
                _ => return Err(refused(&path, &block, "text, thinking, redacted_thinking or tool_use")),
            }
        }
        self.messages.push(Message::Assistant { content: content_text, thinking, tool_calls, echo: None });
        Ok(())
    }

    fn call(&mut self, path: &str, block: &Value) -> Result<ToolCall, ApiError> {
        check_fields(path, block, &["id", "name", "input"])?;
        let id_ref = tools::call_id(member::text(path, block, "id")?);
        let name = member::text(path, block, "name")?.to_owned();
        let arguments = json!(member::object(path, block, "input")?).to_string();
        self.called.insert(id_ref.clone(), name.clone());
        Ok(ToolCall { id_ref, name, arguments })
    }
}

/// The blocks of a content with their paths; a text is one block.
fn blocks(path: &str, content: Value) -> Result<Vec<(String, Value)>, ApiError> {
    match content {
        Value::String(text) => Ok(vec![(path.to_owned(), json!({"type": "text", "text": text}))]),
        Value::Array(list) => {
            Ok((0..).zip(list).map(|(at, block): (usize, _)| (format!("{path}[{at}]"), block)).collect())
        }
        other => Err(ApiError::value(path, format!("'{path}' {}", must_be("a string or a list", &other)))),
    }
}

/// A content that may hold texts alone.
fn texts(path: &str, content: Value) -> Result<String, ApiError> {
    let mut all = Vec::new();
    for (path, block) in blocks(path, content)? {
        if kind(&block) != "text" {
            return Err(refused(&path, &block, "text"));
        }
        all.push(text_of(&path, &block, "text")?);
    }
    Ok(all.join("\n\n"))
}

/// The text of a block of a result.
fn result_text(path: &str, block: &Value) -> Result<String, ApiError> {
    match kind(block) {
        "text" => text_of(path, block, "text"),
        "document" => Ok(document(path, block)?.block()),
        "search_result" => Ok(search_result(path, block)?.block()),
        _ => Err(refused(path, block, "text, image, document or search_result")),
    }
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The text in this field, of a block that has no other field that matters.
fn text_of(path: &str, block: &Value, field: &str) -> Result<String, ApiError> {
    match kind(block) {
        "text" => check_fields(path, block, &["text"])?,
        "thinking" => check_fields(path, block, &["thinking", "signature"])?,
        _ => {}
    }
    Ok(member::text(path, block, field)?.to_owned())
}

/// A document of plain text, as an attached file.
fn document(path: &str, block: &Value) -> Result<Attachment, ApiError> {
    check_fields(path, block, &["source", "title", "context"])?;
    let source = block.get("source").unwrap_or(&Value::Null);
    if kind(source) != "text" {
        let path = format!("{path}.source.type");
        let text =
            format!("'{path}': documents of type {} are not supported; send text", quoted(kind(source)));
        return Err(unsupported(&path, text));
    }
    let optional = |field: &str| {
        let found = member::optional_text(path, block, field)?;
        Ok::<_, ApiError>(found.filter(|text| !text.is_empty()))
    };
    let text = member::text(&format!("{path}.source"), source, "data")?;
    let content = match optional("context")? {
        Some(context) => format!("({context})\n\n{text}"),
        None => text.to_owned(),
    };
    let name = optional("title")?.unwrap_or("document").to_owned();
    Ok(Attachment { name, extension: String::new(), content })
}

/// A result of a search, as an attached file that begins with its source.
fn search_result(path: &str, block: &Value) -> Result<Attachment, ApiError> {
    check_fields(path, block, &["source", "title", "content"])?;
    let (source, title) = (member::text(path, block, "source")?, member::text(path, block, "title")?);
    let content = block.get("content").cloned().unwrap_or_default();
    let text = texts(&format!("{path}.content"), content)?;
    let name = if title.is_empty() { "search result" } else { title }.to_owned();
    Ok(Attachment { name, extension: String::new(), content: format!("(source: {source})\n\n{text}") })
}

fn image_of(path: &str, block: &Value, (app, user): (&AppDependencies, UserId)) -> Result<Image, ApiError> {
    check_fields(path, block, &["source"])?;
    let (path, source) = (format!("{path}.source"), block.get("source").unwrap_or(&Value::Null));
    match kind(source) {
        "base64" => {
            let media_type = member::text(&path, source, "media_type")?;
            let data = member::text(&path, source, "data")?;
            image::of_base64(&format!("{path}.data"), Some(media_type), data, &app.limits)
        }
        "url" => image::of_url(&format!("{path}.url"), member::text(&path, source, "url")?, &app.limits),
        "file" => {
            image::of_file(&format!("{path}.file_id"), member::text(&path, source, "file_id")?, app, user)
        }
        other => {
            let path = format!("{path}.type");
            let text = format!("'{path}' must be base64, url or file, not {}", quoted(other));
            Err(unsupported(&path, text))
        }
    }
}

/// Fails at a field that would change the answer and is not read.
fn check_fields(path: &str, block: &Value, read: &[&str]) -> Result<(), ApiError> {
    let fields = block.as_object().into_iter().flatten();
    for (name, value) in fields {
        if !value.is_null() && !read.contains(&name.as_str()) && !IDLE.contains(&name.as_str()) {
            let path = format!("{path}.{}", name.chars().take(64).collect::<String>());
            return Err(unsupported(&path, format!("'{path}' is not supported")));
        }
    }
    Ok(())
}

/// The error for a block of a type that is not read here.
fn refused(path: &str, block: &Value, known: &str) -> ApiError {
    let path = format!("{path}.type");
    match kind(block) {
        "" => ApiError::value(&path, format!("'{path}' must be {known}")),
        kind @ ("image" | "search_result" | "container_upload" | "document" | "server_tool_use"
        | "mcp_tool_use") => {
            let text = format!("'{path}': blocks of type {kind} are not supported here; send {known}");
            unsupported(&path, text)
        }
        kind => unsupported(&path, format!("'{path}' must be {known}, not {}", quoted(kind))),
    }
}
