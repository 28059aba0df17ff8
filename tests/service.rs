//! The server under a service manager that the test plays: what it is told, and a socket that outlives the
//! server.

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

const PATIENCE: Duration = Duration::from_secs(120);

/// A server that ends with the test.
struct Running {
    child: Child,
    url: String,
    log: PathBuf,
}

impl Running {
    /// Starts what has the arguments of `serve` already, and waits for the address that it prints.
    fn start(command: &mut Command, dir: &Path) -> Self {
        let log = dir.join("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut url).expect("an address");
        let running = Self { child, url: url.trim().to_owned(), log };
        assert!(!running.url.is_empty(), "no address; its log:\n{}", running.said());
        running
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn post(&self, body: &serde_json::Value) -> String {
        let address = self.url.trim_start_matches("http://").parse().expect("an address");
        let answer = answer(connect_and_post(address, body)).expect("an answer");
        assert!(answer.contains(" 202 "), "{answer}");
        answer
    }

    /// SIGTERM and the wait for the end.
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

/// The arguments and the surroundings of a server over this directory.
fn serve(mut command: Command, dir: &Path) -> Command {
    command
        .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"));
    command
}

/// The same as a service manager does it that holds a socket: descriptor 3, and the process named that it is
/// for.
fn serve_on(socket: OwnedFd, dir: &Path) -> Command {
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
    shell.args(["-c", script, "sh", BINARY]).stdin(Stdio::from(socket));
    serve(shell, dir)
}

fn twin(socket: &TcpListener) -> OwnedFd {
    socket.try_clone().expect("a second descriptor").into()
}

/// A request on a connection of its own, up to the point where the answer is waited for.
fn connect_and_post(address: SocketAddr, body: &serde_json::Value) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
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

/// What a service manager hears.
struct Manager {
    ear: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn in_dir(dir: &Path) -> Self {
        let path = dir.join("notify");
        let ear = UnixDatagram::bind(&path).expect("an ear");
        ear.set_read_timeout(Some(PATIENCE)).expect("patience");
        Self { ear, path }
    }

    fn hear(&self) -> String {
        let mut words = [0; 4_096];
        let count = self.ear.recv(&mut words).expect("the server says something");
        String::from_utf8_lossy(&words[..count]).into_owned()
    }

    /// The next message that holds this.
    fn hear_until(&self, what: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let words = self.hear();
            if words.contains(what) {
                return words;
            }
            assert!(Instant::now() < deadline, "'{what}' is never said");
        }
    }

    /// All that was said and not heard.
    fn rest(&self) -> Vec<String> {
        self.ear.set_nonblocking(true).expect("no patience");
        let mut words = [0; 4_096];
        let mut heard = Vec::new();
        while let Ok(count) = self.ear.recv(&mut words) {
            heard.push(String::from_utf8_lossy(&words[..count]).into_owned());
        }
        heard
    }
}

#[test]
fn the_manager_hears_of_the_start_of_life_and_of_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = Manager::in_dir(dir.path());
    let mut start = serve(command(&[]), dir.path());
    start.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "300000");
    let mut server = Running::start(&mut start, dir.path());
    let ready = manager.hear_until("READY=1");
    assert_eq!(ready, format!("READY=1\nSTATUS=serving {}\n", server.url));
    assert_eq!(
        manager.hear(),
        format!("WATCHDOG=1\nSTATUS=serving {}; 0 running, 0 queued\n", server.url),
        "and then that it lives"
    );
    server.post(&json!({"input": "hello", "run_at": 4_000_000_000_u64}));
    manager.hear_until("WATCHDOG=1\nSTATUS=serving http://127.0.0.1:");
    manager.hear_until("; 0 running, 1 queued\n");
    assert!(server.terminate().success());
    let end = manager.hear_until("STOPPING=1");
    assert!(end.contains("\nSTATUS=stopping: running jobs have 25 s"), "{end}");
    assert!(end.contains("\nEXTEND_TIMEOUT_USEC=40000000\n"), "the drain and what comes after it: {end}");
    assert_eq!(manager.rest(), Vec::<String>::new(), "nothing after the end has begun");
}

#[test]
fn a_watchdog_of_another_process_or_none_is_not_fed() {
    for watched in [vec![], vec![("WATCHDOG_USEC", "3000"), ("WATCHDOG_PID", "1")]] {
        let dir = tempfile::tempdir().expect("a directory");
        let manager = Manager::in_dir(dir.path());
        let mut start = serve(command(&[]), dir.path());
        let mut server = Running::start(start.env("NOTIFY_SOCKET", &manager.path).envs(watched), dir.path());
        // A commit and its answer take longer than a millisecond, after which a sign would have come.
        server.post(&json!({"input": "hello"}));
        assert!(server.terminate().success());
        // A machine that takes ten seconds to open an empty store is told of, too.
        let heard: Vec<String> =
            manager.rest().into_iter().filter(|words| !words.starts_with("EXTEND")).collect();
        assert!(heard[0].starts_with("READY=1") && heard[1].starts_with("STOPPING=1"), "{heard:?}");
        assert_eq!(heard.len(), 2, "{heard:?}");
    }
}

/// Posts on connection after connection for as long as it may; how many were answered, all of them with 202.
fn post_on_and_on(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut posted = 0;
    while !stop.load(Ordering::SeqCst) {
        let answer = answer(connect_and_post(address, &json!({"input": "hello"}))).expect("none is refused");
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
        posted += 1;
    }
    posted
}

#[test]
fn p1_a_restart_on_a_socket_of_the_manager_refuses_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = socket.local_addr().expect("an address");
    let mut server = Running::start(&mut serve_on(twin(&socket), dir.path()), dir.path());
    assert_eq!(server.url, format!("http://{address}"), "the manager's address, not the configuration's");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| post_on_and_on(address, &stop))).collect();
        for _ in 0..2 {
            server.post(&json!({"input": "hello"}));
            assert!(server.terminate().success(), "{}", server.said());
            // Nobody serves, and nobody is refused.
            let waiting: Vec<_> =
                (0..8).map(|_| connect_and_post(address, &json!({"input": "hello"}))).collect();
            server = Running::start(&mut serve_on(twin(&socket), dir.path()), dir.path());
            for sent in waiting {
                let answer = answer(sent).expect("served by the next one");
                assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
            }
        }
        stop.store(true, Ordering::SeqCst);
        let posted: Vec<usize> =
            clients.into_iter().map(|client| client.join().expect("no refusal")).collect();
        assert!(posted.iter().all(|count| *count > 0), "{posted:?}");
    });
    assert!(server.said().contains("the service manager holds the socket"), "{}", server.said());
}

#[test]
fn a_socket_file_of_the_manager_stays_where_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("door");
    let socket = UnixListener::bind(&path).expect("binds");
    for _ in 0..2 {
        let handed = socket.try_clone().expect("a second descriptor").into();
        let mut server = Running::start(&mut serve_on(handed, dir.path()), dir.path());
        assert_eq!(server.url, format!("unix:{}", path.display()));
        let mut stream = UnixStream::connect(&path).expect("somebody is there");
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("written");
        assert!(answer(Ok(stream)).expect("an answer").starts_with("HTTP/1.1 200 "));
        assert!(server.terminate().success());
        assert!(path.exists(), "the file is not the server's to remove");
    }
}

fn fails(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{said}");
    said
}

#[test]
fn p9_a_public_socket_is_refused_whoever_has_bound_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let public = TcpListener::bind("0.0.0.0:0").expect("binds");
    let said = fails(&mut serve_on(twin(&public), dir.path()));
    assert!(said.contains("auth_mode: multi") && said.contains("nanoclaw.socket"), "{said}");
    assert!(!dir.path().join("data").exists(), "before anything is made");
    let mut multi = serve_on(twin(&public), dir.path());
    let accounts = Running::start(multi.env("NANOCLAW_AUTH_MODE", "multi"), dir.path());
    assert!(accounts.url.starts_with("http://0.0.0.0:"), "{}", accounts.url);

    let connection = TcpStream::connect(public.local_addr().expect("an address")).expect("connects");
    let said = fails(&mut serve_on(connection.into(), dir.path()));
    assert!(said.contains("ListenStream="), "a connection is no door: {said}");
}

/// The processes below this one, as the kernel lists them.
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

/// What the descriptors of a process lead to; `None` where the kernel does not say.
fn leads(pid: u32) -> Option<Vec<PathBuf>> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(listed.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect())
}

#[test]
fn p9_no_child_has_the_socket_or_hears_of_the_manager() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = Manager::in_dir(dir.path());
    let socket = TcpListener::bind("127.0.0.1:0").expect("binds");
    let mut start = serve_on(twin(&socket), dir.path());
    start.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "60000000").env("LISTEN_FDNAMES", "door");
    let server = Running::start(&mut start, dir.path());
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let door = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("the socket's name");
    if let Some(own) = leads(server.child.id()) {
        assert!(own.contains(&door), "this test knows the socket");
    }
    // The self-test at the start has the broker and, where there is Python, its zygote made.
    let deadline = Instant::now() + PATIENCE;
    while !server.said().contains("sandbox") || descendants(server.child.id()).is_empty() {
        assert!(Instant::now() < deadline, "no child is ever made:\n{}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let children = descendants(server.child.id());
    let mut seen = 0;
    for child in children {
        if let Ok(environment) = std::fs::read(format!("/proc/{child}/environ")) {
            let environment = String::from_utf8_lossy(&environment).into_owned();
            for name in ["LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_"] {
                assert!(!environment.contains(name), "{child} hears of the manager: {environment}");
            }
            seen += 1;
        }
        if let Some(held) = leads(child) {
            assert!(!held.contains(&door), "{child} has the socket: {held:?}");
        }
    }
    let is_root = rustix::process::geteuid().is_root();
    assert!(seen > 0 || !is_root, "root sees its children");
}

#[test]
fn p9_a_backup_by_the_servers_own_user_needs_no_key_and_no_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, config, keys) =
        (dir.path().join("data"), dir.path().join("config.yml"), dir.path().join("keys"));
    std::fs::create_dir(&keys).expect("made");
    std::fs::write(keys.join("m_key"), "k").expect("written");
    // With accounts, a backup is an administrator's; and the model's key is there for the service alone.
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
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success() && file.exists(), "{said}");
        said
    };
    assert!(backup("one", "--data-dir", &data).contains(&server.url), "from the server that holds the store");
    assert!(backup("two", "--config", &config).contains(&server.url), "found by the configuration as well");
    assert!(server.terminate().success());
    assert!(
        backup("three", "--data-dir", &data).contains("nanoclaw.redb"),
        "from the file where nobody serves"
    );
}
