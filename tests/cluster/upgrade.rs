//! Nodes of two versions side by side: a newer layout of the database is feigned.

use super::Cluster;
use crate::support::{Ran, Server, command, wait_until};
use serde_json::json;

/// Tries to start a node that cannot start.
fn start_in_vain(cluster: &Cluster) -> Ran {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, data) = (dir.path().join("config.yml"), dir.path().join("data"));
    std::fs::write(&config, &cluster.config).expect("written");
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    serve.arg(config).arg("--data-dir").arg(data).output().expect("it runs").into()
}

/// The newest step that was made.
fn newest_step(cluster: &Cluster) -> i32 {
    cluster.schema.sql("SELECT max(step) FROM migrations").parse().expect("a number")
}

/// Feigns steps of a newer version.
fn add_step(cluster: &Cluster, step: i32, oldest_usable: i32) {
    let values = format!("({step}, '9.9.9', {oldest_usable})");
    cluster.schema.sql(&format!("INSERT INTO migrations (step, version, oldest_usable) VALUES {values}"));
}

#[test]
fn a_layout_that_is_one_step_newer_is_used_and_one_that_leaves_this_version_behind_stops_it() {
    let Some(mut cluster) = Cluster::start(1, "") else { return };
    let newest = newest_step(&cluster);
    add_step(&cluster, newest + 1, newest);
    cluster.nodes.push(Server::start_with(&cluster.config));
    let (one, two) = cluster.pair();
    let id = two.submit(&json!({"input": "side by side"}));
    assert_eq!(one.wait(&id)["status"], "succeeded");
    wait_until("both are ready", || one.get("/readyz").status == 200 && two.get("/readyz").status == 200);

    add_step(&cluster, newest + 2, newest + 1);
    let ran = start_in_vain(&cluster);
    assert!(ran.code != 0 && ran.err.contains("install the newer version"), "{}", ran.err);
    for node in [one, two] {
        wait_until("a running node stops working", || {
            let reply = node.get("/readyz");
            reply.status == 503 && reply.body.contains("install the newer version")
        });
    }
    let lost = "nanoclaw_node_events_total{event=\"lease_lost\"} 1";
    wait_until("the loss is counted", || one.get("/metrics").body.contains(lost));

    cluster.schema.sql(&format!("DELETE FROM migrations WHERE step > {newest}"));
    for node in [one, two] {
        wait_until("it works again", || node.get("/readyz").status == 200);
    }
    let id = one.submit(&json!({"input": "again"}));
    assert_eq!(two.wait(&id)["status"], "succeeded");
}

#[test]
fn a_new_version_does_not_start_beside_a_node_that_its_layout_leaves_behind() {
    let Some(cluster) = Cluster::start(1, "") else { return };
    let old = "(-1, 'ancient', '0.0.1', 1, clock_timestamp() + interval '1 hour')";
    cluster.schema.sql(&format!("INSERT INTO nodes (id, name, version, layout, lease_until) VALUES {old}"));
    let ran = start_in_vain(&cluster);
    assert!(ran.code != 0 && ran.err.contains("node 'ancient' of version 0.0.1 runs"), "{}", ran.err);
    assert_eq!(cluster.nodes[0].get("/readyz").status, 200, "the others go on");
    cluster.schema.sql("DELETE FROM nodes WHERE id = -1");
    let started = Server::start_with(&cluster.config);
    assert_eq!(started.get("/readyz").status, 200);
}

#[test]
fn a_job_whose_log_a_newer_version_has_written_waits_for_a_node_that_can_read_it() {
    let Some(mut cluster) = Cluster::start(1, "") else { return };
    let newest = newest_step(&cluster);
    add_step(&cluster, newest + 1, newest);
    let old = &cluster.nodes[0];
    let gate = old.submit(&json!({"input": "stream: 600 words, 100 ms"}));
    let id = old.submit(&json!({"input": "hello", "after": [&gate], "on_failure": "run"}));
    let mark = r#"'{"type": "mark_of_a_newer_version"}'"#;
    cluster
        .schema
        .sql(&format!("INSERT INTO records (job, seq, sub, body) VALUES ('{id}', 0, 9999, {mark})"));
    old.post(&format!("/v1/jobs/{gate}/cancel"), &json!({}));
    wait_until("it says what it needs", || {
        let reply = old.get("/readyz");
        reply.status == 503 && reply.body.contains("a newer version has written")
    });
    wait_until("it gives the job back", || old.get(&format!("/v1/jobs/{id}")).json()["status"] == "queued");
    assert!(old.get("/metrics").body.contains("nanoclaw_node_takes_jobs 0"));
    assert_eq!(old.get(&format!("/v1/jobs/{id}")).json()["attempt"], 0, "it costs no attempt");

    // Another node can read it.
    cluster.schema.sql("DELETE FROM records WHERE sub = 9999");
    cluster.nodes.push(Server::start_with(&cluster.config));
    let (old, new) = cluster.pair();
    assert_eq!(old.wait(&id)["status"], "succeeded");
    assert_eq!((old.get("/readyz").status, new.get("/readyz").status), (503, 200));
}
