//! Other servers that run agents or durable calls: zeroclaw, `LangGraph` and Restate, under the clients and
//! with the scripted model of our own figures.

use crate::connection::Connection;
use crate::latency::{JOBS, WARM_UP_JOBS};
use crate::load::calls_per_second;
use crate::peers::{HttpPeer, RunningPeer, measure_start};
use crate::provider::Provider;
use crate::upstream::{Act, Answer};
use crate::work::Work;
use crate::{Benchmark, SPAN, latency, timed_ms};
use serde_json::{Value, json};
use std::time::Duration;

/// The gateway of zeroclaw.
const ZEROCLAW: HttpPeer = HttpPeer { name: "zeroclaw", ready_path: "/health" };
/// `langgraph dev`.
const LANGGRAPH: HttpPeer = HttpPeer { name: "langgraph", ready_path: "/ok" };
/// Restate and its service.
const RESTATE: HttpPeer = HttpPeer { name: "restate", ready_path: "/bench/ready" };

/// Clients at the same time.
const CLIENTS: usize = 64;
/// Time of one round of durable enqueue, and the number of rounds.
const ENQUEUE_ROUND: Duration = Duration::from_secs(2);
const ENQUEUE_ROUNDS: usize = 3;
/// Duration for a slower peer, so that each client gets several answers.
const SLOW_SPAN: Duration = Duration::from_secs(8);
/// The text of the model's answer.
const ANSWER: &str = "391";

/// A request that succeeds with 2xx and this text.
struct Request {
    path: &'static str,
    body: Value,
    expected: &'static str,
}

impl Request {
    fn new(path: &'static str, body: Value, expected: &'static str) -> Self {
        Self { path, body, expected }
    }

    /// Successful answers a second to 64 clients, and the peer's processor time.
    fn work(&self, peer: &RunningPeer, span: Duration) -> Result<Work, String> {
        let body = self.body.to_string();
        let call = |connection: &mut Connection, _| {
            let reply = connection.post(self.path, &body);
            (reply.status != 0)
                .then(|| (200..300).contains(&reply.status) && reply.body.contains(self.expected))
        };
        let rate = || calls_per_second(CLIENTS, span, || Connection::open(&peer.address), call);
        let work = Work::measure(peer.pid(), rate);
        let failed = || format!("{} answered nothing as expected; see target/peers/*.log", self.path);
        if work.per_second > 0.0 { Ok(work) } else { Err(failed()) }
    }

    /// Times of one client's requests, one after the other, in milliseconds.
    fn times_ms(&self, address: &str) -> Result<Vec<f64>, String> {
        let (mut connection, body) = (Connection::open(address), self.body.to_string());
        let mut times = Vec::new();
        for turn in 0..WARM_UP_JOBS + JOBS {
            let mut reply = None;
            let time_ms = timed_ms(|| reply = Some(connection.post(self.path, &body)));
            let reply = reply.expect("a reply");
            if !reply.body.contains(self.expected) {
                return Err(format!("turn {turn} got status {}: {}", reply.status, reply.body));
            }
            times.push(time_ms);
        }
        Ok(times.split_off(WARM_UP_JOBS))
    }
}

/// Measures ready time and idle memory.
pub(crate) fn measure_starts(run: &mut Benchmark) {
    for peer in [&ZEROCLAW, &LANGGRAPH, &RESTATE] {
        measure_start(&mut run.results, peer);
    }
}

/// Measures accepted calls a second that are due tomorrow.
pub(crate) fn measure_enqueue(run: &mut Benchmark) {
    let delayed_call = Request::new("/bench/agent/send?delay=86400s", json!({"input": "x"}), "Accepted");
    let delayed_run = json!({"assistant_id": "agent", "after_seconds": 86_400, "input": {"messages": []}});
    let delayed_run = Request::new("/runs", delayed_run, "pending");
    for (key, peer, request) in
        [("enqueue.64.restate", &RESTATE, delayed_call), ("enqueue.64.langgraph", &LANGGRAPH, delayed_run)]
    {
        let best = RunningPeer::start(&mut run.results, peer, "http://127.0.0.1:9").and_then(|running| {
            let rounds = (0..ENQUEUE_ROUNDS).map(|_| request.work(&running, ENQUEUE_ROUND));
            rounds.reduce(|best, round| Ok(best?.max(round?))).unwrap_or_else(|| Err("no round".to_owned()))
        });
        run.results.record_rate_or_skip(key, best);
    }
}

/// Measures turns and runs a second.
pub(crate) fn measure_turns(run: &mut Benchmark) {
    let text = completion(&json!({"role": "assistant", "content": ANSWER}), "stop");
    let (plain, with_call) = (Provider::start(&text, &text), model_with_call());
    for (key, peer, provider, span, request) in [
        ("turns.jobs.zeroclaw", &ZEROCLAW, &plain, SPAN, plain_turn()),
        (
            "turns.jobs.restate",
            &RESTATE,
            &with_call,
            SLOW_SPAN,
            Request::new("/bench/agent", json!({"input": "What is 17*23?"}), ANSWER),
        ),
    ] {
        let work = RunningPeer::start(&mut run.results, peer, &provider.url)
            .and_then(|running| request.work(&running, span));
        run.results.record_rate_or_skip(key, work);
    }
    measure_graph_runs(run, "turns.jobs.langgraph");
}

/// Measures `LangGraph`'s runs a second.
pub(crate) fn measure_graph_runs(run: &mut Benchmark, key: &str) {
    let messages = json!([{"role": "user", "content": "What is 17*23?"}]);
    let body = json!({"assistant_id": "agent", "on_completion": "keep", "input": {"messages": messages}});
    let request = Request::new("/runs/wait", body, "\"content\":\"391\"");
    let provider = model_with_call();
    let work = RunningPeer::start(&mut run.results, &LANGGRAPH, &provider.url)
        .and_then(|running| request.work(&running, SLOW_SPAN));
    run.results.record_rate_or_skip(key, work);
}

/// A model for clients that do not ask for streams: one call of a calculator, then an answer.
pub(crate) fn model_with_call() -> Provider {
    let function = json!({"name": "calculator", "arguments": "{\"expression\":\"17*23\"}"});
    let calls = json!([{"id": "call_1", "type": "function", "function": function}]);
    let call = completion(&json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls");
    let text = completion(&json!({"role": "assistant", "content": ANSWER}), "stop");
    Provider::start(&call, &text)
}

/// Measures plain turns of one client, one after the other.
pub(crate) fn measure_latency(run: &mut Benchmark) {
    let text = completion(&json!({"role": "assistant", "content": ANSWER}), "stop");
    let provider = Provider::start(&text, &text);
    let times = RunningPeer::start(&mut run.results, &ZEROCLAW, &provider.url)
        .and_then(|running| plain_turn().times_ms(&running.address));
    match times {
        Ok(times_ms) => latency::record(&mut run.results, "latency.plain", ".zeroclaw", times_ms),
        Err(reason) => {
            run.results.skip("latency.plain.zeroclaw", &reason);
            run.results.skip("latency.plain_p99.zeroclaw", &reason);
        }
    }
}

fn plain_turn() -> Request {
    Request::new("/webhook", json!({"message": "What is 17*23?"}), ANSWER)
}

/// An answer that is not streamed: these clients do not ask for a stream.
fn completion(message: &Value, reason: &str) -> Answer {
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let body = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage,
    });
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Answer { status: 200, headers, acts: vec![Act::Raw(body.to_string())] }
}
