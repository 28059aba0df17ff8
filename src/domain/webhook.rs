//! Webhooks: the URL (`WebhookUrl`), a delivery (`Delivery`) and its states.

use super::id::{BatchId, DeliveryId, JobId, UserId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An `http` or `https` URL with a host and without credentials; at most 2,048 bytes of visible ASCII.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookUrl(String);

impl WebhookUrl {
    /// Maximum length, bytes.
    pub const MAX_BYTES: usize = 2_048;

    /// The URL with the secrets of its query, for the wire only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The receiver: host and port in lower case. Deliveries of a user to one receiver wait for each other.
    pub fn host_and_port(&self) -> String {
        self.authority().to_ascii_lowercase()
    }

    /// The host's address when it is a literal.
    pub fn literal_address(&self) -> Option<IpAddr> {
        let (host, _port) = split_port(self.authority())?;
        host.trim_matches(['[', ']']).parse().ok()
    }

    /// The URL without its query, which often holds a token.
    pub fn masked(&self) -> String {
        match self.0.split_once(['?', '#']) {
            Some((shown, _hidden)) => format!("{shown}?***"),
            None => self.0.clone(),
        }
    }

    fn authority(&self) -> &str {
        authority(&self.0).unwrap_or_default()
    }
}

/// The authority: everything between `scheme://` and the path.
fn authority(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_http.then(|| rest.split(['/', '?', '#']).next().unwrap_or_default())
}

/// The host (an IPv6 address in brackets) and the digits of the port.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = authority.rfind(']').map_or(0, |bracket| bracket.saturating_add(1));
    let (_, tail) = authority.split_at_checked(end)?;
    match tail.find(':') {
        None => Some((authority, None)),
        Some(colon) => {
            let (host, port) = authority.split_at_checked(end.saturating_add(colon))?;
            Some((host, port.strip_prefix(':')))
        }
    }
}

/// The host of a receiver, without its port.
pub fn host_of_receiver(receiver: &str) -> &str {
    split_port(receiver).map_or(receiver, |(host, _)| host)
}

fn is_host(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !host.is_empty() && host.bytes().all(is_host_byte)
}

impl TryFrom<String> for WebhookUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.len() > Self::MAX_BYTES {
            return Err("must have at most 2048 bytes");
        }
        let visible = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`');
        if !text.bytes().all(visible) {
            return Err("must be visible ASCII; write everything else as %XX");
        }
        let authority = authority(&text).ok_or("must start with https:// or http://")?;
        if authority.contains('@') {
            return Err("must not carry user and password; a signature proves who calls");
        }
        let (host, port) = split_port(authority).ok_or("must name a host")?;
        if !is_host(host) {
            return Err("must name a host");
        }
        let is_port =
            |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|n| n > 0);
        if port.is_some_and(|port| !is_port(port)) {
            return Err("must have a port from 1 to 65535, or none");
        }
        Ok(Self(text))
    }
}

impl From<WebhookUrl> for String {
    fn from(url: WebhookUrl) -> Self {
        url.0
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

/// The subject of a webhook, and the result of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "id", rename_all = "lowercase")]
pub enum WebhookSubject {
    /// The end of a job.
    Job(JobId),
    /// The end of a batch.
    Batch(BatchId),
}

impl WebhookSubject {
    /// Bits of its id.
    pub fn bits(self) -> u128 {
        u128::from_be_bytes(match self {
            Self::Job(id) => id.to_bytes(),
            Self::Batch(id) => id.to_bytes(),
        })
    }
}

impl fmt::Display for WebhookSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => id.fmt(f),
            Self::Batch(id) => id.fmt(f),
        }
    }
}

/// State of a delivery.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Waits for its first or next attempt.
    Pending,
    /// The receiver accepted it.
    Delivered,
    /// Given up; `error` has the reason.
    Dead,
}

impl DeliveryState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// A webhook delivery. Its body is made when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Id; the same for every attempt.
    pub id: DeliveryId,
    /// Owner of the subject.
    pub user: UserId,
    /// The job or batch that it reports.
    pub subject: WebhookSubject,
    /// Receiver.
    pub url: WebhookUrl,
    /// State.
    pub state: DeliveryState,
    /// Creation time, unix milliseconds.
    pub created_at_ms: u64,
    /// Attempts so far.
    pub tries: u32,
    /// Next attempt while pending, unix milliseconds.
    pub next_try_ms: Option<u64>,
    /// When it was delivered or given up, unix milliseconds.
    pub settled_at_ms: Option<u64>,
    /// HTTP status of the last response, if any.
    pub last_status: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

impl Delivery {
    /// A new delivery, due at once.
    pub fn new(id: DeliveryId, user: UserId, subject: WebhookSubject, url: WebhookUrl, now_ms: u64) -> Self {
        Self {
            id,
            user,
            subject,
            url,
            state: DeliveryState::Pending,
            created_at_ms: now_ms,
            tries: 0,
            next_try_ms: Some(now_ms),
            settled_at_ms: None,
            last_status: None,
            last_error: None,
        }
    }

    /// Records an attempt that ended at `now_ms`.
    pub fn take(&mut self, attempt: &DeliveryAttempt, now_ms: u64) {
        self.tries = self.tries.saturating_add(1);
        self.last_status = attempt.status;
        self.last_error.clone_from(&attempt.error);
        (self.state, self.next_try_ms) = match attempt.next {
            AfterAttempt::Delivered => (DeliveryState::Delivered, None),
            AfterAttempt::Retry { at_ms } => (DeliveryState::Pending, Some(at_ms)),
            AfterAttempt::Dead => (DeliveryState::Dead, None),
        };
        self.settled_at_ms = self.next_try_ms.is_none().then_some(now_ms);
    }

    /// Makes it due now: a dead delivery starts again, a pending one no longer waits.
    pub fn again(&mut self, now_ms: u64) {
        if self.state == DeliveryState::Dead {
            self.tries = 0;
        }
        if self.state != DeliveryState::Delivered {
            (self.state, self.next_try_ms, self.settled_at_ms) = (DeliveryState::Pending, Some(now_ms), None);
        }
    }
}

/// Result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Why it failed, without secrets.
    pub error: Option<String>,
    /// The next state.
    pub next: AfterAttempt,
}

/// The next state after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAttempt {
    /// Nothing: it was delivered.
    Delivered,
    /// Another attempt.
    Retry {
        /// Earliest time, unix milliseconds.
        at_ms: u64,
    },
    /// Nothing: it was given up.
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> Result<WebhookUrl, &'static str> {
        WebhookUrl::try_from(text.to_owned())
    }

    #[test]
    fn http_and_https_urls_are_accepted() {
        for (text, host) in [
            ("https://example.com", "example.com"),
            ("http://Example.com:8080/hook?a=b#c", "example.com:8080"),
            ("HTTPS://a-b.c_d.test/x", "a-b.c_d.test"),
            ("http://[2001:db8::1]:81/x", "[2001:db8::1]:81"),
            ("http://127.0.0.1?x", "127.0.0.1"),
        ] {
            assert_eq!(url(text).expect(text).host_and_port(), host);
            assert!(matches!(
                host_of_receiver(host),
                "example.com" | "a-b.c_d.test" | "[2001:db8::1]" | "127.0.0.1"
            ));
        }
    }

    #[test]
    fn p8_invalid_webhook_urls_are_refused() {
        for bad in [
            "",
            "example.com/x",
            "ftp://example.com",
            "https://",
            "https:///x",
            "https://user:key@example.com",
            "https://@example.com",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:",
            "https://example.com:+1",
            "https://exa mple.com",
            "https://example.com/\u{7f}",
            "https://example.com/\r\nX: y",
            "https://bücher.example",
            "https://[::1",
            "https://[]/x",
            "https://[::1]x",
            "https://a%2eb",
            "https://a:1:2",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
        let long = format!("https://example.com/{}", "x".repeat(WebhookUrl::MAX_BYTES));
        assert!(url(&long).is_err());
    }

    #[test]
    fn ip_literals_in_urls_are_recognized() {
        let literal = |text: &str| url(text).expect(text).literal_address().map(|a| a.to_string());
        assert_eq!(literal("http://127.0.0.1:80/").as_deref(), Some("127.0.0.1"));
        assert_eq!(literal("http://[::1]/").as_deref(), Some("::1"));
        assert_eq!(literal("http://localhost/"), None);
    }

    #[test]
    fn p9_masked_and_debug_output_hide_the_url_query() {
        let url = url("https://example.com/hook?token=s3cret").expect("a URL");
        assert_eq!(url.masked(), "https://example.com/hook?***");
        assert!(!format!("{url:?}").contains("s3cret"));
    }

    #[test]
    fn a_webhook_subject_is_stored_with_its_kind() {
        let subject = WebhookSubject::Batch(BatchId::from_bits(7));
        let text = serde_json::to_string(&subject).expect("JSON");
        assert!(text.starts_with("{\"kind\":\"batch\",\"id\":\"batch_"), "{text}");
        assert_eq!(serde_json::from_str::<WebhookSubject>(&text).expect("a subject"), subject);
    }

    #[test]
    fn a_dead_delivery_can_be_retried_and_a_delivered_one_cannot() {
        let mut delivery = Delivery::new(
            DeliveryId::from_bits(1),
            UserId(1),
            WebhookSubject::Job(JobId::from_bits(1)),
            url("https://x.test").expect("a URL"),
            5,
        );
        delivery.take(
            &DeliveryAttempt { status: Some(410), error: Some("gone".into()), next: AfterAttempt::Dead },
            9,
        );
        assert_eq!(
            (delivery.state, delivery.tries, delivery.settled_at_ms),
            (DeliveryState::Dead, 1, Some(9))
        );
        delivery.again(20);
        assert_eq!(
            (delivery.state, delivery.tries, delivery.next_try_ms),
            (DeliveryState::Pending, 0, Some(20))
        );
        delivery.take(&DeliveryAttempt { status: Some(200), error: None, next: AfterAttempt::Delivered }, 21);
        let delivered = delivery.clone();
        delivery.again(30);
        assert_eq!(delivery, delivered);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_url_parser_panic_and_accepted_urls_have_a_host(text in any::<String>()) {
            for text in [text.clone(), format!("https://{text}"), format!("http://[{text}")] {
                if let Ok(url) = url(&text) {
                    prop_assert!(!url.host_and_port().is_empty());
                    url.masked();
                    url.literal_address();
                }
            }
        }
    }
}
