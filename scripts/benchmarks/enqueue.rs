//! Durable enqueue: jobs a second that are on disk, compared with the bare program under the same clients.

use crate::bare_program::BareProgram;
use crate::connection::Connection;
use crate::load::{calls_per_second, make_calls};
use crate::server::Server;
use crate::work::Work;
use crate::{Benchmark, agent_peers, peers};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time of one round.
const ROUND: Duration = Duration::from_secs(2);
/// Alternating rounds. The best of each side counts, so that other load on the machine spoils neither.
const ROUNDS: usize = 5;

/// Clients that fill a queue.
const FILLING_CLIENTS: usize = 64;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    for clients in [1, 64, 512] {
        let (mut ours, mut bare) = (Work::default(), Work::default());
        for _ in 0..ROUNDS {
            let server = Server::start("");
            let rate = || jobs_per_second(&server.address, clients, ROUND);
            ours = ours.max(Work::measure(server.process.0.id(), rate));
            drop(server);
            let program = BareProgram::start();
            let rate = || jobs_per_second(&program.address, clients, ROUND);
            bare = bare.max(Work::measure(program.process.0.id(), rate));
        }
        run.results.record_rate(&format!("enqueue.{clients}"), ours);
        run.results.record_rate(&format!("enqueue.{clients}.bare"), bare);
    }
    if run.with_peers {
        peers::measure_rate_with_script(&mut run.results, "bullmq", "enqueue.64.bullmq");
        agent_peers::measure_enqueue(run);
    }
}

/// Accepted jobs a second with this many clients, each with its own connection.
pub(crate) fn jobs_per_second(address: &str, clients: usize, span: Duration) -> f64 {
    // The jobs are due tomorrow, so that no worker takes part.
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let body = json!({"input": "x", "run_at": now_s + 86_400}).to_string();
    calls_per_second(
        clients,
        span,
        || Connection::open(address),
        |connection, _| match connection.post("/v1/jobs", &body).status {
            0 => None,
            status => Some(status == 202),
        },
    )
}

/// Adds jobs with an input of this many bytes to the queue.
pub(crate) fn fill(address: &str, jobs: usize, input_bytes: usize) {
    let body = json!({"input": "x".repeat(input_bytes)}).to_string();
    make_calls(
        FILLING_CLIENTS,
        jobs,
        || Connection::open(address),
        |connection, _| assert_eq!(connection.post("/v1/jobs", &body).status, 202),
    );
}
