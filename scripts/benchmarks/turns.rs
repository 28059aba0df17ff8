//! Whole jobs with an instant model: jobs a second, compared with a peer under the same clients, and the
//! time of a tool call within a job.

use crate::bare_program::BareProgram;
use crate::connection::Connection;
use crate::latency::calculator_call;
use crate::load::calls_per_second;
use crate::provider::Provider;
use crate::server::Server;
use crate::upstream::Answer;
use crate::work::Work;
use crate::{Benchmark, SPAN, agent_peers, median, peers};
use serde_json::{Value, json};
use std::time::Duration;

/// Clients, and jobs at the same time.
pub(crate) const CLIENTS: usize = 64;
/// Alternating rounds of the server and the bare program. The best of each counts.
const ROUNDS: usize = 5;
/// Duration for a slower peer, so that each client gets at least one answer.
const PEER_SPAN: Duration = Duration::from_secs(8);

/// Measures jobs a second.
pub(crate) fn measure(run: &mut Benchmark) {
    let provider = Provider::start(&calculator_call(), &Answer::text("391"));
    let (mut ours, mut unchained, mut bare) = (Work::default(), Work::default(), Work::default());
    for _ in 0..ROUNDS {
        ours = ours.max(measure_jobs(&provider, ""));
        unchained = unchained.max(measure_jobs(&provider, "store: {chain_logs: false}"));
        let program = BareProgram::start();
        let rate = || answers_per_second(&program.address, "/v1/jobs?commits=3", SPAN, "\"id\"", |_| job());
        bare = bare.max(Work::measure(program.process.0.id(), rate));
    }
    run.results.record_rate("turns.jobs", ours);
    run.results.record_rate("turns.jobs.unchained", unchained);
    run.results.record_rate("turns.jobs.bare", bare);
    if run.with_peers {
        let jobs = nanobot(run);
        run.results.record_rate_or_skip("turns.jobs.nanobot", jobs);
        agent_peers::measure_turns(run);
    }
}

/// The rate of a new server with this configuration.
fn measure_jobs(provider: &Provider, config: &str) -> Work {
    let server = Server::start(&format!("workers: {CLIENTS}\n{config}\n{}", provider.config()));
    Work::measure(server.process.0.id(), || jobs_per_second(&server.address))
}

fn job() -> Value {
    json!({"input": "What is 17*23?"})
}

/// Jobs a second that a server of ours ends.
pub(crate) fn jobs_per_second(address: &str) -> f64 {
    answers_per_second(address, "/v1/jobs?wait=30", SPAN, "\"succeeded\"", |_| job())
}

/// The same for nanobot, which has no calculator.
fn nanobot(run: &mut Benchmark) -> Result<Work, String> {
    let call = Answer::calls(&[("list_dir", json!({"path": "."}))]);
    let provider = Provider::start(&call, &Answer::text("391"));
    let peer = peers::RunningPeer::start(&mut run.results, &peers::NANOBOT, &provider.url)?;
    let turns = Work::measure(peer.pid(), || {
        answers_per_second(&peer.address, "/v1/chat/completions", PEER_SPAN, "391", |turn| {
            let messages = json!([{"role": "user", "content": "What is here?"}]);
            json!({"messages": messages, "session_id": format!("turn-{turn}")})
        })
    });
    if turns.per_second > 0.0 {
        Ok(turns)
    } else {
        Err("it answered no turn as expected; see target/peers/nanobot.log".to_owned())
    }
}

/// Answers a second that contain the expected text. The body depends on the number of the turn.
fn answers_per_second(
    address: &str,
    path: &str,
    span: Duration,
    expected: &str,
    body: impl Fn(usize) -> Value + Sync,
) -> f64 {
    calls_per_second(
        CLIENTS,
        span,
        || Connection::open(address),
        |connection, turn| Some(connection.post(path, &body(turn).to_string()).body.contains(expected)),
    )
}

/// Measures a sandbox run through the whole server.
pub(crate) fn measure_tool_calls(run: &mut Benchmark) {
    let server = Server::start("");
    run.results.record("tools.javascript", tool_ms(&server, "execute_javascript", "1+1"));
    run.results.record("tools.python", tool_ms(&server, "execute_python", "print(1)"));
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
    assert!(!times.is_empty(), "no result of {tool} has an execution_time");
    median(&mut times)
}
