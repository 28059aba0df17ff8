//! What `/v1/nodes`, `nanoclaw nodes`, `/readyz`, `/metrics` and `nanoclaw doctor` say of the nodes.

use super::{Cluster, LEASE_S, paced};
use crate::support::{Ran, Server, against, command, wait_until};
use serde_json::{Value, json};

/// Runs a command with the configuration of these nodes.
fn run(cluster: &Cluster, arguments: &[&str]) -> Ran {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, data) = (dir.path().join("config.yml"), dir.path().join("data"));
    std::fs::write(&config, &cluster.config).expect("written");
    command(arguments)
        .arg("--config")
        .arg(config)
        .env("NANOCLAW_DATA_DIR", data)
        .output()
        .expect("it runs")
        .into()
}

fn nodes(server: &Server) -> Value {
    let reply = server.get("/v1/nodes");
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

/// The values of a field of all nodes.
fn fields(answer: &Value, name: &str) -> Vec<Value> {
    answer["data"].as_array().expect("nodes").iter().map(|node| node[name].clone()).collect()
}

/// The value of a series; 0 if there is none.
fn metric(server: &Server, series: &str) -> f64 {
    let text = server.get("/metrics").body;
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_default()
}

#[test]
fn nodes_are_listed_with_their_jobs_by_servers_and_by_the_command_until_they_are_taken_over() {
    let upstream = paced("piece by piece ", 2_000, 20);
    let Some(mut cluster) = Cluster::start(2, &against(&upstream, "workers: 2")) else { return };
    let ids: Vec<String> = (0..4).map(|n| cluster.nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    let (one, two) = cluster.pair();
    for id in &ids {
        assert!(one.stream(&format!("/v1/jobs/{id}/events"), 0).any(|event| event.data["type"] == "text"));
    }
    wait_until("both have published their catalogues", || {
        fields(&nodes(one), "tools").iter().chain(&fields(&nodes(two), "models")).all(Value::is_string)
    });
    let listed = nodes(one);
    assert_eq!(fields(&listed, "state"), ["live", "live"], "{listed}");
    assert_eq!(fields(&listed, "version"), [env!("CARGO_PKG_VERSION"); 2]);
    assert_eq!(fields(&listed, "jobs").iter().map(|jobs| jobs.as_u64().expect("jobs")).sum::<u64>(), 4);
    assert_eq!(fields(&listed, "is_self").iter().filter(|own| **own == true).count(), 1);
    assert_eq!(listed["warnings"], json!([]), "the same configuration");
    assert_eq!(listed["layout"].to_string(), cluster.schema.sql("SELECT max(step) FROM migrations"));
    wait_until("both are ready", || one.get("/readyz").status == 200 && two.get("/readyz").status == 200);

    let told = run(&cluster, &["nodes", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let told: Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!(fields(&told, "id"), fields(&listed, "id"), "the command is no node itself");
    assert_eq!(fields(&told, "is_self"), [false, false]);
    let table = run(&cluster, &["nodes"]);
    assert_eq!((table.code, table.out.lines().count()), (0, 3), "{} {}", table.out, table.err);

    wait_until("notifications and heartbeats are measured", || {
        metric(one, "nanoclaw_database_seconds_count{operation=\"notification\"}") >= 1.0
            && metric(two, "nanoclaw_database_seconds_count{operation=\"heartbeat\"}") >= 1.0
    });
    assert!((metric(one, "nanoclaw_nodes{state=\"live\"}") - 2.0).abs() < 0.1);
    assert!(metric(one, "nanoclaw_node_lease_seconds") > 0.0);
    cluster.nodes[1].kill();
    let one = &cluster.nodes[0];
    wait_until("the survivor runs alone", || fields(&nodes(one), "id").len() == 1);
    wait_until("it says so", || {
        metric(one, "nanoclaw_node_events_total{event=\"take_over\"}") >= 1.0
            && metric(one, "nanoclaw_nodes{state=\"live\"}") < 1.5
    });
}

#[test]
fn a_server_with_a_file_has_no_nodes() {
    let server = Server::start();
    let answer = nodes(&server);
    assert_eq!((&answer["data"], &answer["layout"]), (&json!([]), &Value::Null));
    let text = server.get("/metrics").body;
    assert!(!text.contains("nanoclaw_nodes") && !text.contains("nanoclaw_database_seconds"), "{text}");
    assert!(!server.get("/readyz").body.contains("\"node\""));
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads");
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.expect("a thread").path().join("comm")).unwrap_or_default()
    };
    let names: Vec<String> = threads.map(name).filter(|name| name.starts_with("store-")).collect();
    assert_eq!(names, [""; 0], "it has no thread of a database");
}

#[test]
fn nodes_with_different_models_are_warned_of() {
    let Some(mut cluster) = Cluster::start(1, "") else { return };
    let upstream = paced("x", 1, 1);
    let (url, name) = (cluster.schema.url(), cluster.schema.name());
    let store = format!("store: {{url: \"{url}\", lease_s: {LEASE_S}, node_name: {name}}}\n");
    cluster.nodes.push(Server::start_with(&format!("{}{store}", against(&upstream, ""))));
    let (one, two) = cluster.pair();
    let warning = "the nodes have different models";
    wait_until("the list says so", || nodes(one)["warnings"].to_string().contains(warning));
    wait_until("/readyz says so", || two.get("/readyz").body.contains(warning));
    assert_eq!(two.get("/readyz").status, 200, "it is degraded");
    wait_until("the log says so", || one.log().contains(warning));
    assert!(run(&cluster, &["nodes"]).err.contains(warning));
}

#[test]
fn the_doctor_checks_the_database_and_names_what_it_costs() {
    let Some(cluster) = Cluster::start(1, "") else { return };
    let ran = run(&cluster, &["doctor", "--json", "--no-models"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let check = |name: &str| {
        let checks = report["checks"].as_array().expect("checks");
        checks
            .iter()
            .find(|check| check["name"] == name)
            .cloned()
            .unwrap_or_else(|| panic!("{name}: {report}"))
    };
    for name in ["database", "database_layout", "replication", "database_clock", "connections", "nodes"] {
        assert_eq!(check(name)["ok"], true, "{report}");
    }
    let shared = check("shared_directory");
    assert_eq!((&shared["ok"], &shared["facts"]["path"]), (&json!(true), &Value::Null), "{shared}");
    assert!(shared["advice"].as_str().is_some_and(|advice| advice.contains("store.shared_dir")), "{shared}");
    let arrives = check("notifications");
    assert!(arrives["facts"]["took_ms"].is_u64() && arrives["facts"]["has_proxy"] == false, "{arrives}");
    // The server of these tests trades its durability for speed.
    let durability = check("durability");
    assert_eq!(durability["ok"], false);
    assert!(durability["found"].as_str().is_some_and(|found| found.contains("fsync = off")), "{durability}");
    assert!(report["checks"].as_array().is_some_and(|checks| checks.iter().all(|c| c["name"] != "store")));
}

#[test]
fn slow_commits_into_the_database_are_logged() {
    let Some(mut cluster) = Cluster::start(0, "") else { return };
    cluster.config = cluster.config.replace("store: {", "store: {slow_commit_ms: 1, ");
    let server = Server::start_with(&cluster.config);
    wait_until("a slow commit is logged", || {
        server.wait(&server.submit(&json!({"input": "hello"})));
        server.log().contains("slow commit; check the database")
    });
    assert!(server.log().contains("duration_ms=") && server.log().contains("writes="), "{}", server.log());
}

#[test]
fn the_doctor_says_why_a_database_cannot_be_reached() {
    let Some(mut cluster) = Cluster::start(0, "") else { return };
    cluster.config = "store: {url: \"host=/nowhere user=nobody\"}\n".to_owned();
    let ran = run(&cluster, &["doctor", "--json", "--no-models"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let database = checks.iter().find(|check| check["name"] == "database").expect("a check");
    assert!(database["ok"] == false && database["found"].to_string().contains("No such file"), "{database}");
}
