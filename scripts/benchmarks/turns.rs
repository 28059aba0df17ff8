//! Whole jobs with an instant model: jobs a second, compared with a peer under the same clients, and the
//! time of a tool call within a job.

use crate::provider::Provider;
use crate::server::Server;
use crate::upstream::Answer;
use crate::wire::Connection;
use crate::{Run, SPAN, median, peers};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients, and jobs at the same time.
const CLIENTS: usize = 64;
/// Duration for a slower peer, so that each client gets at least one answer.
const PEER_SPAN: Duration = Duration::from_secs(8);

/// Jobs a second.
pub(crate) fn measure(run: &mut Run) {
    let call = Answer::calls(&[("calculator", json!({"expression": "17*23"}))]);
    let provider = Provider::start(&call, &Answer::text("391"));
    let config = format!(
        "default_model: m\nworkers: {CLIENTS}\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n",
        provider.url
    );
    let server = Server::start(&config);
    let jobs = rate(
        &server.address,
        "/v1/jobs?wait=30",
        SPAN,
        "\"succeeded\"",
        |_| json!({"input": "What is 17*23?"}),
    );
    run.sheet.put("turns.jobs", jobs);
    drop(server);
    if run.with_peers {
        nanobot(run);
    }
}

/// The same for nanobot, which has no calculator.
fn nanobot(run: &mut Run) {
    let provider =
        Provider::start(&Answer::calls(&[("list_dir", json!({"path": "."}))]), &Answer::text("391"));
    let peer = match peers::Peer::start(&mut run.sheet, &peers::NANOBOT, &provider.url) {
        Ok(peer) => peer,
        Err(why) => return run.sheet.skip("turns.jobs.nanobot", &why),
    };
    let turns = rate(&peer.address, "/v1/chat/completions", PEER_SPAN, "391", |turn| {
        let messages = json!([{"role": "user", "content": "What is here?"}]);
        json!({"messages": messages, "session_id": format!("turn-{turn}")})
    });
    if turns > 0.0 {
        run.sheet.put("turns.jobs.nanobot", turns);
    } else {
        run.sheet.skip("turns.jobs.nanobot", "it answered no turn as expected; see target/peers/nanobot.log");
    }
}

/// Answers a second that contain the expected text. The body depends on the turn's number.
fn rate(
    address: &str,
    path: &str,
    span: Duration,
    wanted: &str,
    body: impl Fn(usize) -> Value + Sync,
) -> f64 {
    let (asked, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = Connection::open(address);
                while began.elapsed() < span {
                    let turn = asked.fetch_add(1, Ordering::Relaxed);
                    let reply = connection.post(path, &body(turn).to_string());
                    done.fetch_add(usize::from(reply.body.contains(wanted)), Ordering::Relaxed);
                }
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// A sandbox run through the whole server.
pub(crate) fn tool_calls(run: &mut Run) {
    let server = Server::start("");
    run.sheet.put("tools.javascript", tool_ms(&server, "execute_javascript", "1+1"));
    run.sheet.put("tools.python", tool_ms(&server, "execute_python", "print(1)"));
}

fn tool_ms(server: &Server, tool: &str, code: &str) -> f64 {
    let mut connection = Connection::open(&server.address);
    let prompt = format!("tool: {tool} {}", json!({"code": code}));
    let body = json!({"input": prompt}).to_string();
    let mut times: Vec<f64> = (0..60)
        .filter_map(|_| {
            let reply = connection.post("/v1/jobs?wait=30", &body);
            let job: Value = serde_json::from_str(&reply.body).ok()?;
            let path = format!("/v1/jobs/{}/events?follow=false", job["id"].as_str()?);
            let events = Connection::open(&server.address).get(&path).body;
            let after = events.split("execution_time\\\":").nth(1)?;
            after.split(['}', ',']).next()?.parse::<f64>().ok().map(|s| s * 1e3)
        })
        .collect();
    assert!(!times.is_empty(), "no run of {tool} told its time");
    median(&mut times)
}
