//! Talks to a server for the client commands. Owns the requests and the reading of errors; refuses to render anything.

use super::error::CliError;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;

/// Where the server listens when nobody says otherwise.
pub(super) const DEFAULT_SERVER: &str = "http://127.0.0.1:8787";

/// Longest JSON answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A file's size and its content.
pub(super) type Download = (Option<u64>, Box<dyn Read>);

/// A server, as the commands see it.
pub(super) struct Client {
    base: String,
    agent: ureq::Agent,
}

/// Why there is no stream.
pub(super) enum StreamError {
    /// Nobody answered; the server may come back.
    Unreachable(String),
    /// The server said no.
    Refused(CliError),
}

impl Client {
    /// A client of the server at `base`, such as [`DEFAULT_SERVER`].
    pub(super) fn new(base: &str) -> Result<Self, CliError> {
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(CliError::usage(format!("'{base}' is not a server URL"))
                .hint("give one like http://127.0.0.1:8787"));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { base: base.trim_end_matches('/').to_owned(), agent: config.new_agent() })
    }

    /// Reads a JSON resource.
    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        let response = self.agent.get(self.url(path)).call().map_err(|e| self.unreachable(&e))?;
        self.read_json(response)
    }

    /// Posts a JSON object, or nothing.
    pub(super) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        let request = self.agent.post(self.url(path));
        let sent = match body {
            Some(body) => request.content_type("application/json").send(body.to_string()),
            None => request.send_empty(),
        };
        self.read_json(sent.map_err(|e| self.unreachable(&e))?)
    }

    /// Opens a job's events after a cursor, in delta form. `None` when there is nothing more (204).
    pub(super) fn events(&self, job: &str, after: u64) -> Result<Option<Box<dyn Read>>, StreamError> {
        let url = self.url(&format!("/v1/jobs/{job}/events?format=delta"));
        let request = self
            .agent
            .get(url)
            .header("accept", "text/event-stream")
            .header("last-event-id", after.to_string());
        let response = request.call().map_err(|e| StreamError::Unreachable(describe(&e)))?;
        match response.status().as_u16() {
            200 => Ok(Some(Box::new(response.into_body().into_reader()))),
            204 => Ok(None),
            503 => Err(StreamError::Unreachable("the server is busy".to_owned())),
            _ => Err(StreamError::Refused(self.read_json(response).err().unwrap_or_else(|| {
                CliError::failed("the server answered with something that is no event stream")
            }))),
        }
    }

    /// Where the server is said to be.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Opens a file of the server and tells its size, if the server does; `None` when nobody answers at all.
    pub(super) fn download(&self, path: &str) -> Result<Option<Download>, CliError> {
        let Ok(response) = self.agent.get(self.url(path)).call() else { return Ok(None) };
        if response.status().as_u16() != 200 {
            let refused = self.read_json(response).err();
            return Err(refused.unwrap_or_else(|| CliError::failed("the server answered with no file")));
        }
        let body = response.into_body();
        let bytes = body.content_length();
        Ok(Some((bytes, Box::new(body.into_reader()))))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn unreachable(&self, error: &ureq::Error) -> CliError {
        CliError::failed(format!("cannot reach the server at {}: {}", self.base, describe(error)))
            .hint("start one with 'nanoclaw serve', or name another with --server")
    }

    fn read_json(&self, response: ureq::http::Response<ureq::Body>) -> Result<Value, CliError> {
        let status = response.status();
        let text = response
            .into_body()
            .into_with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_string()
            .map_err(|e| CliError::failed(format!("the answer of {} broke off: {e}", self.base)))?;
        let value: Value = serde_json::from_str(&text).map_err(|_| {
            CliError::failed(format!(
                "{} answered {status} without JSON; is it a NanoClaw server?",
                self.base
            ))
        })?;
        if status.is_success() {
            return Ok(value);
        }
        let message = value.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason given");
        Err(CliError::failed(format!("the server refused ({status}): {message}")))
    }
}

fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(io) => io.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}
