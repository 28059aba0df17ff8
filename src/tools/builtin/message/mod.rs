//! `message`: sends a text to a channel that the operator has configured, and to no other recipient. Errors
//! contain neither addresses nor tokens.

mod email;
mod options;
mod post;

pub use options::{BadChannel, ChannelOptions, MessageChannels};

use super::builtin_tool::{ACTS, BuiltinTool, spec};
use crate::domain::nearest::hint;
use crate::domain::tool::ToolReach;
use crate::ports::{Tool, ToolContext, ToolError, ToolScope, Unavailability, Web, WebError};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const NO_CHANNEL: &str =
    "No channel is configured: tell the user that the operator has to add one under channels:";

#[derive(Deserialize)]
struct MessageArguments {
    channel: String,
    content: String,
}

struct SendMessage {
    web: Arc<dyn Web>,
    channels: MessageChannels,
    max_chars: usize,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let (channels, max_chars) = (deps.options.channels.clone(), deps.options.limits.message_chars);
    let names: Vec<&String> = channels.0.keys().collect();
    let has_no_channel = names.is_empty();
    let description = "Send a message to people outside this conversation. Each call sends again: do not repeat one that may \
                       have been sent.";
    let channel =
        if has_no_channel { json!({"type": "string"}) } else { json!({"type": "string", "enum": names}) };
    let content =
        json!({"type": "string", "minLength": 1, "maxLength": max_chars, "description": "Plain text"});
    let properties = json!({"channel": channel, "content": content});
    let spec = spec("message", description, properties, &["channel", "content"]);
    let tool = SendMessage { web: Arc::clone(&deps.web), channels, max_chars };
    let tool = BuiltinTool::new(spec, ACTS, move |arguments, context| tool.send(&arguments, context));
    let unavailability =
        move |_: &ToolScope<'_>| has_no_channel.then(|| Unavailability::Always(NO_CHANNEL.to_owned()));
    Box::new(BuiltinTool { reach: ToolReach::Speaks, unavailability: Box::new(unavailability), ..tool })
}

impl SendMessage {
    fn send(&self, arguments: &MessageArguments, context: &ToolContext) -> Result<Value, ToolError> {
        let (name, text) = (arguments.channel.as_str(), arguments.content.as_str());
        let channel = self.channels.0.get(name).ok_or_else(|| self.no_channel(name))?;
        if text.trim().is_empty() {
            return Err(ToolError::Invalid("'content' is empty: there is nothing to send".to_owned()));
        }
        if text.chars().count() > self.max_chars {
            let max_chars = self.max_chars;
            let message = format!("'content' has more than {max_chars} characters (limits.message_chars)");
            return Err(ToolError::Invalid(message));
        }
        if let ChannelOptions::Email(options) = channel {
            let sent = email::send(options, text, &reference(context), &context.cancel);
            sent.map_err(|error| ToolError::failed(format!("Channel '{name}': {error}")))?;
        } else {
            self.post((name, channel), text, context)?;
        }
        Ok(json!({"sent": true, "channel": name, "type": channel.kind()}))
    }

    fn no_channel(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self.channels.0.keys().map(String::as_str).collect();
        if names.is_empty() {
            return ToolError::failed(NO_CHANNEL);
        }
        let quoted: String = name.chars().take(64).collect();
        let suggestion = hint(name, names.iter().copied());
        ToolError::Invalid(format!(
            "There is no channel '{quoted}'{suggestion}. There are: {}",
            names.join(", ")
        ))
    }

    fn post(
        &self,
        (name, channel): (&str, &ChannelOptions),
        text: &str,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        let posts = post::posts(channel, name, text, context.job);
        for (sent, request) in posts.iter().enumerate() {
            let reason = match self.web.send(request, &context.cancel) {
                Ok(response) if (200..300).contains(&response.status) => continue,
                Ok(response) => format!("the channel answered with status {}", response.status),
                Err(error) => public_reason(&error).to_owned(),
            };
            let progress = match sent {
                0 => String::new(),
                _ => format!("; the first {sent} of {} parts were sent", posts.len()),
            };
            return Err(ToolError::failed(format!("Channel '{name}': {reason}{progress}")));
        }
        Ok(())
    }
}

/// The reason without addresses and tokens, which the error itself may contain.
fn public_reason(error: &WebError) -> &'static str {
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

/// The id of a mail: the job and its call.
fn reference(context: &ToolContext) -> String {
    let call: String = context.id_ref.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    format!("{}.{call}", context.job)
}

#[cfg(test)]
mod tests;
