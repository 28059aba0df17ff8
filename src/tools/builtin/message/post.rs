//! The requests that bring a message to each kind of channel. Long texts are split; mentions that notify
//! people are disabled.

use super::options::ChannelOptions;
use crate::domain::id::JobId;
use crate::ports::{UrlTrust, WebMethod, WebRequest};
use serde_json::{Value, json};

/// The largest response that is read.
const RESPONSE_BYTES: usize = 64 * 1024;
/// The longest message of Discord.
const DISCORD_CHARS: usize = 2_000;
/// The longest message of Telegram.
const TELEGRAM_CHARS: usize = 4_096;

/// The requests that bring the message, in order; none for mail.
pub(super) fn posts(channel: &ChannelOptions, name: &str, content: &str, job: JobId) -> Vec<WebRequest> {
    match channel {
        ChannelOptions::Webhook { url, headers } => {
            let body = json!({"content": content, "channel": name, "job_id": job.to_string()});
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
            vec![WebRequest { headers: headers.collect(), ..post(url.reveal(), &body) }]
        }
        ChannelOptions::Telegram { bot_token, chat_id, api_url } => {
            let url = format!("{}/bot{}/sendMessage", api_url.trim_end_matches('/'), bot_token.reveal());
            let parts = split(content, TELEGRAM_CHARS).into_iter();
            parts.map(|text| post(&url, &json!({"chat_id": chat_id, "text": text}))).collect()
        }
        // Slack notifies people named in angle brackets.
        ChannelOptions::Slack { webhook_url } => {
            let text = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            vec![post(webhook_url.reveal(), &json!({"text": text}))]
        }
        ChannelOptions::Discord { webhook_url } => {
            let body = |text: &str| json!({"content": text, "allowed_mentions": {"parse": []}});
            let parts = split(content, DISCORD_CHARS).into_iter();
            parts.map(|text| post(webhook_url.reveal(), &body(text))).collect()
        }
        ChannelOptions::Ntfy { url, token } => {
            let token =
                token.iter().map(|token| ("authorization".to_owned(), format!("Bearer {}", token.reveal())));
            let content_type = "text/plain; charset=utf-8".to_owned();
            let method = WebMethod::Post(content_type, content.as_bytes().to_vec());
            vec![WebRequest { method, headers: token.collect(), ..post(url.reveal(), &Value::Null) }]
        }
        ChannelOptions::Email(_) => Vec::new(),
    }
}

fn post(url: &str, body: &Value) -> WebRequest {
    WebRequest {
        method: WebMethod::Post("application/json".to_owned(), body.to_string().into_bytes()),
        url: url.to_owned(),
        headers: Vec::new(),
        trust: UrlTrust::Operator,
        max_bytes: RESPONSE_BYTES,
    }
}

/// Splits into pieces of at most `max_units` UTF-16 units. A piece ends at a line end if its second half has
/// one.
fn split(text: &str, max_units: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let mut units = 0_usize;
        let end = rest.char_indices().find(|(_, c)| {
            units = units.saturating_add(c.len_utf16());
            units > max_units
        });
        let Some((end, _)) = end else { break };
        let (head, _) = rest.split_at(end);
        let at = head.rfind('\n').map(|at| at.saturating_add(1)).filter(|at| *at > end / 2).unwrap_or(end);
        let (part, remaining) = rest.split_at(at);
        parts.push(part);
        rest = remaining;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_text_keeps_every_character() {
        let lines = "a line of text 😀\n".repeat(500);
        let parts = split(&lines, 2_000);
        assert_eq!(parts.concat(), lines);
        assert!(parts.len() > 4 && parts.iter().all(|part| part.encode_utf16().count() <= 2_000));
        assert!(parts.iter().all(|part| part.ends_with('\n') || part.is_empty()), "at the ends of lines");
        let solid = "x".repeat(4_001);
        assert_eq!(split(&solid, 2_000).iter().map(|part| part.len()).collect::<Vec<_>>(), [2_000, 2_000, 1]);
        assert_eq!(split("", 5), [""]);
    }
}
