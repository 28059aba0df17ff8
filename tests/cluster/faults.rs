//! The database or a node is away for a while.

use super::{Cluster, LEASE_S, paced};
use crate::support::database::{self, Schema};
use crate::support::sql_proxy::SqlProxy;
use crate::support::upstream::Upstream;
use crate::support::{Events, Server, against, assert_whole, text_of, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

/// Sends a signal to a server.
pub(super) fn signal(name: &str, server: &Server) {
    let sent = std::process::Command::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// A configuration whose database is behind a proxy.
fn behind(proxy: &SqlProxy, schema: &Schema, config: &str) -> String {
    format!("{config}\nstore: {{url: \"{}\", lease_s: {LEASE_S}}}\n", proxy.url(schema))
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_writes_nothing_more_for_its_jobs() {
    let upstream = paced("piece by piece ", 60, 20);
    let Some(cluster) = Cluster::start(2, &against(&upstream, "workers: 4")) else { return };
    let (one, two) = cluster.pair();
    let ids = cluster.running_jobs(8);
    signal("-STOP", two);
    std::thread::sleep(Duration::from_secs(LEASE_S + 3));
    signal("-CONT", two);
    for id in &ids {
        assert_eq!(one.wait(id)["status"], "succeeded");
        let events = one.events(id);
        assert_whole(&events);
        assert_eq!(text_of(&events), "piece by piece ".repeat(60));
        assert_eq!(events.iter().filter(|event| event.name == "done").count(), 1);
    }
    let (late, again) = ("SELECT count(*) FROM nodes WHERE lease_until > clock_timestamp()", "2");
    wait_until("the stopped node has a lease again", || cluster.schema.sql(late) == again);
    let id = two.submit(&json!({"input": "after"}));
    assert_eq!(two.wait(&id)["status"], "succeeded");
}

#[test]
fn p4_reads_that_hold_all_connections_cost_no_node_its_lease() {
    let upstream = paced("piece by piece ", 60, 20);
    let Some(cluster) = Cluster::start(1, &against(&upstream, "workers: 2")) else { return };
    let node = &cluster.nodes[0];
    let (schema, before) = (&cluster.schema, cluster.schema.sql("SELECT id FROM nodes"));
    let id = node.submit(&json!({"input": "go"}));
    std::thread::scope(|scope| {
        let lock = "LOCK TABLE schedules IN ACCESS EXCLUSIVE MODE";
        let sleep = format!("SELECT pg_sleep({})", 2 * LEASE_S);
        scope.spawn(move || schema.sql(&format!("BEGIN; {lock}; {sleep}; COMMIT")));
        let locked = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                      AND relation = 'schedules'::regclass";
        wait_until("the table is locked", || schema.sql(locked) == "1");
        // More than there are connections.
        (0..14).for_each(|_| drop(scope.spawn(|| node.get("/v1/schedules"))));
    });
    assert_eq!(schema.sql("SELECT id FROM nodes"), before, "{}", node.log());
    let job = node.wait(&id);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(1)), "{job}");
}

#[test]
fn connections_that_the_database_cuts_lose_nothing() {
    let upstream = paced("piece by piece ", 60, 15);
    let Some(cluster) = Cluster::start(2, &against(&upstream, "workers: 4")) else { return };
    let (one, two) = cluster.pair();
    let ids: Vec<String> = (0..8).map(|n| cluster.nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(150));
        cluster.schema.sql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'nanoclaw {}'",
            cluster.schema.name()
        ));
    }
    for id in &ids {
        let job = two.wait(id);
        assert_eq!(job["status"], "succeeded", "{job} {} {}", one.log(), two.log());
        let events = two.events(id);
        assert_whole(&events);
        assert_eq!(text_of(&events), "piece by piece ".repeat(60));
    }
    let again: &Server = two;
    assert_eq!(again.get("/readyz").status, 200);
}

#[test]
fn a_database_that_hangs_is_refused_soon_and_used_again_without_a_restart() {
    let Some(schema) = database::schema() else { return };
    let (proxy, upstream) = (SqlProxy::start(&schema), paced("piece by piece ", 100, 20));
    let server = Server::start_with(&behind(&proxy, &schema, &against(&upstream, "workers: 2")));
    let id = server.submit(&json!({"input": "go"}));
    let path = format!("/v1/jobs/{id}/events?format=delta");
    let mut events = server.stream(&path, 0);
    assert!(events.any(|event| event.data["type"] == "text"), "it runs");
    proxy.freeze(true);
    let began = Instant::now();
    std::thread::scope(|scope| {
        // More than there are threads for reads.
        let reads: Vec<_> = (0..40).map(|_| scope.spawn(|| server.get(&format!("/v1/jobs/{id}")))).collect();
        let posts: Vec<_> = (0..8).map(|_| scope.spawn(|| server.post("/v1/jobs", &body()))).collect();
        for reply in reads.into_iter().chain(posts).map(|asking| asking.join().expect("a reply")) {
            assert_eq!(reply.status, 503, "{}", reply.body);
            assert!(reply.header("retry-after").is_some(), "{reply:?}");
        }
    });
    assert!(began.elapsed() < Duration::from_secs(4 * LEASE_S), "{:?}", began.elapsed());
    let asked = Instant::now();
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.post("/v1/jobs", &body()).status, 503);
    assert_eq!(server.get("/readyz").status, 503);
    assert!(asked.elapsed() < Duration::from_secs(1), "at once: {:?}", asked.elapsed());
    proxy.freeze(false);
    wait_until("it takes jobs again", || server.post("/v1/jobs", &body()).status == 202);
    assert_eq!(server.wait(&id)["status"], "succeeded", "{}", server.log());
    let events: Vec<_> = events.collect();
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("done"), "the stream has stayed open");
    assert_whole(&server.events(&id));
    assert_eq!(text_of(&server.events(&id)), "piece by piece ".repeat(100));
}

#[test]
fn an_outage_of_the_database_is_no_crash_of_the_jobs_that_ran() {
    let Some(schema) = database::schema() else { return };
    let (proxy, upstream) = (SqlProxy::start(&schema), paced("piece by piece ", 60, 20));
    let config = behind(&proxy, &schema, &against(&upstream, "workers: 4"));
    let nodes = [Server::start_with(&config), Server::start_with(&config)];
    let ids: Vec<String> = (0..8).map(|n| nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    wait_until("all run", || schema.sql("SELECT count(*) FROM jobs WHERE status = 'running'") == "8");
    proxy.freeze(true);
    std::thread::sleep(Duration::from_secs(2 * LEASE_S));
    proxy.freeze(false);
    for id in &ids {
        assert_eq!(nodes[0].wait(id)["status"], "succeeded");
        let events = nodes[1].events(id);
        assert_whole(&events);
        assert_eq!(text_of(&events), "piece by piece ".repeat(60));
        let resumed: Vec<_> = events.iter().filter(|event| event.data["reason"].is_string()).collect();
        assert!(resumed.iter().any(|event| event.data["reason"] == "resumed after the database was away"));
        assert!(!resumed.iter().any(|event| event.data["reason"] == "resumed after a crash"), "{resumed:?}");
    }
}

fn body() -> serde_json::Value {
    json!({"input": "more"})
}

/// A node that runs a job which writes often, and a client that follows it.
fn working(schema: &Schema) -> (SqlProxy, Upstream, Server, Events) {
    let (proxy, upstream) = (SqlProxy::start(schema), paced("piece by piece ", 400, 20));
    let config = behind(&proxy, schema, &against(&upstream, "limits: {drain_s: 1}"));
    let server = Server::start_with(&config);
    let id = server.submit(&json!({"input": "go"}));
    let mut events = server.stream(&format!("/v1/jobs/{id}/events?format=delta"), 0);
    assert!(events.any(|event| event.data["type"] == "text"), "it runs");
    (proxy, upstream, server, events)
}

#[test]
fn a_node_whose_database_hangs_stops_when_it_is_asked_to() {
    let Some(schema) = database::schema() else { return };
    let (proxy, _upstream, mut server, _events) = working(&schema);
    proxy.freeze(true);
    std::thread::sleep(Duration::from_millis(100));
    signal("-TERM", &server);
    assert!(server.wait_for_exit().success(), "{}", server.log());
}

#[test]
fn a_node_whose_database_is_away_stops_when_it_is_asked_to() {
    let Some(schema) = database::schema() else { return };
    let (proxy, _upstream, mut server, _events) = working(&schema);
    proxy.close();
    // The job's next write waits for the database.
    std::thread::sleep(Duration::from_secs(1));
    signal("-TERM", &server);
    assert!(server.wait_for_exit().success(), "{}", server.log());
}
