//! Latency until the first event of an idle server, and until the first token compared with a direct
//! request to the same provider.

use crate::connection::Connection;
use crate::provider::Provider;
use crate::results::Results;
use crate::server::Server;
use crate::upstream::Answer;
use crate::{Benchmark, median, peers, timed_ms};
use serde_json::json;
use std::time::Duration;

/// Measured calls each way.
const ROUNDS: usize = 100;
/// Warm-up calls before them.
const WARM_UP_ROUNDS: usize = 10;
/// The pause between two calls, so that the server is idle.
const PAUSE: Duration = Duration::from_millis(20);

/// A server between the client and the provider.
struct Intermediary<'a> {
    address: &'a str,
    path: &'a str,
    body: &'a str,
    /// The start of the line with its first token.
    token_prefix: &'a str,
}

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    first_event(&mut run.results);
    let answer = Answer::text("one two three");
    let provider = Provider::start(&answer, &answer);
    let completion =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let server = Server::start(&provider.config());
    let ours = Intermediary {
        address: &server.address,
        path: "/v1/jobs?stream=true",
        body: "hi",
        token_prefix: "event: process_step",
    };
    let (direct, through) = first_token_ms(&provider, &completion, &ours);
    run.results.record("first.direct", direct);
    run.results.record("first.added", through - direct);
    drop(server);
    if !run.with_peers {
        return;
    }
    let added = peers::RunningPeer::start(&mut run.results, &peers::LITELLM, &provider.url).map(|proxy| {
        let proxied = Intermediary {
            address: &proxy.address,
            path: "/v1/chat/completions",
            body: &completion,
            token_prefix: "data: ",
        };
        let (direct, through) = first_token_ms(&provider, &completion, &proxied);
        through - direct
    });
    run.results.record_or_skip("first.added.litellm", added);
}

fn first_event(results: &mut Results) {
    let server = Server::start("");
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let mut connection = Connection::open(&server.address);
            let time_ms = timed_ms(|| {
                connection.send("POST", "/v1/jobs?stream=true", "hello");
                connection.read_until("event: status");
            });
            std::thread::sleep(Duration::from_millis(60));
            time_ms
        })
        .collect();
    results.record("first.event", median(&mut times));
}

/// Medians of direct calls and of calls through the intermediary, in milliseconds. The calls alternate, so
/// that both see the same machine.
fn first_token_ms(provider: &Provider, completion: &str, intermediary: &Intermediary) -> (f64, f64) {
    let address = provider.url.trim_start_matches("http://");
    // The direct client keeps its connection, as the intermediary does.
    let mut kept = Connection::open(address);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        let direct_ms = timed_ms(|| {
            kept.send("POST", "/v1/chat/completions", completion);
            kept.read_until("data: ");
        });
        kept.read_until("0\r\n");
        std::thread::sleep(PAUSE);
        let mut client = Connection::open(intermediary.address);
        let through_ms = timed_ms(|| {
            client.send("POST", intermediary.path, intermediary.body);
            client.read_until(intermediary.token_prefix);
        });
        if round >= WARM_UP_ROUNDS {
            direct.push(direct_ms);
            through.push(through_ms);
        }
        std::thread::sleep(PAUSE);
    }
    (median(&mut direct), median(&mut through))
}
