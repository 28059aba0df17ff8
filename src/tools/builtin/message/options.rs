//! `channels:` of the configuration: its keys and their checks.

use crate::domain::secret::Secret;
use lettre::message::Mailbox;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;

const NAME_BYTES: usize = 64;

/// Channels by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageChannels(pub(super) BTreeMap<String, ChannelOptions>);

/// One channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ChannelOptions {
    /// An HTTP server that gets `{"content","channel","job_id"}`.
    Webhook {
        /// The address.
        url: Secret,
        /// Headers of each request.
        #[serde(default)]
        headers: BTreeMap<String, Secret>,
    },
    /// A chat of a Telegram bot.
    Telegram {
        /// The token of the bot.
        bot_token: Secret,
        /// The chat.
        #[serde(deserialize_with = "text_or_number")]
        chat_id: String,
        /// The address of the bot API.
        #[serde(default = "telegram")]
        api_url: String,
    },
    /// An incoming webhook of Slack.
    Slack {
        /// The address; its path is a secret.
        webhook_url: Secret,
    },
    /// A webhook of a Discord channel.
    Discord {
        /// The address; its path is a secret.
        webhook_url: Secret,
    },
    /// A topic of an ntfy server.
    Ntfy {
        /// The address with the topic.
        url: Secret,
        /// The access token, if the topic needs one.
        #[serde(default)]
        token: Option<Secret>,
    },
    /// Mail to fixed recipients.
    Email(EmailOptions),
}

/// A mail server and the fixed recipients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmailOptions {
    /// The server.
    pub host: String,
    /// Its port; that of `tls` when absent.
    #[serde(default)]
    pub port: Option<u16>,
    /// The encryption.
    #[serde(default)]
    pub tls: MailTls,
    /// The account.
    #[serde(default)]
    pub username: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// The sender.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
}

/// The encryption of a connection to a mail server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// Plain text first, then TLS; without TLS nothing is sent. Port 587.
    #[default]
    Starttls,
    /// TLS from the first byte. Port 465.
    Implicit,
    /// No encryption. Port 25.
    None,
}

/// An invalid value of `channels:`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("channels.{key}: '{value}' {allowed}")]
pub struct BadChannel {
    /// The key below `channels`.
    pub key: String,
    /// The value, unless it is a secret.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl MailTls {
    /// The standard port.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Implicit => 465,
            Self::None => 25,
        }
    }
}

impl ChannelOptions {
    fn secrets(&self) -> Vec<&Secret> {
        match self {
            Self::Webhook { url, headers } => std::iter::once(url).chain(headers.values()).collect(),
            Self::Telegram { bot_token, .. } => vec![bot_token],
            Self::Slack { webhook_url } | Self::Discord { webhook_url } => vec![webhook_url],
            Self::Ntfy { url, token } => std::iter::once(url).chain(token).collect(),
            Self::Email(mail) => mail.password.iter().collect(),
        }
    }

    /// The value of `type` in the configuration.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Telegram { .. } => "telegram",
            Self::Slack { .. } => "slack",
            Self::Discord { .. } => "discord",
            Self::Ntfy { .. } => "ntfy",
            Self::Email(_) => "email",
        }
    }

    /// The invalid key, its value, and the allowed values.
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let redacted = || "***".to_owned();
        match self {
            Self::Webhook { url, .. } | Self::Ntfy { url, .. } => {
                (!is_address(url.reveal())).then(|| ("url", redacted(), ADDRESS))
            }
            Self::Slack { webhook_url } | Self::Discord { webhook_url } => {
                (!is_address(webhook_url.reveal())).then(|| ("webhook_url", redacted(), ADDRESS))
            }
            Self::Telegram { bot_token, chat_id, api_url } => {
                let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_');
                if bot_token.reveal().is_empty() || !bot_token.reveal().bytes().all(is_allowed) {
                    return Some((
                        "bot_token",
                        redacted(),
                        "must be the token that BotFather gave, as in 123:abc",
                    ));
                }
                if chat_id.is_empty() {
                    return Some(("chat_id", String::new(), "must be the id of a chat"));
                }
                (!is_address(api_url)).then(|| ("api_url", api_url.clone(), ADDRESS))
            }
            Self::Email(mail) => mail.fault(),
        }
    }
}

impl EmailOptions {
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        const MAILBOX: &str = "must be a mail address, as in me@example.org or Me <me@example.org>";
        let is_invalid = |text: &String| text.parse::<Mailbox>().is_err();
        if self.host.is_empty() || self.host.contains(['/', ' ', '@']) {
            return Some((
                "host",
                self.host.clone(),
                "must be the name of the mail server, without a scheme",
            ));
        }
        if self.username.is_some() != self.password.is_some() {
            return Some(("username", String::new(), "and 'password' go together: give both or neither"));
        }
        if is_invalid(&self.from) {
            return Some(("from", self.from.clone(), MAILBOX));
        }
        if self.to.is_empty() {
            return Some(("to", "[]".to_owned(), "needs a recipient"));
        }
        self.to.iter().find(|to| is_invalid(to)).map(|to| ("to", to.clone(), MAILBOX))
    }
}

const ADDRESS: &str = "must start with https:// or http://";

fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control()))
}

impl MessageChannels {
    /// The tokens, passwords and secret addresses, which logs and results must not contain.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.0.values().flat_map(ChannelOptions::secrets)
    }

    /// Every invalid value.
    pub fn faults(&self) -> Vec<BadChannel> {
        let mut faults = Vec::new();
        let mut add = |key: String, value: &dyn Display, allowed: &str| {
            faults.push(BadChannel { key, value: value.to_string(), allowed: allowed.to_owned() });
        };
        for (name, channel) in &self.0 {
            let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_allowed) {
                add(name.clone(), name, "must be a name of 1 to 64 characters of A-Z a-z 0-9 _ -");
            }
            if let Some((key, value, allowed)) = channel.fault() {
                add(format!("{name}.{key}"), &value, allowed);
            }
        }
        faults
    }
}

fn telegram() -> String {
    "https://api.telegram.org".to_owned()
}

/// YAML reads the id of a chat as a number.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(i64),
        Text(String),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text,
    })
}
