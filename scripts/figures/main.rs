//! The figures of DESIGN §10 that one binary can show of itself: size, start, memory, enqueue (beside a bare program and,
//! with `--peers`, `BullMQ`), turns, first event, streams, sandbox (beside python3, bubblewrap and node), and with `--long` the
//! restart of a large store. Ratios are taken within this one run; nothing here is a test.
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

mod bare;
mod enqueue;
mod first;
mod peers;
mod restart;
mod sandbox;
mod server;
mod streams;
mod wire;

use serde_json::json;
use server::Server;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use upstream::{Answer, Upstream, tool_results};
use wire::Connection;

/// Time that each throughput figure runs.
const SPAN: Duration = Duration::from_secs(4);

/// Every group of figures by the name that chooses it.
const GROUPS: [(&str, fn()); 9] = [
    ("size", size),
    ("start", start_and_memory),
    ("enqueue", enqueue::measure),
    ("turns", turns),
    ("first", first::measure),
    ("streams", streams::measure),
    ("sandbox", sandbox::measure),
    ("tools", tool_calls),
    ("restart", restart::measure),
];

/// `figures [--long] [--peers] [GROUP…]`: the groups that are named, else all but the long one.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [flag, file] = &arguments[..]
        && flag == bare::FLAG
    {
        return bare::serve(file.as_ref());
    }
    let has = |word: &str| arguments.iter().any(|given| given == word);
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let known = |name: &str| GROUPS.iter().any(|(group, _)| *group == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        panic!("no figures called '{name}'; there are {:?}", GROUPS.map(|(group, _)| group));
    }
    println!("{:<58} {:>20} {:>18}", "figure", "measured", "goal");
    for (group, measure) in GROUPS {
        let wanted = if names.is_empty() { group != "restart" || has("--long") } else { has(group) };
        if wanted {
            measure();
        }
        if wanted && group == "enqueue" && has("--peers") {
            peers::measure();
        }
    }
}

fn show(figure: &str, measured: &str, goal: &str) {
    println!("{figure:<58} {measured:>20} {goal:>18}");
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
pub(crate) fn fsync() -> f64 {
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

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
