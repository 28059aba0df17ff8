//! The server under a service manager played by the test: notifications, watchdog, and inherited sockets.

use crate::support::{BINARY, command};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// A server process; it is killed when the test ends.
struct Running {
    child: Child,
    url: String,
    log_file: PathBuf,
}

impl Running {
    /// Starts this `serve` command and waits for the address that it prints.
    fn start(command: &mut Command, dir: &Path) -> Self {
        let log = dir.join("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut url).expect("an address");
        let running = Self { child, url: url.trim().to_owned(), log_file: log };
        assert!(!running.url.is_empty(), "no address; its log:\n{}", running.log());
        running
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log_file).unwrap_or_default()
    }

    fn post(&self, body: &serde_json::Value) -> String {
        let address = self.url.trim_start_matches("http://").parse().expect("an address");
        let answer = answer(connect_and_post(address, body)).expect("an answer");
        assert!(answer.contains(" 202 "), "{answer}");
        answer
    }

    /// Sends SIGTERM and waits for the exit.
    fn terminate(&mut self) -> ExitStatus {
        let pid =
            rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
        self.child.wait().expect("reaped")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Adds the arguments and environment of a server on this directory.
fn serve(mut command: Command, dir: &Path) -> Command {
    command
        .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"));
    command
}

/// Passes a socket like a service manager: as descriptor 3, with `LISTEN_PID` set to the server.
fn serve_on(socket: OwnedFd, dir: &Path) -> Command {
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
    shell.args(["-c", script, "sh", BINARY]).stdin(Stdio::from(socket));
    serve(shell, dir)
}

fn duplicate(socket: &TcpListener) -> OwnedFd {
    socket.try_clone().expect("a second descriptor").into()
}

/// Sends a request on a new connection and does not wait for the answer.
fn connect_and_post(address: SocketAddr, body: &serde_json::Value) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, WAIT_TIMEOUT)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    let body = body.to_string();
    write!(
        stream,
        "POST /v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(stream)
}

fn answer(sent: std::io::Result<impl Read>) -> std::io::Result<String> {
    let mut text = String::new();
    sent?.read_to_string(&mut text)?;
    Ok(text)
}

/// The notification socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn in_dir(dir: &Path) -> Self {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a timeout");
        Self { socket, path }
    }

    fn receive(&self) -> String {
        let mut message = [0; 4_096];
        let count = self.socket.recv(&mut message).expect("a message of the server");
        String::from_utf8_lossy(&message[..count]).into_owned()
    }

    /// The next message that contains this.
    fn receive_until(&self, text: &str) -> String {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let message = self.receive();
            if message.contains(text) {
                return message;
            }
            assert!(Instant::now() < deadline, "no message contains '{text}'");
        }
    }

    /// All messages that were not received yet.
    fn rest(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).expect("nonblocking");
        let mut message = [0; 4_096];
        let mut messages = Vec::new();
        while let Ok(count) = self.socket.recv(&mut message) {
            messages.push(String::from_utf8_lossy(&message[..count]).into_owned());
        }
        messages
    }
}

#[test]
fn the_service_manager_gets_ready_watchdog_and_stopping_messages() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = Manager::in_dir(dir.path());
    let mut start = serve(command(&[]), dir.path());
    start.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "300000");
    let mut server = Running::start(&mut start, dir.path());
    let ready = manager.receive_until("READY=1");
    assert_eq!(ready, format!("READY=1\nSTATUS=serving {}\n", server.url));
    assert_eq!(
        manager.receive(),
        format!("WATCHDOG=1\nSTATUS=serving {}; 0 running, 0 queued\n", server.url),
        "then the watchdog message"
    );
    server.post(&json!({"input": "hello", "run_at": 4_000_000_000_u64}));
    manager.receive_until("WATCHDOG=1\nSTATUS=serving http://127.0.0.1:");
    manager.receive_until("; 0 running, 1 queued\n");
    assert!(server.terminate().success());
    let end = manager.receive_until("STOPPING=1");
    assert!(end.contains("\nSTATUS=stopping: running jobs have 25 s"), "{end}");
    assert!(
        end.contains("\nEXTEND_TIMEOUT_USEC=40000000\n"),
        "the drain time and the rest of the shutdown: {end}"
    );
    assert_eq!(manager.rest(), Vec::<String>::new(), "no message after STOPPING");
}

#[test]
fn no_watchdog_message_is_sent_without_a_watchdog_for_this_process() {
    for watched in [vec![], vec![("WATCHDOG_USEC", "3000"), ("WATCHDOG_PID", "1")]] {
        let dir = tempfile::tempdir().expect("a directory");
        let manager = Manager::in_dir(dir.path());
        let mut start = serve(command(&[]), dir.path());
        let mut server = Running::start(start.env("NOTIFY_SOCKET", &manager.path).envs(watched), dir.path());
        // A commit and its answer take longer than a millisecond, so a watchdog message would have been
        // sent.
        server.post(&json!({"input": "hello"}));
        assert!(server.terminate().success());
        // A slow machine, which takes ten seconds to open an empty store, also sends EXTEND messages.
        let messages: Vec<String> =
            manager.rest().into_iter().filter(|message| !message.starts_with("EXTEND")).collect();
        assert!(messages[0].starts_with("READY=1") && messages[1].starts_with("STOPPING=1"), "{messages:?}");
        assert_eq!(messages.len(), 2, "{messages:?}");
    }
}

/// Posts on new connections until `stop` is set; returns the number of answers, which must all be 202.
fn post_repeatedly(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut answered = 0;
    while !stop.load(Ordering::SeqCst) {
        let answer = answer(connect_and_post(address, &json!({"input": "hello"}))).expect("no refusal");
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
        answered += 1;
    }
    answered
}

#[test]
fn p1_a_restart_on_an_inherited_socket_refuses_no_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = socket.local_addr().expect("an address");
    let mut server = Running::start(&mut serve_on(duplicate(&socket), dir.path()), dir.path());
    assert_eq!(
        server.url,
        format!("http://{address}"),
        "the address of the inherited socket, not the configured one"
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| post_repeatedly(address, &stop))).collect();
        for _ in 0..2 {
            server.post(&json!({"input": "hello"}));
            assert!(server.terminate().success(), "{}", server.log());
            // No server runs, and no connection is refused.
            let waiting: Vec<_> =
                (0..8).map(|_| connect_and_post(address, &json!({"input": "hello"}))).collect();
            server = Running::start(&mut serve_on(duplicate(&socket), dir.path()), dir.path());
            for sent in waiting {
                let answer = answer(sent).expect("an answer of the next server");
                assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
            }
        }
        stop.store(true, Ordering::SeqCst);
        let answered: Vec<usize> =
            clients.into_iter().map(|client| client.join().expect("no refusal")).collect();
        assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    });
    assert!(server.log().contains("the service manager holds the socket"), "{}", server.log());
}

#[test]
fn an_inherited_socket_file_is_not_removed_at_shutdown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("door");
    let socket = UnixListener::bind(&path).expect("binds");
    for _ in 0..2 {
        let inherited = socket.try_clone().expect("a second descriptor").into();
        let mut server = Running::start(&mut serve_on(inherited, dir.path()), dir.path());
        assert_eq!(server.url, format!("unix:{}", path.display()));
        let mut stream = UnixStream::connect(&path).expect("a connection");
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("written");
        assert!(answer(Ok(stream)).expect("an answer").starts_with("HTTP/1.1 200 "));
        assert!(server.terminate().success());
        assert!(path.exists(), "the server must not remove the file");
    }
}

fn fails(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("runs");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{stderr}");
    stderr
}

#[test]
fn p9_an_inherited_public_socket_is_refused_without_accounts() {
    let dir = tempfile::tempdir().expect("a directory");
    let public = TcpListener::bind("0.0.0.0:0").expect("binds");
    let stderr = fails(&mut serve_on(duplicate(&public), dir.path()));
    assert!(stderr.contains("auth_mode: multi") && stderr.contains("nanoclaw.socket"), "{stderr}");
    assert!(!dir.path().join("data").exists(), "refused before anything is created");
    let mut multi = serve_on(duplicate(&public), dir.path());
    let accounts = Running::start(multi.env("NANOCLAW_AUTH_MODE", "multi"), dir.path());
    assert!(accounts.url.starts_with("http://0.0.0.0:"), "{}", accounts.url);

    let connection = TcpStream::connect(public.local_addr().expect("an address")).expect("connects");
    let stderr = fails(&mut serve_on(connection.into(), dir.path()));
    assert!(stderr.contains("ListenStream="), "a connection is not a listening socket: {stderr}");
}

/// All descendants of this process.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = listed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            open.extend(&children);
            found.extend(children);
        }
    }
    found
}

/// The targets of the descriptors of a process; `None` where the kernel does not show them.
fn descriptor_targets(pid: u32) -> Option<Vec<PathBuf>> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(listed.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect())
}

#[test]
fn p9_child_processes_get_neither_the_socket_nor_manager_variables() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = Manager::in_dir(dir.path());
    let socket = TcpListener::bind("127.0.0.1:0").expect("binds");
    let mut start = serve_on(duplicate(&socket), dir.path());
    start.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "60000000").env("LISTEN_FDNAMES", "door");
    let server = Running::start(&mut start, dir.path());
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let socket_name = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("the socket's name");
    if let Some(server_descriptors) = descriptor_targets(server.child.id()) {
        assert!(server_descriptors.contains(&socket_name), "the server itself has the socket");
    }
    // The self-test at the start starts the broker and, if Python is installed, its zygote.
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !server.log().contains("sandbox") || descendants(server.child.id()).is_empty() {
        assert!(Instant::now() < deadline, "no child process started:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let children = descendants(server.child.id());
    let mut seen = 0;
    for child in children {
        if let Ok(environment) = std::fs::read(format!("/proc/{child}/environ")) {
            let environment = String::from_utf8_lossy(&environment).into_owned();
            for name in ["LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_"] {
                assert!(!environment.contains(name), "{child} has a variable of the manager: {environment}");
            }
            seen += 1;
        }
        if let Some(targets) = descriptor_targets(child) {
            assert!(!targets.contains(&socket_name), "{child} has the socket: {targets:?}");
        }
    }
    let is_root = rustix::process::geteuid().is_root();
    assert!(seen > 0 || !is_root, "root can read the environment of its children");
}

#[test]
fn p9_a_local_backup_needs_neither_a_key_nor_an_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, config, keys) =
        (dir.path().join("data"), dir.path().join("config.yml"), dir.path().join("keys"));
    std::fs::create_dir(&keys).expect("made");
    std::fs::write(keys.join("m_key"), "k").expect("written");
    // With accounts, only administrators make backups, and only the service can read the model's key.
    let text = format!(
        "auth_mode: multi\ndata_dir: {}\nmodels: [{{id: m, api_url: \"http://127.0.0.1:1/v1\", api_key_file: m_key}}]\n",
        data.display()
    );
    std::fs::write(&config, text).expect("written");
    let mut start = serve(command(&[]), dir.path());
    start.arg("--config").arg(&config).env("CREDENTIALS_DIRECTORY", &keys);
    let mut server = Running::start(&mut start, dir.path());
    let backup = |name: &str, flag: &str, value: &Path| {
        let file = dir.path().join(name);
        let made = command(&["backup", flag]).arg(value).arg(&file).output().expect("runs");
        let stderr = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success() && file.exists(), "{stderr}");
        stderr
    };
    assert!(backup("one", "--data-dir", &data).contains(&server.url), "from the running server");
    assert!(
        backup("two", "--config", &config).contains(&server.url),
        "the configuration finds the server as well"
    );
    assert!(server.terminate().success());
    assert!(
        backup("three", "--data-dir", &data).contains("nanoclaw.redb"),
        "from the file when no server runs"
    );
}
