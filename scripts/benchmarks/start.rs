//! Binary size, start time and idle memory of the server, and the speed of the disk.

use crate::connection::Connection;
use crate::figures::FSYNC;
use crate::server::{Server, binary, scratch_directory};
use crate::{Benchmark, agent_peers, median, peers, timed_ms};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

/// Servers whose first use of Python is measured.
const FIRST_USES: usize = 5;

/// Measures the disk's fdatasync, the lower bound of every durable figure.
pub(crate) fn measure_disk(run: &mut Benchmark) {
    let mut file = tempfile::NamedTempFile::new_in(scratch_directory()).expect("a file");
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            timed_ms(|| {
                file.write_all(&[0; 4096]).and_then(|()| file.as_file().sync_data()).expect("fdatasync");
            })
        })
        .collect();
    run.results.record(FSYNC, median(&mut times));
}

/// Measures the size of the binary.
pub(crate) fn measure_size(run: &mut Benchmark) {
    let bytes = std::fs::metadata(binary()).expect("the release binary").len();
    run.results.record("size.binary", bytes as f64 / f64::from(1 << 20));
}

/// Measures start time and idle memory.
pub(crate) fn measure(run: &mut Benchmark) {
    let mut times: Vec<f64> = (0..9).map(|_| Server::start("").ready_ms).collect();
    run.results.record("start.ready", median(&mut times));
    let server = Server::start("");
    run.results.record("start.idle", server.process.resting_kib() / 1024.0);
    run.results.record("start.idle_all", server.process.family_mib());
    drop(server);
    let mut times: Vec<f64> = (0..FIRST_USES).map(|_| first_python_ms()).collect();
    run.results.record("start.first_python", median(&mut times));
    if run.with_peers {
        peers::measure_start(&mut run.results, &peers::NANOBOT);
        peers::measure_start(&mut run.results, &peers::LITELLM);
        agent_peers::measure_starts(run);
    }
}

/// The first job with a call of `execute_python` in a server that was ready a moment ago.
fn first_python_ms() -> f64 {
    let server = Server::start("");
    // Another job before it pays for everything else that a first job starts.
    let run = |prompt: &str, expected: &str| {
        let body = json!({"input": prompt}).to_string();
        let reply = Connection::open(&server.address).post("/v1/jobs?wait=30", &body);
        assert!(reply.body.contains(expected), "{}", reply.body);
    };
    run("hello", "\"succeeded\"");
    std::thread::sleep(Duration::from_millis(500));
    let prompt = format!("tool: execute_python {}", json!({"code": "print(6 * 7)"}));
    timed_ms(|| run(&prompt, "42"))
}
