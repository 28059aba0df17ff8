//! Talks to a server for the client commands. Owns the requests and the reading of errors; refuses to render anything.

use super::bearer::Bearer;
use super::error::CliError;
use super::unix::UnixConnector;
use super::wire::Hearing;
use crate::domain::secret::Secret;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, DefaultConnector};

/// Where the server listens when nobody says otherwise.
pub(super) const DEFAULT_SERVER: &str = "http://127.0.0.1:8787";

/// Stands for the host in requests over a unix socket.
const LOCAL: &str = "http://127.0.0.1";

/// Longest JSON answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may think about a request whose answer is waited for again, beyond what it was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take to say that it is there.
const KNOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to say whether it is ready: its own probes have 5 seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(7);

/// Answers that another try may change.
const PASSING: &[u16] = &[408, 429, 502, 503, 504];

/// How long a stream may be silent; one of events has a heartbeat every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A file's size and its content.
pub(super) type Download = (Option<u64>, Box<dyn Read>);

/// A server, as the commands see it.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// As its user named it.
    base: String,
    /// What the path of a request stands behind.
    origin: String,
    agent: ureq::Agent,
}

/// Why there is no stream.
pub(super) enum StreamError {
    /// Nobody answered; the server may come back.
    Unreachable(String),
    /// It, or a proxy before it, has no time or no server for now.
    Busy(String),
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
        let base = base.trim_end_matches('/');
        let socket = base.strip_prefix("unix:").filter(|path| !path.is_empty());
        if socket.is_none() && !is_origin(base) {
            return Err(CliError::usage(format!("'{base}' is not a server URL"))
                .hint("give one like http://127.0.0.1:8787, or unix:/run/nanoclaw.sock"));
        }
        let bearer = key.map(Bearer::new).transpose()?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .middleware(bearer.unwrap_or_default())
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // Of an answer's beginning; a body may take its time. What is held back is asked for with a longer one.
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = DefaultResolver::default();
        let (origin, agent) = match socket {
            Some(path) => {
                let connector = UnixConnector(path.into()).chain(Hearing);
                (LOCAL, ureq::Agent::with_parts(config, connector, resolver))
            }
            None => (base, ureq::Agent::with_parts(config, DefaultConnector::new().chain(Hearing), resolver)),
        };
        Ok(Self { base: base.to_owned(), origin: origin.to_owned(), agent })
    }

    /// Whether anybody answers there within a few seconds, whatever the answer.
    pub(super) fn knock(&self) -> Result<(), CliError> {
        if self.answers()? { Ok(()) } else { Err(self.unreachable("no answer in time")) }
    }

    /// The same, where one who opens and says nothing is told apart from nobody, which is the error.
    pub(super) fn answers(&self) -> Result<bool, CliError> {
        let request = self.agent.get(self.url("/healthz")).config();
        let request = request.timeout_recv_response(Some(KNOCK_TIMEOUT)).build();
        match request.call() {
            Ok(_) => Ok(true),
            Err(ureq::Error::Timeout(ureq::Timeout::RecvResponse)) => Ok(false),
            // Somebody opened, and went: a server that is just being restarted does.
            Err(ureq::Error::Io(error)) if has_broken_off(&error) => Ok(true),
            Err(error) => Err(self.away(&error)),
        }
    }

    /// Reads what a server says of its own readiness, which it says with 200 or with 503; within a few seconds.
    pub(super) fn readiness(&self) -> Result<Value, String> {
        let request = self.agent.get(self.url("/readyz")).config();
        let request = request.timeout_global(Some(READY_TIMEOUT)).build();
        let response = request.call().map_err(|e| describe(&e))?;
        let status = response.status();
        let body = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES);
        let text = body.read_to_string().map_err(|e| describe(&e))?;
        serde_json::from_str(&text).map_err(|_| format!("it answers {status} without JSON"))
    }

    /// Reads a JSON resource that the server may hold back for so long.
    pub(super) fn look(&self, path: &str, held: Duration) -> Result<Value, Trouble> {
        let timeout = held.saturating_add(ANSWER_TIMEOUT);
        let request =
            self.agent.get(self.url(path)).config().timeout_recv_response(Some(timeout)).build().call();
        judge(request, PASSING)
    }

    /// Posts a JSON object under an idempotency key, so that the same call may be made again.
    pub(super) fn submit(&self, path: &str, key: &str, body: &Value) -> Result<Value, Trouble> {
        let request = self.agent.post(self.url(path)).header("idempotency-key", key);
        let request = request.content_type("application/json").config();
        let request = request.timeout_recv_response(Some(ANSWER_TIMEOUT)).build();
        // A quota that is used up is an answer, not an absence.
        judge(request.send(body.to_string()), &[408, 502, 503, 504])
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
        judge(request.send(ureq::SendBody::from_reader(body)), PASSING)
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
            answer => {
                Err(judge(answer, PASSING).err().unwrap_or_else(|| Trouble::Away("no results".to_owned())))
            }
        }
    }

    /// Reads a JSON resource.
    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        let response = self.agent.get(self.url(path)).call().map_err(|e| self.away(&e))?;
        self.read_json(response)
    }

    /// Posts a JSON object, or nothing.
    pub(super) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        let request = self.agent.post(self.url(path));
        let sent = match body {
            Some(body) => request.content_type("application/json").send(body.to_string()),
            None => request.send_empty(),
        };
        self.read_json(sent.map_err(|e| self.away(&e))?)
    }

    /// Changes a resource by a JSON object.
    pub(super) fn patch(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        let request = self.agent.patch(self.url(path)).content_type("application/json");
        self.read_json(request.send(body.to_string()).map_err(|e| self.away(&e))?)
    }

    /// Deletes a resource.
    pub(super) fn delete(&self, path: &str) -> Result<Value, CliError> {
        self.read_json(self.agent.delete(self.url(path)).call().map_err(|e| self.away(&e))?)
    }

    /// Opens a job's events after a cursor, in delta form. `None` when there is nothing more (204).
    pub(super) fn events(&self, job: &str, after: u64) -> Result<Option<Box<dyn Read>>, StreamError> {
        let url = self.url(&format!("/v1/jobs/{job}/events?format=delta"));
        let request = self
            .agent
            .get(url)
            .header("accept", "text/event-stream")
            .header("last-event-id", after.to_string())
            .config()
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .build();
        let response = request.call().map_err(|e| StreamError::Unreachable(describe(&e)))?;
        match response.status().as_u16() {
            200 => Ok(Some(Box::new(response.into_body().into_reader()))),
            204 => Ok(None),
            503 => Err(StreamError::Busy("the server is busy".to_owned())),
            code if PASSING.contains(&code) => {
                Err(StreamError::Busy(format!("it answers {}", response.status())))
            }
            _ => Err(StreamError::Refused(
                self.read_json(response).err().unwrap_or_else(|| foreign("no event stream")),
            )),
        }
    }

    /// Where the server is said to be.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Opens a file of the server and tells its size, if the server does; `None` when nobody answers at all.
    pub(super) fn download(&self, path: &str) -> Result<Option<Download>, CliError> {
        // A large file may take long to be put together.
        let request = self.agent.get(self.url(path)).config().timeout_recv_response(None).build();
        let Ok(response) = request.call() else { return Ok(None) };
        if response.status().as_u16() != 200 {
            let refused = self.read_json(response).err();
            return Err(refused.unwrap_or_else(|| foreign("no file")));
        }
        let body = response.into_body();
        let bytes = body.content_length();
        Ok(Some((bytes, Box::new(body.into_reader()))))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    fn away(&self, error: &ureq::Error) -> CliError {
        self.unreachable(&describe(error))
    }

    /// Nobody is there, and how there could be somebody.
    pub(super) fn unreachable(&self, reason: &str) -> CliError {
        CliError::failed(format!("cannot reach the server at {}: {reason}", self.base))
            .hint("start one with 'nanoclaw serve', or name another with --server")
    }

    fn read_json(&self, response: ureq::http::Response<ureq::Body>) -> Result<Value, CliError> {
        let status = response.status();
        let text = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_to_string().map_err(
            |e| {
                CliError::failed(format!("the answer of {} broke off: {e}", self.base))
                    .hint("try again; if it happens again, the server's log says why")
            },
        )?;
        let value: Value = serde_json::from_str(&text).map_err(|_| {
            CliError::failed(format!(
                "{} answered {status} without JSON; is it a NanoClaw server?",
                self.base
            ))
            .hint("name the server itself with --server, as in http://127.0.0.1:8787")
        })?;
        if status.is_success() {
            return Ok(value);
        }
        let message = reason(&value).unwrap_or("no reason given");
        Err(refusal(status.as_u16(), format!("the server refused ({status}): {message}")))
    }
}

/// Whether paths can be put behind it.
fn is_origin(base: &str) -> bool {
    let Ok(uri) = base.parse::<ureq::http::Uri>() else { return false };
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_place = uri.authority().is_some_and(|place| {
        let host = place.host();
        // The parser lets a port pass that is none.
        !host.is_empty() && (place.port_u16().is_some() || place.as_str().ends_with(host))
    });
    is_http && is_place && uri.query().is_none()
}

/// What a refused command tells: what happened, and what may be done about it.
pub(super) fn refusal(status: u16, message: String) -> CliError {
    let hint = match status {
        401 => "set $NANOCLAW_TOKEN (nanoclaw token new)",
        403 => "this token may not do that; another may: nanoclaw token new --scopes read,write,admin",
        404 if message.contains("such project") => "GET /api/projects lists those that there are",
        404 if message.contains("such job") => "the jobs that there are: nanoclaw jobs",
        400 if message.contains("is not configured") => {
            "name one of them, or add it under models: (nanoclaw config show)"
        }
        413 => "send less, or raise the limit that is named under limits: (nanoclaw config show --default)",
        429 => "wait a moment, or raise the limit (nanoclaw config show --default)",
        507 => "make room on the server's disk, or shorten retention (nanoclaw config show --default)",
        500..=599 => "the server's log says more; what works there: nanoclaw doctor",
        _ => return CliError::failed(message),
    };
    CliError::failed(message).hint(hint)
}

/// Somebody answered, but with something else.
fn foreign(what: &str) -> CliError {
    CliError::failed(format!("the server answered with something that is {what}"))
        .hint("is it a NanoClaw server of this version? name another with --server")
}

/// Why, in the server's words; `/v1` and `/api` say it in different places.
fn reason(answer: &Value) -> Option<&str> {
    answer.pointer("/error/message").or_else(|| answer.get("message")).and_then(Value::as_str)
}

/// The JSON of an answer, or what to do about there being none.
fn judge(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    passing: &[u16],
) -> Result<Value, Trouble> {
    let response = answer.map_err(|e| Trouble::Away(describe(&e)))?;
    let status = response.status();
    let body = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES);
    let text = body.read_to_string().map_err(|e| Trouble::Away(describe(&e)))?;
    let value = serde_json::from_str::<Value>(&text).ok();
    let message = value.as_ref().and_then(reason);
    match (status.as_u16(), value.as_ref()) {
        (200..=299, Some(_)) => Ok(value.unwrap_or_default()),
        (code, _) if passing.contains(&code) => {
            Err(Trouble::Away(message.map_or_else(|| format!("it answers {status}"), str::to_owned)))
        }
        (status, _) => {
            let foreign = "it answered without JSON; is it a NanoClaw server?";
            Err(Trouble::Refused { status, message: message.unwrap_or(foreign).to_owned() })
        }
    }
}

/// Whether there was a connection that ended early.
fn has_broken_off(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(io) => io.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_so_that_paths_can_follow() {
        for good in [
            "http://127.0.0.1:8787",
            "https://x.test",
            "http://[::1]:80",
            "http://[::1]",
            "http://x/behind/a/proxy",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "nonsense",
            "http://",
            "http://:80",
            "http://x:99999",
            "http://x:",
            "http://x:port",
            "http://x/?a=b",
            "ftp://x",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
