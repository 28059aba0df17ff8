//! A large batch: the time until it is accepted, and the lines a second that end with an instant model.

use crate::connection::Connection;
use crate::provider::Provider;
use crate::server::Server;
use crate::upstream::Answer;
use crate::{Benchmark, timed_ms};
use serde_json::Value;
use std::fmt::Write;
use std::time::Instant;

/// Lines of the batch, the largest number of the default configuration.
const LINES: usize = 50_000;
/// Batches. The best acceptance counts; the last batch also runs to its end.
const ROUNDS: usize = 3;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    let answer = Answer::text("391");
    let provider = Provider::start(&answer, &answer);
    let mut lines = String::new();
    for number in 0..LINES {
        writeln!(lines, "{{\"custom_id\":\"{number:05}\",\"body\":{{\"input\":\"x\"}}}}").expect("memory");
    }
    let mut accepted_ms = f64::INFINITY;
    for round in 1..=ROUNDS {
        let server = Server::start(&format!("workers: 64\n{}", provider.config()));
        let mut connection = Connection::open(&server.address);
        let mut reply = String::new();
        let time_ms = timed_ms(|| reply = connection.post("/v1/batches", &lines).body);
        let accepted_at = Instant::now();
        accepted_ms = accepted_ms.min(time_ms);
        if round == ROUNDS {
            wait_for_end(&mut connection, &reply);
            run.results.record("batch.drained", LINES as f64 / accepted_at.elapsed().as_secs_f64());
        }
    }
    run.results.record("batch.accepted", accepted_ms);
}

fn wait_for_end(connection: &mut Connection, accepted: &str) {
    let batch: Value = serde_json::from_str(accepted).expect("JSON");
    let path = format!("/v1/batches/{}?wait=600", batch["id"].as_str().expect(accepted));
    let ended: Value = serde_json::from_str(&connection.get(&path).body).expect("JSON");
    assert_eq!(ended["request_counts"]["completed"].as_u64(), Some(LINES as u64), "{ended}");
}
