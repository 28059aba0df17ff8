//! The server against the number of queued jobs, and against the size of its store.

use super::curve::{Curve, Measure, Point, whole};
use crate::connection::Connection;
use crate::enqueue::{fill, jobs_per_second};
use crate::first_token::first_event_ms;
use crate::server::Server;
use crate::unit::Unit;
use crate::{median, timed_ms};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

const MEASURES: &[Measure] = &[
    Measure { name: "durable enqueue, 64 clients", unit: Unit::PerSecond },
    Measure { name: "start of the next job, p50", unit: Unit::Ms },
    Measure { name: "submit to first event, p50", unit: Unit::Ms },
    Measure { name: "memory of the server", unit: Unit::Mib },
    Measure { name: "ready after kill -9", unit: Unit::Ms },
];

pub(super) const QUEUE: Curve = Curve {
    key: "queue",
    title: "Queued jobs",
    x: "queued jobs",
    points: &[1e3, 1e4, 1e5, 1e6],
    long_points: &[],
    measures: MEASURES,
    method: "Each point is a new server with one worker, which a job keeps busy; all others wait in the queue. \
        Start: a job of the highest priority is queued, the running job is cancelled; from that request to \
        the event `running` of the next job. First event: from POST /v1/jobs?stream=true on a new connection. \
        Memory: VmRSS after the filling. Enqueue: 1 s, which adds jobs to the queue. Ready: then kill -9, and \
        from the next start to 200 from /readyz.",
    measure: queue,
};

pub(super) const STORE: Curve = Curve {
    key: "store",
    title: "Size of the store",
    x: "GB of queued jobs",
    points: &[0.1, 1.0],
    long_points: &[10.0],
    measures: MEASURES,
    method: "The same, with jobs of 60 kB each.",
    measure: store,
};

/// The input of a job of [`STORE`], in bytes.
const LARGE_INPUT_BYTES: usize = 60_000;
/// Samples of each latency.
const SAMPLES: usize = 30;
/// The pause between two samples.
const PAUSE: Duration = Duration::from_millis(20);
/// Duration of the enqueue figure.
const ENQUEUE: Duration = Duration::from_secs(1);
const CONFIG: &str = "workers: 1\nlimits: {queue_jobs: 100000000, drain_s: 0}\n";
/// The body of a job that runs until it is cancelled. It starts before all others.
const ENDLESS_JOB: &str = r#"{"input": "stream: 100000 words, 60000 ms", "timeout_s": 3600, "priority": 0}"#;

fn queue(jobs: f64) -> Point {
    Point { x: jobs, values: filled(whole(jobs), 1) }
}

fn store(gigabytes: f64) -> Point {
    let jobs = whole(gigabytes * 1e9 / LARGE_INPUT_BYTES as f64);
    Point { x: gigabytes, values: filled(jobs, LARGE_INPUT_BYTES) }
}

/// The measures of a server with these queued jobs.
fn filled(jobs: usize, input_bytes: usize) -> Vec<f64> {
    let server = Server::start(CONFIG);
    let mut running = submit(&mut Connection::open(&server.address), ENDLESS_JOB);
    fill(&server.address, jobs, input_bytes);
    // The filling may take longer than the server keeps an idle connection.
    let mut connection = Connection::open(&server.address);
    let memory = server.process.resident_mib();
    let first = first_event_ms(&server.address, SAMPLES, PAUSE);
    let mut starts: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let (next, time_ms) = start_next(&server.address, &mut connection, &running);
            running = next;
            std::thread::sleep(PAUSE);
            time_ms
        })
        .collect();
    let enqueue = jobs_per_second(&server.address, 64, ENQUEUE);
    let ready = server.restart(Signal::KILL).ready_ms;
    vec![enqueue, median(&mut starts), first, memory, ready]
}

/// Queues a job, cancels the running one, and waits until the queued one runs. Returns its id, and the time
/// from the cancellation to its start in milliseconds.
fn start_next(address: &str, connection: &mut Connection, running: &str) -> (String, f64) {
    let next = submit(connection, ENDLESS_JOB);
    let mut events = Connection::open(address);
    events.send("GET", &format!("/v1/jobs/{next}/events"), "");
    events.read_until("event: status"); // queued
    let time_ms = timed_ms(|| {
        connection.send("POST", &format!("/v1/jobs/{running}/cancel"), "{}");
        events.read_until("event: status"); // running
    });
    let reply = connection.read();
    assert!(reply.status < 300, "{}", reply.body);
    (next, time_ms)
}

/// Submits a job and returns its id.
pub(super) fn submit(connection: &mut Connection, body: &str) -> String {
    let reply = connection.post("/v1/jobs", body);
    assert_eq!(reply.status, 202, "{}", reply.body);
    id_of(&reply.body, "/id")
}

/// The text or number at a place of a response.
pub(super) fn id_of(body: &str, pointer: &str) -> String {
    let json: Value = serde_json::from_str(body).expect("JSON");
    match json.pointer(pointer) {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => panic!("no {pointer} in {}", json!(body)),
    }
}
