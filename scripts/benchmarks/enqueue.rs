//! Durable enqueue: jobs a second that are on disk, compared with the bare program under the same client.

use crate::bare::Bare;
use crate::server::Server;
use crate::wire::Connection;
use crate::{Run, peers};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time of one round.
const ROUND: Duration = Duration::from_secs(2);
/// Alternating rounds. The best of each side counts, so that other load on the machine spoils neither.
const ROUNDS: usize = 3;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Run) {
    for clients in [1, 64, 512] {
        let (mut ours, mut bare) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            let server = Server::start("");
            ours = ours.max(rate(&server.address, clients, ROUND));
            drop(server);
            bare = bare.max(rate(&Bare::start().address, clients, ROUND));
        }
        run.sheet.put(&format!("enqueue.{clients}"), ours);
        run.sheet.put(&format!("enqueue.{clients}.bare"), bare);
    }
    if run.with_peers {
        peers::number(&mut run.sheet, "bullmq", "enqueue.64.bullmq");
    }
}

/// Jobs a second with this many clients, each with its own connection.
pub(crate) fn rate(address: &str, clients: usize, span: Duration) -> f64 {
    // The jobs are due tomorrow, so that no worker takes part.
    let body = json!({"input": "x", "run_at": tomorrow()}).to_string();
    let accepted = AtomicUsize::new(0);
    let began = Instant::now();
    let client = || {
        let mut connection = Connection::open(address);
        while began.elapsed() < span {
            let status = connection.post("/v1/jobs", &body).status;
            if status == 0 {
                return;
            }
            accepted.fetch_add(usize::from(status == 202), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let small = std::thread::Builder::new().stack_size(128 * 1024);
            small.spawn_scoped(scope, client).expect("a client");
        }
    });
    accepted.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Tomorrow, in seconds since 1970.
fn tomorrow() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() + 86_400
}
