//! Restart time over a store of 1 GB with 100,000 queued jobs: after a clean stop, and after `kill -9`
//! during writes.

use crate::bare::Bare;
use crate::enqueue::rate;
use crate::list::Unit;
use crate::server::Server;
use crate::wire::Connection;
use crate::{Run, median};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// One worker, kept busy by the first job, so that all others stay queued. The stop does not wait for it.
const CONFIG: &str = "workers: 1\nlimits: {drain_s: 0}\n";

/// Fills a store, then stops and kills its server repeatedly.
pub(crate) fn measure(run: &mut Run) {
    let mut server = Server::start(CONFIG);
    let busy = json!({"input": "stream: 100000 words, 60000 ms", "timeout_s": 3600}).to_string();
    assert_eq!(Connection::open(&server.address).post("/v1/jobs", &busy).status, 202);
    fill(&server.address);
    run.sheet.put("restart.store", server.store_bytes() as f64 / f64::from(1 << 20));
    run.sheet.put("restart.enqueue", rate(&server.address, CLIENTS, LOAD));
    let mut times = Vec::new();
    for _ in 0..RESTARTS {
        server = server.stop_and_restart();
        times.push(server.ready_ms);
    }
    put_times(run, "restart.clean", &mut times);
    times.clear();
    for _ in 0..RESTARTS {
        let address = server.address.clone();
        // Ends when the server is killed.
        let writing = std::thread::spawn(move || rate(&address, CLIENTS, Duration::from_secs(60)));
        std::thread::sleep(Duration::from_secs(1));
        server = server.crash_and_restart();
        writing.join().expect("clients");
        times.push(server.ready_ms);
    }
    put_times(run, "restart.killed", &mut times);
    if run.is_long {
        let bare = Bare::start();
        fill(&bare.address);
        run.sheet.put("restart.enqueue.bare", rate(&bare.address, CLIENTS, LOAD));
    } else {
        run.sheet.skip("restart.enqueue.bare", "its store must be filled first, which only `--long` does");
    }
}

fn put_times(run: &mut Run, key: &str, times: &mut [f64]) {
    let worst = times.iter().copied().fold(0.0, f64::max);
    run.sheet.put_noted(key, median(times), &format!("worst {}", Unit::Ms.show(worst)));
}

fn fill(address: &str) {
    let body = json!({"input": "x".repeat(INPUT_BYTES)}).to_string();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = Connection::open(address);
                while next.fetch_add(1, Ordering::Relaxed) < JOBS {
                    assert_eq!(connection.post("/v1/jobs", &body).status, 202);
                }
            });
        }
    });
}
