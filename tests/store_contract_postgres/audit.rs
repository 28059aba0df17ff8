//! The audit log of all nodes.

use super::fixture::Fixture;
use crate::support::store::{ANN, id};
use nanoclaw::domain::id::UserId;
use nanoclaw::ports::{AuditEntry, AuditRows, Store};
use serde_json::json;

fn entry(job: u128, time_ms: u64) -> AuditEntry {
    AuditEntry {
        time_ms,
        user: ANN,
        job: Some(id(job)),
        project: None,
        id_ref: format!("call_{time_ms}"),
        tool: "tool\0".into(),
        arguments: json!({"n": time_ms}),
        success: true,
        result: "{}".into(),
        duration_ms: 1,
        level: None,
        skipped: None,
    }
}

/// The entries of a job as a node reads them, and whether there are more.
fn times(node: &Fixture, user: UserId, job: u128, max: usize) -> (Vec<u64>, bool) {
    // Entries are stored before what is written after them.
    node.store.probe().wait().unwrap();
    let page = node.store.entries_of_job(user, id(job), max).unwrap();
    (page.entries.iter().map(|entry| entry.time_ms).collect(), page.has_more)
}

#[test]
fn p7_the_entries_of_all_nodes_are_read_at_each_for_their_owner_only() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    for n in 0..6 {
        one.store.append_entry(entry(u128::from(n % 2), n));
        one.store.probe().wait().unwrap();
        other.store.append_entry(AuditEntry { job: None, ..entry(0, n) });
    }
    for node in [&one, &other] {
        assert_eq!(times(node, ANN, 0, 100), (vec![0, 2, 4], false));
        assert_eq!(times(node, ANN, 0, 2), (vec![2, 4], true), "the newest");
        assert_eq!(times(node, UserId(ANN.0 + 1), 0, 100), (vec![], false), "another user's");
    }
    assert_eq!(other.store.entries_of_job(ANN, id(1), 1).unwrap().entries, [entry(1, 5)]);
    assert_eq!(one.sql("SELECT count(*) FROM audit"), "12");
}

#[test]
fn p8_the_oldest_entries_are_removed_beyond_the_limit() {
    let Some(fixture) = Fixture::new() else { return };
    for n in 0..50 {
        fixture.store.append_entry(entry(1, n));
    }
    fixture.store.probe().wait().unwrap();
    fixture.store.run_retention().unwrap();
    assert_eq!(times(&fixture, ANN, 1, 100), ((30..50).collect(), false), "audit_entries: 20");
}
