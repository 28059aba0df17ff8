//! Sends requests to the collector over HTTP. The operator names it, so any address is allowed; redirects are
//! not followed, because they would carry the headers to another host.

use super::options::OtlpOptions;
use crate::domain::secret::{Redactor, Secret};
use crate::net::{client_config, retry_after_s};
use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;
use ureq::Agent;

/// Bytes of an answer that are read.
const RESPONSE_BYTES: u64 = 64 * 1_024;
/// Maximum response head, bytes.
const HEADER_BYTES: usize = 16 * 1_024;
/// Characters of a text of the collector in the log.
const QUOTE_CHARS: usize = 200;

/// The relevant part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CollectorResponse {
    pub(super) status: u16,
    pub(super) retry_after_s: Option<u64>,
    pub(super) body: String,
}

/// Posts to one collector.
#[derive(Debug)]
pub struct CollectorClient {
    agent: Agent,
    url: String,
    headers: BTreeMap<String, Secret>,
    redactor: Redactor,
}

impl CollectorClient {
    /// The client of the configured collector; `None`: there is none.
    pub fn new(options: &OtlpOptions) -> Option<Self> {
        let timeout = Some(Duration::from_secs(options.timeout_s));
        let config = client_config()
            .accept_encoding("identity")
            .timeout_global(timeout)
            .max_response_header_size(HEADER_BYTES)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .build();
        Some(Self {
            agent: Agent::new_with_config(config),
            url: options.traces_url()?,
            headers: options.headers.clone(),
            redactor: Redactor::new(options.headers.values()),
        })
    }

    /// Posts a request. An error is a text for the log.
    pub(super) fn post(&self, body: &str, now_ms: u64) -> Result<CollectorResponse, String> {
        let mut call = self.agent.post(&self.url).content_type("application/json");
        for (name, value) in &self.headers {
            call = call.header(name, value.reveal());
        }
        let response = call.send(body).map_err(|error| self.quoted(&error.to_string()))?;
        let retry_after = response.headers().get("retry-after").and_then(|line| line.to_str().ok());
        let (status, retry_after_s) =
            (response.status().as_u16(), retry_after.and_then(|text| retry_after_s(text, now_ms)));
        let mut text = Vec::new();
        // The status is the answer; a body that breaks off changes nothing.
        drop(response.into_body().into_reader().take(RESPONSE_BYTES).read_to_end(&mut text));
        let body = String::from_utf8_lossy(&text).into_owned();
        Ok(CollectorResponse { status, retry_after_s, body })
    }

    /// The beginning of a text of others, on one line and without our secrets.
    pub(super) fn quoted(&self, text: &str) -> String {
        let text = self.redactor.redact(text);
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTE_CHARS).collect()
    }
}
