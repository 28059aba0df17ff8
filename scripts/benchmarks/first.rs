//! Latency until the first event of an idle server, and until the first token compared with a direct
//! request to the same provider.

use crate::provider::Provider;
use crate::server::Server;
use crate::sheet::Sheet;
use crate::upstream::Answer;
use crate::wire::Connection;
use crate::{Run, median, peers};
use serde_json::json;
use std::time::{Duration, Instant};

/// Measured calls each way.
const ROUNDS: usize = 100;
/// Warm-up calls before them.
const WARM: usize = 10;
/// The pause between two calls, so that the server is idle.
const PAUSE: Duration = Duration::from_millis(20);

/// A server between the client and the provider.
struct Between<'a> {
    address: &'a str,
    path: &'a str,
    body: &'a str,
    /// The start of the line with its first token.
    token: &'a str,
}

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Run) {
    first_event(&mut run.sheet);
    let said = Answer::text("one two three");
    let provider = Provider::start(&said, &said);
    let question =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let server =
        Server::start(&format!("default_model: m\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n", provider.url));
    let ours = Between {
        address: &server.address,
        path: "/v1/jobs?stream=true",
        body: "hi",
        token: "event: process_step",
    };
    let (direct, through) = first_token(&provider, &question, &ours);
    run.sheet.put("first.direct", direct);
    run.sheet.put("first.added", through - direct);
    drop(server);
    if !run.with_peers {
        return;
    }
    match peers::Peer::start(&mut run.sheet, &peers::LITELLM, &provider.url) {
        Ok(proxy) => {
            let address = &proxy.address;
            let proxied = Between { address, path: "/v1/chat/completions", body: &question, token: "data: " };
            let (direct, through) = first_token(&provider, &question, &proxied);
            run.sheet.put("first.added.litellm", through - direct);
        }
        Err(why) => run.sheet.skip("first.added.litellm", &why),
    }
}

fn first_event(sheet: &mut Sheet) {
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
    sheet.put("first.event", median(&mut times));
}

/// Medians of direct and indirect calls, in milliseconds. The calls alternate, so that both see the same
/// machine.
fn first_token(provider: &Provider, question: &str, between: &Between) -> (f64, f64) {
    let address = provider.url.trim_start_matches("http://");
    // The direct client keeps its connection, as the server between does.
    let mut kept = Connection::open(address);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for round in 0..WARM + ROUNDS {
        let began = Instant::now();
        kept.send("POST", "/v1/chat/completions", question);
        kept.read_until("data: ");
        let direct_ms = began.elapsed().as_secs_f64() * 1e3;
        kept.read_until("0\r\n");
        std::thread::sleep(PAUSE);
        let mut client = Connection::open(between.address);
        let began = Instant::now();
        client.send("POST", between.path, between.body);
        client.read_until(between.token);
        let through_ms = began.elapsed().as_secs_f64() * 1e3;
        if round >= WARM {
            direct.push(direct_ms);
            through.push(through_ms);
        }
        std::thread::sleep(PAUSE);
    }
    (median(&mut direct), median(&mut through))
}
