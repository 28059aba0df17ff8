//! Other products, measured in the same run (`--peers`). The scripts in `scripts/peers/` install and run them
//! and print results as lines. A product that cannot be installed here is skipped with the reason.

use crate::median;
use crate::process::ChildProcess;
use crate::results::Results;
use crate::server::ROOT;
use crate::work::Work;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time a peer has to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(180);
/// The pause between two readiness checks.
const READY_INTERVAL: Duration = Duration::from_millis(5);
/// Measured starts; the median counts.
const STARTS: usize = 3;

/// A peer that serves HTTP: the name of its script and the path of its readiness check.
pub(crate) struct HttpPeer {
    pub(crate) name: &'static str,
    pub(crate) ready_path: &'static str,
}

/// `nanobot serve`.
pub(crate) const NANOBOT: HttpPeer = HttpPeer { name: "nanobot", ready_path: "/health" };
/// The proxy of `LiteLLM`.
pub(crate) const LITELLM: HttpPeer = HttpPeer { name: "litellm", ready_path: "/health/liveliness" };

/// A running peer.
pub(crate) struct RunningPeer {
    pub(crate) address: String,
    ready_ms: f64,
    process: ChildProcess,
}

impl RunningPeer {
    /// Installs the peer if needed, starts it in front of this provider and waits until it is ready. An error
    /// is the reason to skip its figures.
    pub(crate) fn start(results: &mut Results, peer: &HttpPeer, provider: &str) -> Result<Self, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let child = script(peer.name)?
            .args([provider, &port.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("its script does not start: {error}"))?;
        let (mut process, address) = (ChildProcess(child), format!("127.0.0.1:{port}"));
        let stdout = BufReader::new(process.0.stdout.take().expect("its stdout"));
        read_result(results, stdout, "serving")?;
        let began = Instant::now();
        while !is_ready(&address, peer.ready_path) {
            if let Some(status) = process.0.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("it ended at start ({status}); see target/peers/{}.log", peer.name));
            }
            if began.elapsed() > READY_TIMEOUT {
                return Err(format!(
                    "it was not ready in {READY_TIMEOUT:?}; see target/peers/{}.log",
                    peer.name
                ));
            }
            std::thread::sleep(READY_INTERVAL);
        }
        Ok(Self { address, ready_ms: began.elapsed().as_secs_f64() * 1e3, process })
    }

    /// The process that its script has become.
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// Measures start time and idle memory.
pub(crate) fn measure_start(results: &mut Results, peer: &HttpPeer) {
    let (ready, idle) = (format!("start.ready.{}", peer.name), format!("start.idle_all.{}", peer.name));
    let mut times = Vec::new();
    for round in 1..=STARTS {
        let running = match RunningPeer::start(results, peer, "http://127.0.0.1:9") {
            Ok(running) => running,
            Err(reason) => {
                results.skip(&ready, &reason);
                return results.skip(&idle, &reason);
            }
        };
        times.push(running.ready_ms);
        if round == STARTS {
            std::thread::sleep(Duration::from_secs(2));
            results.record(&idle, running.process.family_mib());
        }
    }
    results.record(&ready, median(&mut times));
}

/// Runs a script that measures by itself, and records its number.
pub(crate) fn measure_with_script(results: &mut Results, name: &str, key: &str) {
    let value = numbers(results, name, &[]).map(|(value, _)| value);
    results.record_or_skip(key, value);
}

/// The same for a rate with the processor time behind it.
pub(crate) fn measure_rate_with_script(results: &mut Results, name: &str, key: &str) {
    let rate = rate_of_script(results, name, &[]);
    results.record_rate_or_skip(key, rate);
}

/// The rate that a script measures, with the processor time behind it.
pub(crate) fn rate_of_script(results: &mut Results, name: &str, arguments: &[&str]) -> Result<Work, String> {
    let (per_second, cores) = numbers(results, name, arguments)?;
    let cores = cores.ok_or("its script printed no processor time")?;
    Ok(Work { per_second, cores })
}

/// The value that a script prints, and the number after it.
fn numbers(results: &mut Results, name: &str, arguments: &[&str]) -> Result<(f64, Option<f64>), String> {
    let text = run_script(results, name, arguments, "value ")?;
    let mut numbers = text.split(' ').map(str::parse::<f64>);
    match (numbers.next(), numbers.next().transpose()) {
        (Some(Ok(value)), Ok(second)) => Ok((value, second)),
        _ => Err(format!("its script printed '{text}' as the value")),
    }
}

/// Runs a script that finds a program, and returns its path.
pub(crate) fn find_program(results: &mut Results, name: &str) -> Result<String, String> {
    run_script(results, name, &[], "path ")
}

fn run_script(results: &mut Results, name: &str, arguments: &[&str], prefix: &str) -> Result<String, String> {
    let run = script(name)?
        .args(arguments)
        .output()
        .map_err(|error| format!("its script does not start: {error}"))?;
    read_result(results, run.stdout.as_slice(), prefix)
}

/// Reads a script's lines until one starts with this prefix, and returns the rest of that line.
fn read_result(results: &mut Results, stdout: impl BufRead, prefix: &str) -> Result<String, String> {
    for line in stdout.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(rest) = line.strip_prefix(prefix) {
            return Ok(rest.to_owned());
        }
        match line.split_once(' ') {
            Some(("version", version)) => {
                let (name, version) = version.split_once(' ').unwrap_or((version, "unknown"));
                results.record_version(name, version);
            }
            Some(("skipped", reason)) => return Err(reason.to_owned()),
            _ => {}
        }
    }
    Err("its script failed; its messages are in target/peers/*.log".to_owned())
}

/// The peer's script, which logs to its own file.
fn script(name: &str) -> Result<Command, String> {
    eprintln!("  peer: {name} (installed under target/peers the first time)");
    let directory = Path::new(ROOT).join("target/peers");
    let log = std::fs::create_dir_all(&directory)
        .and_then(|()| File::create(directory.join(format!("{name}.log"))));
    let mut command = Command::new(Path::new(ROOT).join("scripts/peers").join(name));
    command.stdin(Stdio::null()).stderr(log.map_err(|error| error.to_string())?);
    Ok(command)
}

/// Whether a request gets a 200.
fn is_ready(address: &str, path: &str) -> bool {
    let Ok(mut socket) = TcpStream::connect(address) else { return false };
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut head = [0; 12];
    let exchange = socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .and_then(|()| socket.write_all(request.as_bytes()))
        .and_then(|()| socket.read_exact(&mut head));
    exchange.is_ok() && head.ends_with(b" 200")
}
