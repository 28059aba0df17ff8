//! What a client waits for until it sees something: the first event of an idle server, and the first token beside a client
//! that asks the same provider directly.

use crate::server::Server;
use crate::upstream::{Answer, Upstream};
use crate::wire::Connection;
use crate::{fsync, median, show};
use serde_json::json;
use std::time::{Duration, Instant};

/// Calls that are measured each way.
const ROUNDS: usize = 100;
/// Between two calls: the server is idle when it is asked.
const PAUSE: Duration = Duration::from_millis(20);

/// Every figure of first things.
pub(crate) fn measure() {
    let fsync_ms = fsync();
    first_event(fsync_ms);
    first_token(fsync_ms);
}

fn first_event(fsync_ms: f64) {
    let server = Server::start("");
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let mut connection = Connection::open(&server.address);
            let began = Instant::now();
            connection.send("POST", "/v1/jobs?stream=true", "hello");
            connection.read_until("event: status");
            let taken = began.elapsed().as_secs_f64() * 1e3;
            std::thread::sleep(Duration::from_millis(60));
            taken
        })
        .collect();
    let goal = format!("≤ 5 ms + {fsync_ms:.1}");
    show("submit → first event of an idle server, p50", &format!("{:.1} ms", median(&mut times)), &goal);
}

/// Directly and through the server in turn, so that both see the same machine.
fn first_token(fsync_ms: f64) {
    let upstream = Upstream::start(|_, _| Answer::text("one two three"));
    let provider = upstream.url.trim_start_matches("http://").to_owned();
    let server =
        Server::start(&format!("default_model: m\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n", upstream.url));
    let question =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    // The provider's connection is kept, as the server keeps its own.
    let mut kept = Connection::open(&provider);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        kept.send("POST", "/v1/chat/completions", &question);
        kept.read_until("data: ");
        direct.push(began.elapsed().as_secs_f64() * 1e3);
        kept.read_until("0\r\n");
        std::thread::sleep(PAUSE);
        let mut client = Connection::open(&server.address);
        let began = Instant::now();
        client.send("POST", "/v1/jobs?stream=true", "hi");
        client.read_until("event: process_step");
        through.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    let (direct, through) = (median(&mut direct), median(&mut through));
    show("first token: asking the provider directly, p50", &format!("{direct:.2} ms"), "–");
    show(
        "  added by the durable job in between, p50",
        &format!("{:.2} ms", through - direct),
        &format!("≤ 5 ms + {fsync_ms:.1}"),
    );
}
