//! Whole jobs of one client, one after the other, with an instant model: the time that each job pays. The
//! bare program shows the time of the commits alone.

use crate::bare_program::BareProgram;
use crate::connection::Connection;
use crate::provider::Provider;
use crate::results::Results;
use crate::server::Server;
use crate::upstream::Answer;
use crate::{Benchmark, agent_peers, percentile, timed_ms};
use serde_json::json;

/// Measured jobs of each kind.
pub(crate) const JOBS: usize = 1_000;
/// Jobs to warm up.
pub(crate) const WARM_UP_JOBS: usize = 100;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    let (answer, call) = (Answer::text("391"), calculator_call());
    measure_kind(&mut run.results, "latency.plain", &Provider::start(&answer, &answer), 2);
    measure_kind(&mut run.results, "latency.tool", &Provider::start(&call, &answer), 3);
    if run.with_peers {
        agent_peers::measure_latency(run);
    }
}

/// An answer of a model: one call of the calculator.
pub(crate) fn calculator_call() -> Answer {
    Answer::calls(&[("calculator", json!({"expression": "17*23"}))])
}

/// Jobs against this model, and the bare program with this many commits a job.
fn measure_kind(results: &mut Results, key: &str, provider: &Provider, commits: usize) {
    let server = Server::start(&provider.config());
    let times = job_times_ms(&server.address, "/v1/jobs?wait=30", "\"succeeded\"");
    record(results, key, "", times);
    drop(server);
    let path = format!("/v1/jobs?commits={commits}");
    record(results, key, ".bare", job_times_ms(&BareProgram::start().address, &path, "\"id\""));
}

/// Records the median and the 99th percentile.
pub(crate) fn record(results: &mut Results, key: &str, peer: &str, mut times_ms: Vec<f64>) {
    results.record(&format!("{key}{peer}"), percentile(&mut times_ms, 50));
    results.record(&format!("{key}_p99{peer}"), percentile(&mut times_ms, 99));
}

fn job_times_ms(address: &str, path: &str, expected: &str) -> Vec<f64> {
    let mut connection = Connection::open(address);
    let body = json!({"input": "What is 17*23?"}).to_string();
    let run = |_| {
        timed_ms(|| {
            let reply = connection.post(path, &body);
            assert!(reply.body.contains(expected), "{} {}", reply.status, reply.body);
        })
    };
    let mut times_ms: Vec<f64> = (0..WARM_UP_JOBS + JOBS).map(run).collect();
    times_ms.split_off(WARM_UP_JOBS)
}
