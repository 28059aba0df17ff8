//! The figures of DESIGN §10 that one binary can show of itself: size, start, memory, enqueue, turns, first event,
//! sandbox (beside python3, bubblewrap and node). Ratios are taken within this one run; nothing here is a test.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot measure stops, prints what it found, and rounds"
)]

#[path = "../../tests/support/upstream.rs"]
#[allow(dead_code, reason = "the benchmark needs only some of the scripted answers")]
mod upstream;

mod sandbox;
mod server;
mod wire;

use serde_json::json;
use server::Server;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use upstream::{Answer, Upstream, tool_results};
use wire::Connection;

/// Time that each throughput figure runs.
const SPAN: Duration = Duration::from_secs(4);

fn main() {
    println!("{:<58} {:>16} {:>18}", "figure", "measured", "goal");
    size();
    start_and_memory();
    let fsync_ms = fsync();
    enqueue(1);
    enqueue(64);
    enqueue(512);
    turns();
    first_event(fsync_ms);
    sandbox::measure();
    tool_calls();
}

fn show(figure: &str, measured: &str, goal: &str) {
    println!("{figure:<58} {measured:>16} {goal:>18}");
}

fn size() {
    let bytes = std::fs::metadata(server::BINARY).expect("the release binary").len();
    show("release binary, static, everything in", &mib(bytes), "≤ 16 MB");
}

fn start_and_memory() {
    let mut times: Vec<f64> = (0..9).map(|_| Server::start("").ready_ms).collect();
    show("ready after start, p50 of 9 (empty store)", &format!("{:.1} ms", median(&mut times)), "≤ 40 ms");
    let server = Server::start("");
    std::thread::sleep(Duration::from_secs(2));
    show("idle resident memory after 2 s", &mib(server.resident_kb() * 1024), "≤ 12 MB");
}

/// What the disk itself takes: the floor under every durable figure.
fn fsync() -> f64 {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new_in(server::scratch()).expect("a file");
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&[0; 4096]).and_then(|()| file.as_file().sync_data()).expect("fdatasync");
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let p50 = median(&mut times);
    show("fdatasync of 4 KiB on this disk, p50", &format!("{p50:.2} ms"), "–");
    p50
}

fn enqueue(clients: usize) {
    // Jobs are due tomorrow: the figure is the queue's, not the workers'.
    let server = Server::start("");
    let tomorrow =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
            + 86_400;
    let body = json!({"input": "x", "run_at": tomorrow}).to_string();
    let accepted = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn_scoped(scope, || {
                    let mut connection = Connection::open(&server.address);
                    while began.elapsed() < SPAN {
                        let reply = connection.post("/v1/jobs", &body);
                        accepted.fetch_add(usize::from(reply.status == 202), Ordering::Relaxed);
                    }
                })
                .expect("a client");
        }
    });
    let rate = accepted.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    let goal = if clients == 64 { "≥ 7,500/s" } else { "–" };
    show(&format!("durable enqueue, {clients} clients"), &format!("{rate:.0}/s"), goal);
}

fn turns() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            Answer::calls(&[("calculator", json!({"expression": "17*23"}))])
        } else {
            Answer::text("391")
        }
    });
    let config =
        format!("default_model: m\nworkers: 64\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n", upstream.url);
    let server = Server::start(&config);
    let done = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let mut connection = Connection::open(&server.address);
                while began.elapsed() < SPAN {
                    let reply = connection.post("/v1/jobs?wait=30", r#"{"input":"What is 17*23?"}"#);
                    done.fetch_add(usize::from(reply.body.contains("\"succeeded\"")), Ordering::Relaxed);
                }
            });
        }
    });
    let rate = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    show("durable agent jobs, one tool call each, 64 at once", &format!("{rate:.0}/s"), "≥ 1,000/s");
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

/// The same through the whole server: what a job waits for.
fn tool_calls() {
    let server = Server::start("");
    let run = |tool: &str, code: &str| {
        let mut connection = Connection::open(&server.address);
        let prompt = format!("tool: {tool} {}", json!({"code": code}));
        let body = json!({"input": prompt}).to_string();
        let mut times: Vec<f64> = (0..60)
            .filter_map(|_| {
                let reply = connection.post("/v1/jobs?wait=30", &body);
                let text: serde_json::Value = serde_json::from_str(&reply.body).ok()?;
                let id = text["id"].as_str()?.to_owned();
                let events =
                    Connection::open(&server.address).get(&format!("/v1/jobs/{id}/events?follow=false")).body;
                let after = events.split("execution_time\\\":").nth(1)?;
                after.split(['}', ',']).next()?.parse::<f64>().ok().map(|s| s * 1e3)
            })
            .collect();
        median(&mut times)
    };
    let javascript = run("execute_javascript", "1+1");
    show("the same as a tool call in a job: JavaScript, p50", &format!("{javascript:.1} ms"), "–");
    let python = run("execute_python", "print(1)");
    show("the same as a tool call in a job: Python, p50", &format!("{python:.1} ms"), "–");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
