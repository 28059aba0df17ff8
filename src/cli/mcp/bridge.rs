//! Carries messages between stdin, stdout and the MCP server of a running server. A line of stdin is a
//! message; so is a line of stdout.

use crate::cli::client::{ApiClient, McpReply, McpSendError};
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests at the same time; each holds a thread.
const RUNNING: usize = 64;
/// Time for running requests to end after the end of stdin.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Time for another server to start: the one before may end its jobs first.
const SERVER_TIME: Duration = Duration::from_secs(60);
/// The longest message if no configuration says it, bytes.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// The longest reply that is not a stream, bytes.
const REPLY_BYTES: u64 = 256 * 1024 * 1024;
/// The code of errors of this program, in the range that JSON-RPC leaves to servers.
const BRIDGE_ERROR: i32 = -32_000;
/// The codes of JSON-RPC for what is no JSON, and for JSON that is no message.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
/// The status of a message of a session that the server does not have.
const NOT_FOUND: u16 = 404;
const UNAUTHORIZED: u16 = 401;

/// What a bridge tells the thread that keeps a server for it.
#[derive(Debug)]
pub(super) enum BridgeNews {
    /// The server is gone. The bridge waits for [`Bridge::connect`].
    Lost,
    /// The input has ended.
    Ended(io::Result<()>),
}

/// The connection of one client.
#[derive(Clone)]
pub(super) struct Bridge(Arc<BridgeState>);

struct BridgeState {
    server: Mutex<BridgeServer>,
    connected: Condvar,
    /// Gets the news; `None`: nobody finds another server.
    news: Option<Sender<BridgeNews>>,
    terminal: Terminal,
    most_bytes: usize,
    session: Mutex<BridgeSession>,
    running: Mutex<usize>,
    ended: Condvar,
}

struct BridgeServer {
    client: ApiClient,
    /// How many servers there were before.
    number: u64,
}

#[derive(Default)]
struct BridgeSession {
    id: Option<String>,
    /// The message that began it; sent again if the server has started anew.
    initialize: Option<String>,
}

/// A line of stdin.
enum InputLine {
    Message(String),
    /// Longer than allowed, or no UTF-8.
    Refused(i32, &'static str),
    End,
}

impl Bridge {
    pub(super) fn new(
        client: ApiClient,
        terminal: Terminal,
        most_bytes: Option<usize>,
        news: Option<Sender<BridgeNews>>,
    ) -> Self {
        Self(Arc::new(BridgeState {
            server: Mutex::new(BridgeServer { client, number: 0 }),
            connected: Condvar::new(),
            news,
            terminal,
            most_bytes: most_bytes.unwrap_or(MESSAGE_BYTES),
            session: Mutex::default(),
            running: Mutex::new(0),
            ended: Condvar::new(),
        }))
    }

    /// Sends the messages to another server from now on.
    pub(super) fn connect(&self, client: ApiClient) {
        let mut server = lock(&self.0.server);
        let number = server.number.saturating_add(1);
        *server = BridgeServer { client, number };
        self.0.connected.notify_all();
    }

    /// Carries messages until the input ends, and a little longer for the replies to them.
    pub(super) fn run(&self, mut input: impl BufRead) -> io::Result<()> {
        let state = &self.0;
        loop {
            match read_line(&mut input, state.most_bytes)? {
                InputLine::End => break,
                InputLine::Refused(code, reason) => state.refuse(code, reason),
                InputLine::Message(line) if line.trim().is_empty() => {}
                InputLine::Message(line) => self.take(line),
            }
        }
        let running = lock(&state.running);
        let waited = state.ended.wait_timeout_while(running, DRAIN_TIME, |running| *running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        if let Some(id) = lock(&state.session).id.take() {
            state.server().0.end_mcp_session(&id);
        }
        Ok(())
    }

    /// Sends a message. Notifications and the first request keep their order; other requests run at the same
    /// time.
    fn take(&self, line: String) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let id = message.get("id").cloned().unwrap_or_default();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if method == "initialize" {
            lock(&self.0.session).initialize = Some(line.clone());
        }
        if method == "initialize" || id.is_null() {
            return self.0.exchange(&line, &id);
        }
        let mut running = lock(&self.0.running);
        if *running >= RUNNING {
            drop(running);
            return self.0.fail(&id, &format!("{RUNNING} requests run already; wait for the reply to one"));
        }
        *running = running.saturating_add(1);
        drop(running);
        let state = Arc::clone(&self.0);
        let refused_id = id.clone();
        let work = move || {
            state.exchange(&line, &id);
            state.leave();
        };
        if let Err(error) = std::thread::Builder::new().name("mcp-request".to_owned()).spawn(work) {
            self.0.leave();
            self.0.fail(&refused_id, &format!("no thread can be started: {error}"));
        }
    }
}

impl BridgeState {
    fn leave(&self) {
        let mut running = lock(&self.running);
        *running = running.saturating_sub(1);
        self.ended.notify_all();
    }

    fn server(&self) -> (ApiClient, u64) {
        let server = lock(&self.server);
        (server.client.clone(), server.number)
    }

    /// The server after the one with this number, if one comes in time.
    fn server_after(&self, number: u64) -> Option<ApiClient> {
        self.news.as_ref()?.send(BridgeNews::Lost).ok()?;
        let waited = self
            .connected
            .wait_timeout_while(lock(&self.server), SERVER_TIME, |server| server.number == number);
        let (server, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| server.client.clone())
    }

    /// Sends a message and writes the reply. A server that has forgotten the session gets another one. If the
    /// server is gone, or another one has its address and refuses its key, the next one gets the message.
    fn exchange(&self, line: &str, id: &Value) {
        let (mut client, number) = self.server();
        let mut sent = self.send(&client, line);
        let is_lost = match &sent {
            Ok(reply) => reply.status == UNAUTHORIZED && self.news.is_some(),
            Err(error) => error.is_unsent,
        };
        if is_lost && let Some(next) = self.server_after(number) {
            client = next;
            sent = self.send(&client, line);
        }
        match sent {
            Ok(reply) => self.relay(reply, id),
            Err(McpSendError { reason, .. }) => {
                self.fail(id, &format!("cannot reach the server at {}: {reason}", client.base()));
            }
        }
    }

    fn send(&self, client: &ApiClient, line: &str) -> Result<McpReply, McpSendError> {
        let session = lock(&self.session).id.clone();
        let sent = client.mcp_message(line, session.as_deref())?;
        if session.is_none() || sent.status != NOT_FOUND {
            return Ok(sent);
        }
        let session = self.begin_again(client, session.as_deref());
        client.mcp_message(line, session.as_deref())
    }

    /// A new session in the place of `lost`; another thread may have begun one.
    fn begin_again(&self, client: &ApiClient, lost: Option<&str>) -> Option<String> {
        let mut session = lock(&self.session);
        if session.id.as_deref() == lost
            && let Some(initialize) = &session.initialize
        {
            session.id = client.mcp_message(initialize, None).ok().and_then(|reply| reply.session);
        }
        session.id.clone()
    }

    fn relay(&self, reply: McpReply, id: &Value) {
        if let Some(session) = reply.session {
            lock(&self.session).id = Some(session);
        }
        let relayed = match (reply.status, reply.is_stream) {
            (200, true) => self.relay_stream(reply.body),
            (200, false) => read_text(reply.body).and_then(|text| self.write(&text)),
            (202 | 204, _) => Ok(()),
            (status, _) => read_text(reply.body).and_then(|text| self.relay_refusal(status, &text, id)),
        };
        if let Err(error) = relayed {
            self.fail(id, &format!("the reply of the server broke off: {error}"));
        }
    }

    fn relay_stream(&self, body: Box<dyn Read>) -> io::Result<()> {
        for line in BufReader::new(body).lines() {
            if let Some(message) = line?.strip_prefix("data: ") {
                self.write(message)?;
            }
        }
        Ok(())
    }

    /// A refusal is a message of JSON-RPC, or an error of the HTTP API, which becomes one.
    fn relay_refusal(&self, status: u16, text: &str, id: &Value) -> io::Result<()> {
        let refusal: Value = serde_json::from_str(text).unwrap_or_default();
        if refusal.get("jsonrpc").is_some() {
            return self.write(text);
        }
        let reason = refusal.pointer("/error/message").and_then(Value::as_str);
        self.fail(id, &format!("the server refused ({status}): {}", reason.unwrap_or("no reason given")));
        Ok(())
    }

    fn write(&self, message: &str) -> io::Result<()> {
        self.terminal.line(message.trim_end())
    }

    /// Replies with an error of this program. A notification gets none.
    fn fail(&self, id: &Value, reason: &str) {
        tracing::warn!(%id, reason, "an MCP message was not delivered");
        if !id.is_null() {
            self.reply_error(id, BRIDGE_ERROR, reason);
        }
    }

    /// Replies to what is no message, as JSON-RPC wants it.
    fn refuse(&self, code: i32, reason: &str) {
        tracing::warn!(reason, "a line is no MCP message");
        self.reply_error(&Value::Null, code, reason);
    }

    fn reply_error(&self, id: &Value, code: i32, reason: &str) {
        let error = json!({"code": code, "message": reason});
        if let Err(error) = self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()) {
            tracing::warn!(%error, "the client does not read any more");
        }
    }
}

fn read_text(body: Box<dyn Read>) -> io::Result<String> {
    let mut text = String::new();
    body.take(REPLY_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a line of at most `most` bytes. The rest of a longer one is skipped.
fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<InputLine> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut line = Vec::new();
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(InputLine::End);
    }
    if line.len() > most && line.last() != Some(&b'\n') {
        skip_line(input)?;
        return Ok(InputLine::Refused(INVALID_REQUEST, "the message is longer than limits.body_bytes"));
    }
    let refused = InputLine::Refused(PARSE_ERROR, "the message is no UTF-8");
    Ok(String::from_utf8(line).map_or(refused, InputLine::Message))
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, is_end) = (end.map_or(buffer.len(), |end| end.saturating_add(1)), buffer.is_empty());
        input.consume(used);
        if end.is_some() || is_end {
            return Ok(());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<String> {
        let (mut input, mut seen) = (BufReader::with_capacity(3, text), Vec::new());
        loop {
            seen.push(match read_line(&mut input, 6).expect("reads") {
                InputLine::Message(line) => line,
                InputLine::Refused(code, reason) => format!("{code}: {reason}"),
                InputLine::End => return seen,
            });
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_is_read() {
        let refused = "-32600: the message is longer than limits.body_bytes";
        assert_eq!(lines(b"abcdef\n{}\n"), ["abcdef\n", "{}\n"]);
        assert_eq!(lines(b"abcdefgh\n{}\nlast"), [refused, "{}\n", "last"]);
        assert_eq!(lines(b"\xff\n"), ["-32700: the message is no UTF-8"]);
        assert_eq!(lines(b"abcdefghijklmn"), [refused]);
    }
}
