//! A node that is stopped (`SIGSTOP`) in the middle of a transaction.

use super::faults::signal;
use super::{Cluster, LEASE_S, paced};
use crate::support::{against, assert_whole, text_of, wait_until};
use std::time::{Duration, Instant};

/// How long the writers are kept inside of their transactions.
const LOCKED: Duration = Duration::from_secs(3);
/// How late the database may be on a busy machine.
const SLACK: Duration = Duration::from_secs(5);

#[test]
fn p4_locks_of_a_node_that_was_stopped_in_a_transaction_end_with_its_lease() {
    let upstream = paced("piece by piece ", 60, 20);
    let Some(cluster) = Cluster::start(2, &against(&upstream, "workers: 4")) else { return };
    let (one, two) = cluster.pair();
    let ids = cluster.running_jobs(8);
    let backends = |state: &str| {
        let name = cluster.schema.name();
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name =";
        cluster.schema.sql(&format!("{sql} 'nanoclaw {name}' AND {state}")).parse::<u32>().expect("a number")
    };
    // Writers of both nodes wait for this lock, so the stopped one is inside of a transaction. A group of
    // writes waits for 100 ms only and is taken apart then; one write waits on.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = "LOCK TABLE records IN EXCLUSIVE MODE";
            cluster.schema.sql(&format!("BEGIN; {lock}; SELECT pg_sleep({}); COMMIT", LOCKED.as_secs()));
        });
        let waits = "wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '300 ms'";
        wait_until("both nodes are in a transaction", || backends(waits) >= 2);
        signal("-STOP", two);
    });
    let stopped = Instant::now();
    let is_frozen = "state = 'idle in transaction' AND state_change < clock_timestamp() - interval '500 ms'";
    wait_until("the stopped node has an open transaction", || backends(is_frozen) >= 1);
    wait_until("the database has ended it", || backends(is_frozen) == 0);
    let took = stopped.elapsed();
    assert!(took < LOCKED + Duration::from_secs(LEASE_S) + SLACK, "{took:?}");
    for id in &ids {
        assert_eq!(one.wait(id)["status"], "succeeded");
    }
    signal("-CONT", two);
    for id in &ids {
        let events = two.events(id);
        assert_whole(&events);
        assert_eq!(text_of(&events), "piece by piece ".repeat(60));
    }
    wait_until("the stopped node is back", || two.get("/readyz").status == 200);
}
