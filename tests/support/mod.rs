//! Support for black-box tests: the real binary on port 0, a client, and a scripted upstream. Processes end
//! with their test.

pub(crate) mod chat;
pub(crate) mod database;
pub(crate) mod directories;
pub(crate) mod disk;
pub(crate) mod file_tests;
pub(crate) mod receiver;
pub(crate) mod sql_proxy;
pub(crate) mod store;
pub(crate) mod tenants;
pub(crate) mod turns;
pub(crate) mod upstream;
pub(crate) mod web_socket;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary that Cargo has built for the tests.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_nanoclaw");

/// The binary under test: Cargo's, or the file that `TEST_BINARY` names, such as a release.
fn binary() -> PathBuf {
    let Some(named) = std::env::var_os("TEST_BINARY") else { return BINARY.into() };
    Path::new(&named)
        .canonicalize()
        .unwrap_or_else(|error| panic!("TEST_BINARY '{}': {error}", named.display()))
}

/// A number from the environment. The names do not begin with `NANOCLAW_`: the server refuses unknown ones
/// of these.
pub(crate) fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: '{value}'")))
}

/// A running server with its own directory.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) dir: PathBuf,
    child: Child,
    directory: Option<tempfile::TempDir>,
}

impl Server {
    /// A server with the built-in configuration: the demo model.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// A server with these lines of YAML.
    pub(crate) fn start_with(config: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Self::start_in(directory.path(), config);
        server.directory = Some(directory);
        server
    }

    /// A server whose models are answered by a scripted upstream under the id `scripted`.
    pub(crate) fn start_against(upstream: &upstream::Upstream, extra: &str) -> Self {
        Self::start_with(&against(upstream, extra))
    }

    /// A server on an existing directory.
    pub(crate) fn start_in(dir: &Path, config: &str) -> Self {
        Self::start_binary(&binary(), dir, config)
    }

    /// A server of another build.
    pub(crate) fn start_binary(binary: &Path, dir: &Path, config: &str) -> Self {
        Self::start_command(clean_command(binary), dir, config)
    }

    /// A server with these variables.
    pub(crate) fn start_with_environment(dir: &Path, config: &str, variables: &[(&str, PathBuf)]) -> Self {
        let mut command = clean_command(&binary());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Self::start_command(command, dir, config)
    }

    /// A server with more arguments.
    pub(crate) fn start_with_arguments(dir: &Path, config: &str, arguments: &[&str]) -> Self {
        let mut command = clean_command(&binary());
        command.arg("serve").args(arguments);
        Self::start_command(command, dir, config)
    }

    /// A server that this command starts.
    pub(crate) fn start_command(mut command: Command, dir: &Path, config: &str) -> Self {
        let file = dir.join("config.yml");
        std::fs::write(&file, database::configured(dir, config)).expect("write the configuration");
        if !config.contains("disk_free") {
            // The test must not fail because the disk of the machine is nearly full.
            command.envs([
                ("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"),
                ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0"),
            ]);
        }
        if config.contains("auth_mode: multi") && !config.contains("registration: ") {
            // Most tests need several accounts, and are not about how they are made.
            command.env("NANOCLAW_REGISTRATION", "open");
        }
        if !config.contains("listen: ") {
            command.env("NANOCLAW_LISTEN", "127.0.0.1:0");
        }
        if command.get_args().next().is_none() {
            command.arg("serve");
        }
        let mut child = command
            .arg("--config")
            .arg(&file)
            .arg("--data-dir")
            .arg(dir.join("data"))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(dir.join("log")).expect("a log"))
            .spawn()
            .expect("start the server");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut url).expect("its address");
        let url = url.trim().replace("0.0.0.0", "127.0.0.1");
        let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(url.starts_with("http://127.0.0.1:"), "no address but '{url}'; its log:\n{}", log());
        Self { url, dir: dir.to_owned(), child, directory: None }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// All that its store holds.
    pub(crate) fn store_bytes(&self) -> Vec<u8> {
        let in_database = database::dump(&self.dir);
        in_database.unwrap_or_else(|| std::fs::read(self.dir.join("data/nanoclaw.redb")).expect("the store"))
    }

    /// `kill -9`, then another server on the same directory.
    pub(crate) fn crash_and_restart(mut self, config: &str) -> Self {
        self.child.kill().expect("kill -9");
        self.child.wait().expect("reap");
        let mut next = Self::start_in(&self.dir.clone(), config);
        next.directory = self.directory.take();
        next
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill -9");
        self.child.wait().expect("reap");
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
        self.child.wait().expect("reap")
    }

    /// Waits until the server ends by itself.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("the server ends", || {
            ended = self.child.try_wait().expect("a status");
            ended.is_some()
        });
        ended.expect("ended")
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A line of its `/proc/…/status`, KiB.
    pub(crate) fn status_kb(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find(|line| line.starts_with(name)).expect("the line");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        Reply::read(agent().get(format!("{}{path}", self.url)).call())
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let request =
            headers.iter().fold(agent().get(format!("{}{path}", self.url)), |r, (n, v)| r.header(*n, *v));
        Reply::read(request.call())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let request = agent().post(format!("{}{path}", self.url)).content_type("application/json");
        Reply::read(request.send(body.to_string()))
    }

    /// Sends a request with these headers; an empty body is left out.
    pub(crate) fn request(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        if body.is_empty() {
            let request = self.built((method, path), headers, ());
            return Reply::read(agent().run(request));
        }
        Reply::read(agent().run(self.built((method, path), headers, body.to_owned())))
    }

    /// Sends a request with a JSON body; `null` sends no body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.request((method, path), &[("content-type", "application/json")], &text)
    }

    /// Opens a stream with a POST; returns the response head and the events as they arrive.
    pub(crate) fn open(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (Reply, Events) {
        let request_headers: Vec<_> =
            headers.iter().copied().chain([("content-type", "application/json")]).collect();
        let request = self.built(("POST", path), &request_headers, body.to_string());
        let response = agent().run(request).expect("an answer");
        let head = response.headers().iter();
        let headers = head.map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()));
        let reply =
            Reply { status: response.status().as_u16(), headers: headers.collect(), body: String::new() };
        (reply, Events { lines: BufReader::new(Box::new(response.into_body().into_reader())) })
    }

    fn built<B>(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: B,
    ) -> ureq::http::Request<B> {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(body).expect("a request")
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Reply {
        let request = agent().post(format!("{}{path}", self.url)).content_type("text/plain");
        Reply::read(request.send(body))
    }

    /// Registers the account of this body. The first one of a server is the administrator's and gets the
    /// set-up invite.
    pub(crate) fn register(&self, account: &Value) -> Reply {
        let mut account = account.clone();
        if let Some(invite) = self.setup_invite() {
            account["invite"] = invite["code"].clone();
        }
        self.post("/api/auth/register", &account)
    }

    /// A new set-up invite, as the operator gets it; `None` if there is an account.
    pub(crate) fn setup_invite(&self) -> Option<Value> {
        let control = std::fs::read(self.dir.join("data/control.json")).expect("the control file");
        let control: Value = serde_json::from_slice(&control).expect("JSON");
        let key = format!("Bearer {}", control["key"].as_str().expect("a key"));
        let reply = self.request(("POST", "/api/invites/setup"), &[("authorization", &key)], "");
        match reply.status {
            409 => None,
            status => {
                assert_eq!(status, 200, "{}", reply.body);
                Some(reply.json()["data"].clone())
            }
        }
    }

    /// Submits a job and returns its id.
    pub(crate) fn submit(&self, body: &Value) -> String {
        let reply = self.post("/v1/jobs", body);
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Waits for a job's end.
    pub(crate) fn wait(&self, job: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let value = self.get(&format!("/v1/jobs/{job}?wait=30")).json();
            if !matches!(value["status"].as_str(), Some("queued" | "running")) {
                return value;
            }
            assert!(Instant::now() < deadline, "the job does not end: {value}\n{}", self.log());
        }
    }

    /// All events of an ended job, in delta form.
    pub(crate) fn events(&self, job: &str) -> Vec<Event> {
        self.stream(&format!("/v1/jobs/{job}/events?format=delta"), 0).collect()
    }

    /// Opens an event stream after a cursor.
    pub(crate) fn stream(&self, path: &str, after: u64) -> Events {
        let request = agent().get(format!("{}{path}", self.url));
        let request = if after > 0 { request.header("last-event-id", after.to_string()) } else { request };
        let response = request.call().expect("an event stream");
        assert_eq!(response.status(), 200, "no stream at {path} after {after}");
        Events { lines: BufReader::new(Box::new(response.into_body().into_reader())) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(directory) = &self.directory {
            database::forget(directory.path());
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}", self.log());
        }
    }
}

/// The configuration of a server whose only model is answered by an upstream.
pub(crate) fn against(upstream: &upstream::Upstream, extra: &str) -> String {
    format!(
        "default_model: scripted\nmodels:\n  - {{id: scripted, api_url: \"{}/v1\"}}\n  - {{id: demo, provider: demo}}\n{extra}\n",
        upstream.url
    )
}

/// The binary with these arguments and, of this environment, only `PATH`.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = clean_command(&binary());
    command.args(arguments);
    command
}

/// The exit code and the output of a command.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let (out, err) = (text(output.stdout), text(output.stderr));
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {err}", output.status));
        Self { code, out, err }
    }
}

/// A program with, of this environment, only `PATH`.
pub(crate) fn clean_command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
    command
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .build()
        .new_agent()
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    fn read(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        let response = result.expect("an answer");
        let headers = response
            .headers()
            .iter()
            .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()))
            .collect();
        let status = response.status().as_u16();
        let mut body = response.into_body();
        // An exported run may be larger than the client's own limit.
        let body = body.with_config().limit(u64::MAX).read_to_string().expect("a body");
        Self { status, headers, body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// One frame of an event stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// The frames of an event stream as they arrive; comments and `retry:` are skipped.
pub(crate) struct Events {
    lines: BufReader<Box<dyn Read>>,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let (mut seq, mut name, mut data) = (None, String::new(), None);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(id) = line.strip_prefix("id: ") {
                seq = id.parse().ok();
            } else if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str(text).ok();
            } else if line.is_empty()
                && let (Some(seq), Some(data)) = (seq.take(), data.take())
            {
                return Some(Event { seq, name, data });
            }
        }
    }
}

impl Events {
    /// The next line as it is.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.lines.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    }
}

/// Waits for a condition, as long as a slow machine may need.
pub(crate) fn wait_until(event: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {event}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The text of all text steps that were not discarded, from delta events.
pub(crate) fn text_of(events: &[Event]) -> String {
    let dropped: Vec<&Value> =
        events.iter().filter(|e| e.name == "step_discarded").map(|e| &e.data["id"]).collect();
    events
        .iter()
        .filter(|e| e.data["type"] == "text" && !dropped.contains(&&e.data["id"]))
        .filter_map(|e| e.data["delta"].as_str())
        .collect()
}

/// Asserts that ids are 1, 2, 3 … without a gap and that the last event is the only terminal one.
pub(crate) fn assert_whole(events: &[Event]) {
    let ids: Vec<u64> = events.iter().map(|e| e.seq).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "ids have no gap");
    let terminal: Vec<usize> =
        (0..events.len()).filter(|i| matches!(events[*i].name.as_str(), "done" | "error")).collect();
    assert_eq!(terminal, [events.len() - 1], "one terminal event, the last");
}
