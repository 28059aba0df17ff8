//! `message`: sends a text to a channel that the operator has configured, and to nobody else. Errors name no
//! addresses and no tokens.

mod email;
mod options;
mod post;

pub use options::{BadChannel, ChannelOptions, MessageChannels};

use crate::tools::registry::ToolDeps;
use crate::domain::nearest::hint;
use crate::domain::tool::{FileAccess, ToolReach, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, Web, WebError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct SendMessage {
    web: Arc<dyn Web>,
    channels: MessageChannels,
    /// Of a text.
    chars: usize,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(SendMessage {
        web: Arc::clone(&deps.web),
        channels: deps.options.channels.clone(),
        chars: deps.options.limits.message_chars,
    })
}

impl Tool for SendMessage {
    fn spec(&self) -> ToolSpec {
        let names: Vec<&String> = self.channels.0.keys().collect();
        let (description, channel) = if names.is_empty() {
            let none = "Send a message to people outside this conversation. NO CHANNEL IS CONFIGURED: it cannot be used.";
            (none, json!({"type": "string", "description": "A configured channel; there is none"}))
        } else {
            let some = "Send a message to people outside this conversation, through a channel that the operator has configured. \
                        Each call sends once more: do not repeat one that may have been sent.";
            (some, json!({"type": "string", "enum": names, "description": "Which channel"}))
        };
        ToolSpec {
            name: "message".into(),
            description: description.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "channel": channel,
                    "content": {"type": "string", "minLength": 1, "maxLength": self.chars, "description": "The text, plain"},
                },
                "required": ["channel", "content"],
                "additionalProperties": false,
            }),
        }
    }

    /// Sending twice is two messages.
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: false, cacheable: false, files: FileAccess::None }
    }

    fn reach(&self) -> ToolReach {
        ToolReach::Speaks
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, words) = (text("channel"), text("content"));
        let channel = self.channels.0.get(name).ok_or_else(|| self.no_channel(name))?;
        if words.trim().is_empty() {
            return Err(ToolError::Invalid("'content' is empty: there is nothing to send".to_owned()));
        }
        if words.chars().count() > self.chars {
            let message = format!("'content' has more than {} characters (limits.message_chars)", self.chars);
            return Err(ToolError::Invalid(message));
        }
        if let ChannelOptions::Email(options) = channel {
            let sent = email::send(options, words, &reference(context), &context.cancel);
            sent.map_err(|error| ToolError::failed(format!("Channel '{name}': {error}")))?;
        } else {
            self.post((name, channel), words, context)?;
        }
        Ok(json!({"sent": true, "channel": name, "type": channel.kind()}))
    }
}

impl SendMessage {
    fn no_channel(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self.channels.0.keys().map(String::as_str).collect();
        if names.is_empty() {
            let message =
                "No channel is configured: tell the user that the operator has to add one under channels:";
            return ToolError::failed(message.to_owned());
        }
        let shown: String = name.chars().take(64).collect();
        let meant = hint(name, names.iter().copied());
        ToolError::Invalid(format!("There is no channel '{shown}'{meant}. There are: {}", names.join(", ")))
    }

    fn post(
        &self,
        (name, channel): (&str, &ChannelOptions),
        words: &str,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        let posts = post::posts(channel, name, words, context.job);
        for (sent, request) in posts.iter().enumerate() {
            let reason = match self.web.send(request, &context.cancel) {
                Ok(answer) if (200..300).contains(&answer.status) => continue,
                Ok(answer) => format!("the channel answered with status {}", answer.status),
                Err(error) => told(&error).to_owned(),
            };
            let before = match sent {
                0 => String::new(),
                _ => format!("; the first {sent} of {} parts were sent", posts.len()),
            };
            return Err(ToolError::failed(format!("Channel '{name}': {reason}{before}")));
        }
        Ok(())
    }
}

/// What of an error names neither address nor token, whoever wrote it.
fn told(error: &WebError) -> &'static str {
    match error {
        WebError::BadUrl(_) | WebError::Forbidden(_) | WebError::Redirects(_) => {
            "the configured address cannot be used; the operator has to look at it"
        }
        WebError::TooLarge { .. } => "it was sent, and the answer was too long to be read",
        WebError::Timeout { .. } => "no answer in time: nobody knows whether it was sent",
        WebError::Unreachable(_) => "it could not be reached",
        WebError::Stopped => "it was stopped: nobody knows whether it was sent",
    }
}

/// Names a letter: the job and its call.
fn reference(context: &ToolContext) -> String {
    let call: String = context.id_ref.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    format!("{}.{call}", context.job)
}


#[cfg(test)]
mod tests;
