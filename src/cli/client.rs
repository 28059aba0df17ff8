//! Talks to a server for the client commands. Owns the requests and the reading of errors; refuses to render anything.

use super::bearer::Bearer;
use super::error::CliError;
use super::wire::Hearing;
use crate::domain::secret::Secret;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, DefaultConnector};

/// Where the server listens when nobody says otherwise.
pub(super) const DEFAULT_SERVER: &str = "http://127.0.0.1:8787";

/// Longest JSON answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may think about a request whose answer is waited for again, beyond what it was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a stream of results may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A file's size and its content.
pub(super) type Download = (Option<u64>, Box<dyn Read>);

/// A server, as the commands see it.
#[derive(Debug, Clone)]
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

/// Why a request has no result, told apart by what to do about it.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody answered, or nobody had the time: the same request may fare better later.
    Away(String),
    /// The server said no, in these words.
    Refused {
        /// HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
}

impl Client {
    /// A client of the server at `base`, such as [`DEFAULT_SERVER`], that shows this key.
    pub(super) fn new(base: &str, key: Option<&Secret>) -> Result<Self, CliError> {
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(CliError::usage(format!("'{base}' is not a server URL"))
                .hint("give one like http://127.0.0.1:8787"));
        }
        let bearer = key.map(Bearer::new).transpose()?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .middleware(bearer.unwrap_or_default())
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector = DefaultConnector::new().chain(Hearing);
        let agent = ureq::Agent::with_parts(config, connector, DefaultResolver::default());
        Ok(Self { base: base.trim_end_matches('/').to_owned(), agent })
    }

    /// Whether anybody answers there, whatever the answer.
    pub(super) fn knock(&self) -> Result<(), CliError> {
        self.agent.get(self.url("/healthz")).call().map(drop).map_err(|e| self.unreachable(&e))
    }

    /// Reads a JSON resource that the server may hold back for so long.
    pub(super) fn look(&self, path: &str, held: Duration) -> Result<Value, Trouble> {
        let timeout = held.saturating_add(ANSWER_TIMEOUT);
        let request =
            self.agent.get(self.url(path)).config().timeout_recv_response(Some(timeout)).build().call();
        judge(request)
    }

    /// Sends `bytes` bytes of a body under an idempotency key, without holding them.
    pub(super) fn upload(
        &self,
        path: &str,
        key: &str,
        body: &mut dyn Read,
        bytes: u64,
    ) -> Result<Value, Trouble> {
        let request = self
            .agent
            .post(self.url(path))
            .header("idempotency-key", key)
            .header("content-length", bytes.to_string())
            .content_type("application/jsonl")
            .config()
            .timeout_per_write(Some(SILENCE_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .build();
        judge(request.send(ureq::SendBody::from_reader(body)))
    }

    /// Opens a resource of JSON lines.
    pub(super) fn lines(&self, path: &str) -> Result<Box<dyn Read>, Trouble> {
        let request = self.agent.get(self.url(path)).config();
        let request = request
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .build();
        match request.call() {
            Ok(response) if response.status().is_success() => {
                Ok(Box::new(response.into_body().into_reader()))
            }
            answer => Err(judge(answer).err().unwrap_or_else(|| Trouble::Away("no results".to_owned()))),
        }
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

    /// Changes a resource by a JSON object.
    pub(super) fn patch(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        let request = self.agent.patch(self.url(path)).content_type("application/json");
        self.read_json(request.send(body.to_string()).map_err(|e| self.unreachable(&e))?)
    }

    /// Deletes a resource.
    pub(super) fn delete(&self, path: &str) -> Result<Value, CliError> {
        self.read_json(self.agent.delete(self.url(path)).call().map_err(|e| self.unreachable(&e))?)
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
        let message = reason(&value).unwrap_or("no reason given");
        Err(refusal(status.as_u16(), format!("the server refused ({status}): {message}")))
    }
}

/// What a refused command tells: whoever was not let in hears how to come in.
pub(super) fn refusal(status: u16, message: String) -> CliError {
    let failed = CliError::failed(message);
    if status == 401 { failed.hint("set $NANOCLAW_TOKEN (nanoclaw token new)") } else { failed }
}

/// Why, in the server's words; `/v1` and `/api` say it in different places.
fn reason(answer: &Value) -> Option<&str> {
    answer.pointer("/error/message").or_else(|| answer.get("message")).and_then(Value::as_str)
}

/// The JSON of an answer, or what to do about there being none.
fn judge(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, Trouble> {
    let response = answer.map_err(|e| Trouble::Away(describe(&e)))?;
    let status = response.status();
    let body = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES);
    let text = body.read_to_string().map_err(|e| Trouble::Away(describe(&e)))?;
    let value = serde_json::from_str::<Value>(&text).ok();
    let message = value.as_ref().and_then(reason);
    match (status.as_u16(), value.as_ref()) {
        (200..=299, Some(_)) => Ok(value.unwrap_or_default()),
        (408 | 429 | 502..=504, _) => {
            Err(Trouble::Away(message.map_or_else(|| format!("it answers {status}"), str::to_owned)))
        }
        (status, _) => {
            let foreign = "it answered without JSON; is it a NanoClaw server?";
            Err(Trouble::Refused { status, message: message.unwrap_or(foreign).to_owned() })
        }
    }
}

fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(io) => io.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}
