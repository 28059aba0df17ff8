//! Latency until the first event of an idle server, and until the first token compared with a direct
//! request to the same provider.

use crate::connection::Connection;
use crate::provider::Provider;
use crate::server::Server;
use crate::upstream::Answer;
use crate::{Benchmark, median, peers, percentile, timed_ms};
use serde_json::json;
use std::time::Duration;

/// Measured calls each way.
const ROUNDS: usize = 500;
/// The same for a slower peer.
const PEER_ROUNDS: usize = 100;
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
    let server = Server::start("");
    let first_event = first_event_ms(&server.address, 50, Duration::from_millis(60));
    run.results.record("first.event", first_event);
    drop(server);
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
    let times = first_token_ms(&provider, &completion, &ours, ROUNDS);
    run.results.record("first.direct", times.direct);
    run.results.record("first.added", times.added);
    run.results.record("first.added_p99", times.added_p99);
    measure_openai_routes(run, &provider, &server.address);
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
        first_token_ms(&provider, &completion, &proxied, PEER_ROUNDS)
    });
    let (median, p99) =
        (added.as_ref().map(|times| times.added), added.as_ref().map(|times| times.added_p99));
    for key in ["first.added", "first.chat", "first.chat_unstored"] {
        run.results.record_or_skip(&format!("{key}.litellm"), median.map_err(String::clone));
        run.results.record_or_skip(&format!("{key}_p99.litellm"), p99.map_err(String::clone));
    }
}

/// The same requests through `OpenAI`'s routes of this server, whose answers stay and do not stay.
fn measure_openai_routes(run: &mut Benchmark, provider: &Provider, address: &str) {
    let user = json!([{"role": "user", "content": "hi"}]);
    for (key, is_stored) in [("", true), ("_unstored", false)] {
        let chat = json!({"model": "m", "stream": true, "store": is_stored, "messages": user});
        let response = json!({"model": "m", "stream": true, "store": is_stored, "input": user});
        for (route, path, body, token_prefix) in [
            ("chat", "/v1/chat/completions", &chat, "data: "),
            ("responses", "/v1/responses", &response, "event: response.output_text.delta"),
        ] {
            let ours = Intermediary { address, path, body: &body.to_string(), token_prefix };
            let times = first_token_ms(provider, &chat.to_string(), &ours, ROUNDS);
            run.results.record(&format!("first.{route}{key}"), times.added);
            run.results.record(&format!("first.{route}{key}_p99"), times.added_p99);
        }
    }
}

/// The median time from a submission on a new connection to the first event, in milliseconds.
pub(crate) fn first_event_ms(address: &str, samples: usize, pause: Duration) -> f64 {
    let sample = |_| {
        let mut connection = Connection::open(address);
        let time_ms = timed_ms(|| {
            connection.send("POST", "/v1/jobs?stream=true", "hello");
            connection.read_until("event: status");
        });
        std::thread::sleep(pause);
        time_ms
    };
    median(&mut (0..samples).map(sample).collect::<Vec<f64>>())
}

/// Times until the first token, in milliseconds.
struct FirstToken {
    /// Median of the direct calls.
    direct: f64,
    /// Median of the calls through the intermediary, less `direct`.
    added: f64,
    /// Their 99th percentile, less `direct`.
    added_p99: f64,
}

/// Calls directly and through the intermediary. The calls alternate, so that both see the same machine.
fn first_token_ms(
    provider: &Provider,
    completion: &str,
    intermediary: &Intermediary,
    rounds: usize,
) -> FirstToken {
    let address = provider.url.trim_start_matches("http://");
    // The direct client keeps its connection, as the intermediary does.
    let mut kept = Connection::open(address);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP_ROUNDS + rounds {
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
    let direct = median(&mut direct);
    FirstToken {
        direct,
        added: median(&mut through) - direct,
        added_p99: percentile(&mut through, 99) - direct,
    }
}
