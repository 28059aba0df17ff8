//! Other products, measured in the same run (`--peers`). `scripts/peers/` installs and runs them and prints
//! results as lines. A product that cannot be installed here is skipped with the reason.

use crate::server::ROOT;
use crate::sheet::Sheet;
use crate::{median, processes};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time a peer has to become ready.
const READY: Duration = Duration::from_secs(180);
/// The pause between two readiness checks.
const ASK: Duration = Duration::from_millis(5);
/// Measured starts; the median counts.
const STARTS: usize = 3;

/// A peer that serves HTTP: its script and its readiness path.
pub(crate) struct Kind {
    name: &'static str,
    health: &'static str,
}

/// `nanobot serve`.
pub(crate) const NANOBOT: Kind = Kind { name: "nanobot", health: "/health" };
/// The proxy of `LiteLLM`.
pub(crate) const LITELLM: Kind = Kind { name: "litellm", health: "/health/liveliness" };

/// A peer, running.
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) ready_ms: f64,
    child: Child,
}

impl Peer {
    /// Installs it if needed, starts it in front of this provider and waits until it is ready. Errors say
    /// why not.
    pub(crate) fn start(sheet: &mut Sheet, kind: &Kind, upstream: &str) -> Result<Self, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let mut child = script(kind.name)?
            .args([upstream, &port.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("its script does not start: {error}"))?;
        let out = BufReader::new(child.stdout.take().expect("its stdout"));
        let address = format!("127.0.0.1:{port}");
        let mut peer = Self { address, ready_ms: 0.0, child };
        told(sheet, out, "serving")?;
        let began = Instant::now();
        while !answers(&peer.address, kind.health) {
            let ended = peer.child.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                return Err(format!("it ended at start ({status}); see target/peers/{}.log", kind.name));
            }
            if began.elapsed() > READY {
                return Err(format!("it was not ready in {READY:?}; see target/peers/{}.log", kind.name));
            }
            std::thread::sleep(ASK);
        }
        peer.ready_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(peer)
    }

    /// Memory of all its processes, MiB.
    pub(crate) fn mib(&self) -> f64 {
        processes::family_mib(self.child.id())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Measures start time and idle memory.
pub(crate) fn start_and_memory(sheet: &mut Sheet, kind: &Kind) {
    let (ready, idle) = (format!("start.ready.{}", kind.name), format!("start.idle_all.{}", kind.name));
    let mut times = Vec::new();
    for round in 1..=STARTS {
        let peer = match Peer::start(sheet, kind, "http://127.0.0.1:9") {
            Ok(peer) => peer,
            Err(why) => {
                sheet.skip(&ready, &why);
                return sheet.skip(&idle, &why);
            }
        };
        times.push(peer.ready_ms);
        if round == STARTS {
            std::thread::sleep(Duration::from_secs(2));
            sheet.put(&idle, peer.mib());
        }
    }
    sheet.put(&ready, median(&mut times));
}

/// Runs a script that measures by itself and stores its number.
pub(crate) fn number(sheet: &mut Sheet, name: &str, key: &str) {
    match output(sheet, name, "value ").and_then(|text| text.parse().map_err(|_| format!("it says '{text}'")))
    {
        Ok(value) => sheet.put(key, value),
        Err(why) => sheet.skip(key, &why),
    }
}

/// Runs a script that finds a program.
pub(crate) fn path(sheet: &mut Sheet, name: &str) -> Result<String, String> {
    output(sheet, name, "path ")
}

fn output(sheet: &mut Sheet, name: &str, wanted: &str) -> Result<String, String> {
    let run = script(name)?.output().map_err(|error| format!("its script does not start: {error}"))?;
    told(sheet, run.stdout.as_slice(), wanted)
}

/// Reads a script's lines until the one with this word and returns the rest of that line.
fn told(sheet: &mut Sheet, out: impl BufRead, wanted: &str) -> Result<String, String> {
    for line in out.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(rest) = line.strip_prefix(wanted) {
            return Ok(rest.to_owned());
        }
        match line.split_once(' ') {
            Some(("version", version)) => {
                let (name, version) = version.split_once(' ').unwrap_or((version, "unknown"));
                sheet.met(name, version);
            }
            Some(("skipped", why)) => return Err(why.to_owned()),
            _ => {}
        }
    }
    Err("its script failed; its words are in target/peers/*.log".to_owned())
}

/// The peer's script, which logs to its own file.
fn script(name: &str) -> Result<Command, String> {
    eprintln!("  peer: {name} (installed under target/peers the first time)");
    let log = log(name);
    let folder = log.parent().unwrap_or(Path::new(ROOT));
    let file = std::fs::create_dir_all(folder).and_then(|()| File::create(&log));
    let mut command = Command::new(Path::new(ROOT).join("scripts/peers").join(name));
    command.stdin(Stdio::null()).stderr(file.map_err(|error| error.to_string())?);
    Ok(command)
}

fn log(name: &str) -> PathBuf {
    Path::new(ROOT).join("target/peers").join(format!("{name}.log"))
}

fn answers(address: &str, path: &str) -> bool {
    let Ok(mut socket) = TcpStream::connect(address) else { return false };
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut head = [0; 12];
    let asked = socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .and_then(|()| socket.write_all(request.as_bytes()))
        .and_then(|()| socket.read_exact(&mut head));
    asked.is_ok() && head.ends_with(b" 200")
}
