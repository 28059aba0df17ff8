//! `input`, `system_prompt` and `attachments` of a job.

use crate::domain::attachment::Attachment;
use crate::domain::image::{Image, ImageType};
use crate::domain::limits::Limits;
use crate::domain::message::Message;
use crate::http::error::ApiError;
use crate::http::request::image;
use crate::http::request::values::PlainText;
use serde::Deserialize;

/// A prompt or a list of messages.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[derive(Debug, Deserialize)]
pub(crate) enum InputRequest {
    #[serde(rename = "a string")]
    Prompt(String),
    #[serde(rename = "a list")]
    Messages(Vec<InputMessage>),
}

/// A message. Its `content` may be absent if it has files.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputMessage {
    pub(crate) role: InputRole,
    pub(crate) content: Option<String>,
    pub(crate) attachments: Option<Vec<AttachmentRequest>>,
}

/// Roles that an input may have. The engine writes all others.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InputRole {
    System,
    User,
    Assistant,
}

/// A text file, or an image in base64 or as a data URL.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachmentRequest {
    name: PlainText<1, 255>,
    extension: Option<PlainText<0, 32>>,
    content: String,
}

pub(crate) fn messages(input: Option<InputRequest>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    let most = limits.input_messages;
    match input {
        None => Err(ApiError::value("input", "'input' is missing: a string, or a list of {role, content}")),
        Some(InputRequest::Prompt(text)) if text.trim().is_empty() => {
            Err(ApiError::value("input", "the input is empty"))
        }
        Some(InputRequest::Prompt(text)) => Ok(vec![Message::user(text)]),
        Some(InputRequest::Messages(list)) if list.is_empty() => {
            Err(ApiError::value("input", "'input' is an empty list"))
        }
        Some(InputRequest::Messages(list)) if list.len() > most => Err(ApiError::value(
            "input",
            format!("'input' has more than limits.input_messages = {most} messages"),
        )),
        Some(InputRequest::Messages(list)) => {
            list.into_iter().enumerate().map(|(index, given)| message(index, given, limits)).collect()
        }
    }
}

/// Checks the texts of a job against `limits.input_bytes`.
pub(crate) fn check_size(
    input: &[Message],
    system_prompt: Option<&str>,
    limits: &Limits,
) -> Result<(), ApiError> {
    let input_bytes: usize = input.iter().map(Message::bytes).sum();
    if input_bytes + system_prompt.map_or(0, str::len) > limits.input_bytes {
        return Err(ApiError::InputTooLarge(limits.input_bytes));
    }
    check_image_count("input", input, limits)
}

/// Checks the number of images against `limits.input_images`. `path` names the messages in the error.
pub(crate) fn check_image_count(path: &str, input: &[Message], limits: &Limits) -> Result<(), ApiError> {
    let most = limits.input_images;
    if input.iter().map(|message| message.images().len()).sum::<usize>() > most {
        let text = format!("the request has more than limits.input_images = {most} images");
        return Err(ApiError::value(path, text));
    }
    Ok(())
}

fn message(index: usize, given: InputMessage, limits: &Limits) -> Result<Message, ApiError> {
    let InputMessage { role, content, attachments: files } = given;
    let path = format!("input[{index}].attachments");
    if files.is_some() && role != InputRole::User {
        return Err(ApiError::value(&path, format!("'{path}' belongs to messages of role user alone")));
    }
    if files.is_none() && content.is_none() {
        let path = format!("input[{index}]");
        return Err(ApiError::value(&format!("{path}.content"), format!("{path}: 'content' is missing")));
    }
    let content = content.unwrap_or_default();
    Ok(match role {
        InputRole::System => Message::System { content },
        InputRole::User => {
            let (attachments, images) = attachments(&path, files, limits)?;
            Message::User { content, attachments, images }
        }
        InputRole::Assistant => Message::assistant(content),
    })
}

/// The text files and the images of a message.
pub(crate) fn attachments(
    path: &str,
    files: Option<Vec<AttachmentRequest>>,
    limits: &Limits,
) -> Result<(Vec<Attachment>, Vec<Image>), ApiError> {
    let (files, most) = (files.unwrap_or_default(), limits.input_attachments);
    if files.len() > most {
        let text = format!("'{path}' has more than limits.input_attachments = {most} files");
        return Err(ApiError::value(path, text));
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for (index, AttachmentRequest { name, extension, content }) in files.into_iter().enumerate() {
        let (name, extension) = (name.0, extension.map(|extension| extension.0).unwrap_or_default());
        if !is_image(&extension, &content) {
            texts.push(Attachment { name, extension, content });
            continue;
        }
        let path = format!("{path}[{index}].content");
        let read = if is_image_url(&content) {
            image::of_url(&path, &content, limits)
        } else {
            image::of_base64(&path, None, &content, limits)
        };
        images.push(Image { name: Some(name), ..read? });
    }
    Ok((texts, images))
}

/// Whether a file is an image: by its extension, or as a data URL without one.
pub(crate) fn is_image(extension: &str, content: &str) -> bool {
    ImageType::of_extension(extension).is_some() || extension.is_empty() && is_image_url(content)
}

fn is_image_url(content: &str) -> bool {
    content.starts_with("data:image/")
}
