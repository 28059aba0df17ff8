//! Messages as the front end reads them: their parts as fields, and the same as JSON text in `content`, as
//! the first system stored it.

use crate::domain::attachment::Attachment;
use crate::domain::id::{AskId, ConversationId, JobId, MessageId};
use crate::domain::image::Image;
use crate::domain::job::{Job, JobError, JobStatus};
use crate::domain::message::Message;
use crate::domain::steps::{self, CallRecord, Step};
use crate::http::api::envelope::date;
use crate::http::v1::jobs::images;
use crate::ports::ChatMessage;
use serde::Serialize;

/// A message.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatMessage"))]
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum MessageResponse {
    Ask(QuestionResponse),
    Answer(AnswerResponse),
}

/// A question.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatQuestion"))]
#[derive(Serialize)]
pub(crate) struct QuestionResponse {
    id: AskId,
    conversation_id: ConversationId,
    role: &'static str,
    #[serde(flatten)]
    said: QuestionText,
    content: String,
    token_count: u64,
    created_at: String,
}

/// Text and files of the user.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatQuestionText"))]
#[derive(Serialize)]
struct QuestionText {
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<AttachmentResponse>,
}

/// A file of a question.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatAttachment"))]
#[derive(Serialize)]
#[serde(untagged)]
enum AttachmentResponse {
    Text(Attachment),
    Image(ImageResponse),
}

/// An image of a question.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatImage"))]
#[derive(Serialize)]
struct ImageResponse {
    /// File name.
    name: String,
    /// Kind of image, such as `png`.
    extension: String,
    /// Always empty: `url` has the content.
    content: &'static str,
    media_type: &'static str,
    /// Length of its content.
    bytes: u64,
    /// Path of the content, for its owner alone.
    url: String,
}

/// An answer, possibly unfinished.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChatAnswer"))]
#[derive(Serialize)]
pub(crate) struct AnswerResponse {
    id: MessageId,
    conversation_id: ConversationId,
    role: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallRecord>,
    process_steps: Vec<Step>,
    content: String,
    token_count: u64,
    created_at: String,
    job_id: JobId,
    /// `running` until it has ended.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JobError>,
    model: String,
}

/// The `content` of an answer, as the first system stored it.
#[derive(Serialize)]
struct AnswerContent<'a> {
    text: &'a str,
    tool_calls: &'a [CallRecord],
    steps: &'a [Step],
}

impl MessageResponse {
    /// The message of this conversation.
    pub(crate) fn of(conversation: &ConversationId, message: ChatMessage) -> Self {
        match message {
            ChatMessage::Ask { id, job, created_at_ms, messages } => {
                let said = asked(job, messages);
                Self::Ask(QuestionResponse {
                    id,
                    conversation_id: conversation.clone(),
                    role: "user",
                    content: text_of(&said),
                    said,
                    token_count: 0,
                    created_at: date(created_at_ms),
                })
            }
            ChatMessage::Answer { job, steps, token_count, answer } => {
                // Retention may have cut the log.
                let steps = if steps.is_empty() { steps::of_messages(&answer) } else { steps };
                let tokens = token_count.unwrap_or(job.usage.completion_tokens);
                Self::Answer(AnswerResponse::of(conversation.clone(), *job, steps, tokens))
            }
        }
    }
}

impl AnswerResponse {
    fn of(conversation_id: ConversationId, job: Job, process_steps: Vec<Step>, token_count: u64) -> Self {
        let (text, tool_calls) = (steps::answer(&process_steps), steps::calls(&process_steps));
        let content = text_of(&AnswerContent { text: &text, tool_calls: &tool_calls, steps: &process_steps });
        let since_ms = job.finished_at_ms.or(job.started_at_ms).unwrap_or(job.created_at_ms);
        Self {
            id: job.id.message_id(),
            conversation_id,
            role: "assistant",
            text,
            tool_calls,
            process_steps,
            content,
            token_count,
            created_at: date(since_ms),
            job_id: job.id,
            status: status(job.status),
            error: job.error,
            model: job.model,
        }
    }
}

/// All user messages of a job; a job of `/v1` may have several.
fn asked(job: JobId, messages: Vec<Message>) -> QuestionText {
    let (mut texts, mut files, mut number) = (Vec::new(), Vec::new(), 0_usize..);
    for message in messages {
        if let Message::User { content, attachments, images } = message {
            texts.push(content);
            files.extend(attachments.into_iter().map(AttachmentResponse::Text));
            files.extend(
                images.into_iter().zip(number.by_ref()).map(|(image, number)| shown(job, number, image)),
            );
        }
    }
    QuestionText { text: texts.join("\n\n"), attachments: files }
}

/// An image without its bytes: one of so many of the job.
fn shown(job: JobId, number: usize, image: Image) -> AttachmentResponse {
    let Image { media_type, bytes, name, .. } = image;
    AttachmentResponse::Image(ImageResponse {
        name: name.unwrap_or_else(|| media_type.file_name()),
        extension: media_type.extension().to_owned(),
        content: "",
        media_type: media_type.as_str(),
        bytes,
        url: images::path(job, number),
    })
}

fn status(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Queued | JobStatus::Running => JobStatus::Running.as_str(),
        told => told.as_str(),
    }
}

fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a message cannot be written as JSON");
        "{}".to_owned()
    })
}
