//! `nanoclaw demo`: starts a server on a free port, runs a job with a tool call and a sandboxed program,
//! kills the server in mid-stream and resumes. Removes the server and its directory at the end.

use super::client::ApiClient;
use super::error::CliError;
use super::jobs::follow::{ClientEvent, EventFollower, Update};
use super::jobs::render::JobRenderer;
use super::terminal::Terminal;
use crate::ports::Clock;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A job for the scripted model: one plain tool and one program, called together.
const TOOL_JOB: &str = "tool: calculator {\"expression\": \"17*23\"}\n\
tool: execute_python {\"code\": \"import math\\nprint('the sandbox says', math.factorial(20))\"}";

/// The demonstration writes little and removes it, so it also runs on a nearly full disk.
const CONFIGURATION: &str = "limits: {disk_free_bytes: 0, disk_free_percent: 0}\n";

/// A job that streams for two seconds.
const STREAM_JOB: &str = "stream: 40 words, 50 ms";

/// Events of that stream that are shown before the server is killed.
const EVENTS_BEFORE_KILL: u64 = 12;

/// Runs the demonstration; fails if the server does not keep its promises.
pub(super) fn demo(clock: &Arc<dyn Clock>, terminal: &Terminal) -> Result<(), CliError> {
    let dir = TempDir::create(&**clock)?;
    terminal.info("1. A server starts on a free port, with a store of its own.");
    let mut server = DemoServer::start(&dir.0)?;
    terminal.info(&format!("   {} (data in {})\n", server.url, dir.0.display()));

    terminal.info("2. A job is accepted (202), stored, and run: the scripted demo model calls a tool and a sandboxed program.");
    let demo = Demo { clock, terminal };
    let client = ApiClient::new(&server.url, None)?;
    let id = demo.submit(&client, TOOL_JOB)?;
    let events = demo.watch(&client, &id, 0, u64::MAX)?;
    Demo::check_answer(&client, &id, &events)?;

    terminal.info("\n3. A job streams; the server is killed with kill -9 in mid-stream.");
    let id = demo.submit(&client, STREAM_JOB)?;
    let mut events = demo.watch(&client, &id, 0, EVENTS_BEFORE_KILL)?;
    server.kill();
    let last_seq = events.last().map_or(0, |event| event.seq);
    terminal.info(&format!("\n   killed after event {last_seq}."));

    terminal.info(
        "\n4. It starts again with the same store; the stream resumes after the last event that was shown.",
    );
    let server = DemoServer::start(&dir.0)?;
    let client = ApiClient::new(&server.url, None)?;
    events.extend(demo.watch(&client, &id, last_seq, u64::MAX)?);
    Demo::check_answer(&client, &id, &events)?;
    terminal.info(&format!(
        "\nDone: {} events, numbered 1 to {} without a gap, across a crash. Nothing was lost or repeated.",
        events.len(),
        events.len()
    ));
    Ok(())
}

/// What all steps of the demonstration share.
struct Demo<'a> {
    clock: &'a Arc<dyn Clock>,
    terminal: &'a Terminal,
}

impl Demo<'_> {
    fn submit(&self, client: &ApiClient, prompt: &str) -> Result<String, CliError> {
        let job = client.post("/v1/jobs", Some(&json!({"input": prompt})))?;
        let Some(id) = job.get("id").and_then(Value::as_str) else {
            return Err(CliError::failed("the server named no job id").hint("see: nanoclaw doctor"));
        };
        self.terminal.info(&format!("   {id}"));
        Ok(id.to_owned())
    }

    /// Shows up to `count` events after a cursor and returns them.
    fn watch(
        &self,
        client: &ApiClient,
        id: &str,
        after: u64,
        count: u64,
    ) -> Result<Vec<ClientEvent>, CliError> {
        let (mut render, mut events) = (JobRenderer::new(self.terminal, id, false), Vec::new());
        let clock = self.clock;
        EventFollower { client, clock, job: id, after, is_known: after > 0 }.run(&mut |update| {
            render.update(update)?;
            let Update::Event(event) = update else { return Ok(ControlFlow::Continue(())) };
            events.push((*event).clone());
            Ok(if events.len() as u64 >= count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        render.finish()?;
        Ok(events)
    }

    /// Fails on a gap in the events, a failed tool call or a job that did not succeed.
    fn check_answer(client: &ApiClient, id: &str, events: &[ClientEvent]) -> Result<(), CliError> {
        let is_gapless = events.iter().zip(1..).all(|(event, seq)| event.seq == seq);
        let failed = |call: &ClientEvent| {
            let content = call.data.get("content").and_then(Value::as_str).unwrap_or_default();
            call.data.get("type").is_some_and(|t| t == "tool_result")
                && !content.starts_with("{\"success\":true")
        };
        let job = client.get(&format!("/v1/jobs/{id}"))?;
        let has_succeeded = job.get("status").is_some_and(|status| status == "succeeded");
        if is_gapless && has_succeeded && !events.iter().any(failed) {
            return Ok(());
        }
        Err(CliError::failed(format!("the demonstration failed: {job}"))
            .hint("run 'nanoclaw doctor' to see what this machine lacks"))
    }
}

/// A server that is killed when this is dropped.
struct DemoServer {
    url: String,
    child: Child,
}

impl DemoServer {
    #[expect(clippy::disallowed_methods, reason = "the demonstration starts this very binary, nothing else")]
    fn start(dir: &Path) -> Result<Self, CliError> {
        let cannot = |what: std::io::Error| CliError::failed(format!("cannot start a server: {what}"));
        let binary = std::env::current_exe().map_err(cannot)?;
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--config")
            .arg(dir.join("config.yml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.join("log")).map_err(cannot)?)
            .spawn()
            .map_err(cannot)?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url).map_err(cannot)?;
        }
        let server = Self { url: url.trim().to_owned(), child };
        if server.url.starts_with("http://") {
            return Ok(server);
        }
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        Err(CliError::failed(format!("the server did not start: {}", log.trim()))
            .hint("run 'nanoclaw doctor' to see what this machine lacks"))
    }

    /// Kills the server and waits for its end.
    fn kill(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "cannot end the demonstration's server");
        }
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A temporary directory that is removed when this is dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn create(clock: &dyn Clock) -> Result<Self, CliError> {
        let name = format!("nanoclaw-demo-{}-{}", std::process::id(), clock.now_ms());
        let path = std::env::temp_dir().join(name);
        let created =
            std::fs::create_dir(&path).and_then(|()| std::fs::write(path.join("config.yml"), CONFIGURATION));
        created.map_err(|e| {
            CliError::failed(format!("cannot make '{}': {e}", path.display()))
                .hint("name another place for it: TMPDIR=/var/tmp nanoclaw demo")
        })?;
        Ok(Self(path))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove the demonstration's directory");
        }
    }
}
