//! Ready again after `kill -9`, in the middle of writes, over a store of 1 GB with 100,000 jobs in its queue (`--long`).

use crate::bare::Bare;
use crate::enqueue::rate;
use crate::server::Server;
use crate::wire::Connection;
use crate::{median, mib, show};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Jobs that wait.
const JOBS: usize = 100_000;
/// Each one's input, bytes.
const INPUT_BYTES: usize = 7 * 1024;
/// Clients that fill the store, and that write when it is killed.
const CLIENTS: usize = 64;
/// Crashes.
const CRASHES: usize = 5;
/// One worker, which a first job keeps busy: all others stay queued.
const CONFIG: &str = "workers: 1\n";

/// Fills a store and kills its server, again and again.
pub(crate) fn measure() {
    let mut server = Server::start(CONFIG);
    let busy = json!({"input": "stream: 100000 words, 60000 ms", "timeout_s": 3600}).to_string();
    assert_eq!(Connection::open(&server.address).post("/v1/jobs", &busy).status, 202);
    fill(&server.address);
    show("a store with 100,000 queued jobs", &mib(server.store_bytes()), "1 GB");
    let under_load = rate(&server.address, CLIENTS, Duration::from_secs(4));
    show("  durable enqueue into it, 64 clients", &format!("{under_load:.0}/s"), "≥ 0.5 × bare");
    let bare = Bare::start();
    fill(&bare.address);
    let peer = rate(&bare.address, CLIENTS, Duration::from_secs(4));
    drop(bare);
    show(
        "  beside it: bare hyper + redb, as full",
        &format!("{peer:.0}/s, ours {:.2} ×", under_load / peer),
        "–",
    );
    let mut times = Vec::new();
    for _ in 0..CRASHES {
        let address = server.address.clone();
        // Ends when its server is killed in the middle of its requests.
        let writing = std::thread::spawn(move || rate(&address, CLIENTS, Duration::from_secs(60)));
        std::thread::sleep(Duration::from_secs(1));
        server = server.crash_and_restart();
        writing.join().expect("clients");
        times.push(server.ready_ms);
    }
    let worst = times.iter().copied().fold(0.0, f64::max);
    let figure = format!("{:.1} / {worst:.1} ms", median(&mut times));
    show("  ready after kill -9 under load, p50 / worst of 5", &figure, "≤ 40 ms");
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
