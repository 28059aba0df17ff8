//! Restart time over a store of 1 GB with 100,000 queued jobs: after a clean stop, and after `kill -9`
//! during writes.

use crate::bare_program::BareProgram;
use crate::connection::Connection;
use crate::enqueue::{fill, jobs_per_second};
use crate::server::Server;
use crate::unit::Unit;
use crate::work::Work;
use crate::{Benchmark, median};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

/// Queued jobs.
const JOBS: usize = 100_000;
/// The input of a job, in bytes.
const INPUT_BYTES: usize = 7 * 1024;
/// Clients that fill the store and that write when the server is killed.
const CLIENTS: usize = 64;
/// Duration of the enqueue figure.
const LOAD: Duration = Duration::from_secs(4);
/// Restarts of each kind.
const RESTARTS: usize = 5;
/// The first job keeps the only worker busy, so that all others stay queued. The stop does not wait for it.
const CONFIG: &str = "workers: 1\nlimits: {drain_s: 0}\n";

/// Fills a store, then stops and kills its server repeatedly.
pub(crate) fn measure(run: &mut Benchmark) {
    let mut server = Server::start(CONFIG);
    let busy = json!({"input": "stream: 100000 words, 60000 ms", "timeout_s": 3600}).to_string();
    assert_eq!(Connection::open(&server.address).post("/v1/jobs", &busy).status, 202);
    fill(&server.address, JOBS, INPUT_BYTES);
    run.results.record("restart.store", server.store_bytes() as f64 / f64::from(1 << 20));
    let rate = || jobs_per_second(&server.address, CLIENTS, LOAD);
    run.results.record_rate("restart.enqueue", Work::measure(server.process.0.id(), rate));
    let mut times = Vec::new();
    for _ in 0..RESTARTS {
        server = server.restart(Signal::TERM);
        times.push(server.ready_ms);
    }
    record_with_worst(run, "restart.clean", &mut times);
    times.clear();
    for _ in 0..RESTARTS {
        let address = server.address.clone();
        // Ends when the server is killed.
        let writers = std::thread::spawn(move || jobs_per_second(&address, CLIENTS, Duration::from_secs(60)));
        std::thread::sleep(Duration::from_secs(1));
        server = server.restart(Signal::KILL);
        writers.join().expect("clients");
        times.push(server.ready_ms);
    }
    record_with_worst(run, "restart.killed", &mut times);
    if run.is_long {
        let bare = BareProgram::start();
        fill(&bare.address, JOBS, INPUT_BYTES);
        let rate = || jobs_per_second(&bare.address, CLIENTS, LOAD);
        run.results.record_rate("restart.enqueue.bare", Work::measure(bare.process.0.id(), rate));
    } else {
        run.results.skip("restart.enqueue.bare", "its store must be filled first, which only `--long` does");
    }
}

fn record_with_worst(run: &mut Benchmark, key: &str, times: &mut [f64]) {
    let worst = times.iter().copied().fold(0.0, f64::max);
    run.results.record_with_note(key, median(times), &format!("worst {}", Unit::Ms.format(worst)));
}
