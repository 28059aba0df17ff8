//! Several servers that share a database: what one accepts the others know, and what one was doing when it
//! died the others finish. Skipped, with a message, where `PostgreSQL` is not installed.

mod faults;
mod files;
mod limits;
mod pooler;
mod status;
mod stopped_node;
mod upgrade;

use crate::accounts::first_account::codes;
use crate::support::database::{self, Schema};
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Event, Server, against, assert_whole, text_of, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Lease of the nodes, seconds: short, so that a take-over is soon.
const LEASE_S: u64 = 3;

/// Servers with the same configuration, each with a directory of its own.
struct Cluster {
    nodes: Vec<Server>,
    config: String,
    schema: Schema,
}

impl Cluster {
    /// Starts so many nodes at once; `None` without `PostgreSQL`.
    fn start(nodes: usize, config: &str) -> Option<Self> {
        let schema = database::schema()?;
        let (url, name) = (schema.url(), schema.name());
        let config = format!("{config}\nstore: {{url: \"{url}\", lease_s: {LEASE_S}, node_name: {name}}}\n");
        let nodes = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..nodes).map(|_| scope.spawn(|| Server::start_with(&config))).collect();
            starting.into_iter().map(|node| node.join().expect("a node")).collect()
        });
        Some(Self { nodes, config, schema })
    }

    /// So many jobs, accepted by both of two nodes in turn, whose answers have begun.
    fn running_jobs(&self, jobs: usize) -> Vec<String> {
        let (one, _) = self.pair();
        let ids: Vec<String> = (0..jobs).map(|n| self.nodes[n % 2].submit(&json!({"input": "go"}))).collect();
        for id in &ids {
            let mut events = one.stream(&format!("/v1/jobs/{id}/events?format=delta"), 0);
            assert!(events.any(|event| event.data["type"] == "text"), "it runs");
        }
        ids
    }

    /// The first two nodes.
    fn pair(&self) -> (&Server, &Server) {
        let [one, two, ..] = &self.nodes[..] else { panic!("two nodes") };
        (one, two)
    }
}

fn paced(text: &'static str, times: usize, pace_ms: u64) -> Upstream {
    Upstream::start(move |_, _| Answer::paced_text(&text.repeat(times), Duration::from_millis(pace_ms)))
}

#[test]
fn nodes_that_start_at_once_make_the_tables_once_and_have_numbers_of_their_own() {
    let Some(cluster) = Cluster::start(3, "") else { return };
    let nodes = cluster.schema.sql("SELECT count(*), count(DISTINCT id) FROM nodes");
    assert_eq!(nodes, "3|3");
    for node in &cluster.nodes {
        assert_eq!(node.get("/readyz").status, 200, "{}", node.log());
    }
}

#[test]
fn nodes_that_start_at_once_print_the_same_setup_link() {
    let Some(cluster) = Cluster::start(3, "auth_mode: multi\n") else { return };
    let printed = |node: &Server| {
        wait_until("the node prints the set-up link", || codes(&node.log()).len() == 1);
        codes(&node.log())
    };
    let shown: Vec<_> = cluster.nodes.iter().map(printed).collect();
    assert_eq!(shown, vec![shown[0].clone(); 3]);
    let account = json!({"username": "ann", "password": "correct horse", "invite": shown[0][0]});
    let made = cluster.nodes[2].post("/api/auth/register", &account);
    assert_eq!(made.status, 200, "{}", made.body);
    for node in &cluster.nodes {
        assert_eq!(node.get("/api/auth/mode").json()["data"]["has_accounts"], true);
    }
}

#[test]
fn p1_a_job_accepted_at_one_node_is_found_at_every_other_at_once() {
    let Some(cluster) = Cluster::start(2, "") else { return };
    let (one, two) = cluster.pair();
    for n in 0..100 {
        let id = one.submit(&json!({"input": format!("job {n}")}));
        assert_eq!(two.get(&format!("/v1/jobs/{id}")).status, 200);
    }
}

#[test]
fn p2_a_stream_at_another_node_has_every_event_once() {
    let upstream = paced("piece by piece ", 40, 5);
    let Some(cluster) = Cluster::start(2, &against(&upstream, "")) else { return };
    let (one, two) = cluster.pair();
    let id = one.submit(&json!({"input": "go"}));
    let path = format!("/v1/jobs/{id}/events?format=delta");
    // A reader that hops from node to node.
    let mut seen: Vec<Event> = Vec::new();
    for hop in 0.. {
        let node = if hop % 2 == 0 { two } else { one };
        let after = seen.last().map_or(0, |event| event.seq);
        seen.extend(node.stream(&path, after).take(7));
        if seen.last().is_some_and(|event| event.name == "done") {
            break;
        }
    }
    assert_whole(&seen);
    assert_eq!(text_of(&seen), "piece by piece ".repeat(40));
    assert_eq!(seen, one.events(&id));
}

#[test]
fn one_idempotency_key_at_two_nodes_makes_one_job() {
    let Some(cluster) = Cluster::start(2, "") else { return };
    let submit = |node: &Server, key: &str| -> Value {
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        let reply = node.request(("POST", "/v1/jobs"), &headers, r#"{"input": "once"}"#);
        assert!(reply.status < 300, "{}", reply.body);
        reply.json()["id"].clone()
    };
    for round in 0..20 {
        let key = format!("key-{round}");
        let ids: BTreeSet<String> = std::thread::scope(|scope| {
            let racing: Vec<_> = (0..6)
                .map(|n| {
                    let (node, key) = (&cluster.nodes[n % 2], &key);
                    scope.spawn(move || submit(node, key).to_string())
                })
                .collect();
            racing.into_iter().map(|racer| racer.join().expect("a reply")).collect()
        });
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
}

#[test]
fn jobs_of_a_conversation_run_in_turn_on_all_nodes() {
    let upstream = Upstream::start(|_, _| Answer::paced_text("an answer", Duration::from_millis(5)));
    let Some(cluster) = Cluster::start(2, &against(&upstream, "")) else { return };
    let ids: Vec<String> = (0..12)
        .map(|n| {
            let body = json!({"input": format!("turn {n}"), "conversation_id": "talk"});
            cluster.nodes[n % 2].submit(&body)
        })
        .collect();
    let (one, two) = cluster.pair();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(two.wait(id)["status"], "succeeded");
        // The model has read all turns before this one.
        let request = &upstream.requests()[n];
        let messages = request["messages"].as_array().map_or(0, Vec::len);
        assert!(messages > 2 * n, "turn {n} has {messages} messages");
    }
    assert_eq!(one.get("/v1/jobs?limit=1").status, 200);
}

#[test]
fn a_job_is_cancelled_at_a_node_that_does_not_run_it() {
    let upstream = paced("slow ", 400, 20);
    let Some(cluster) = Cluster::start(2, &against(&upstream, "workers: 1")) else { return };
    let (one, two) = cluster.pair();
    let ids = [one.submit(&json!({"input": "a"})), two.submit(&json!({"input": "b"}))];
    for id in &ids {
        let running = one.stream(&format!("/v1/jobs/{id}/events"), 0).any(|e| e.data["status"] == "running");
        assert!(running);
    }
    for (id, node) in ids.iter().zip([two, one]).chain(ids.iter().zip([one, two])) {
        assert!(node.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).status < 300);
    }
    for id in &ids {
        assert_eq!(two.wait(id)["status"], "cancelled");
    }
}

#[test]
fn p3_p4_the_other_node_finishes_what_a_killed_one_was_doing() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            Answer::calls(&[("calculator", json!({"expression": "17*23"}))])
        } else {
            Answer::paced_text(&"piece by piece ".repeat(60), Duration::from_millis(20))
        }
    });
    let Some(mut cluster) = Cluster::start(2, &against(&upstream, "workers: 4")) else { return };
    let ids: Vec<String> = (0..8).map(|n| cluster.nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    for id in &ids {
        let mut events = cluster.nodes[0].stream(&format!("/v1/jobs/{id}/events?format=delta"), 0);
        assert!(events.any(|event| event.data["type"] == "text"), "it runs");
    }
    cluster.nodes[1].kill();
    let killed = Instant::now();
    let survivor = &cluster.nodes[0];
    let mut resumed = 0;
    for id in &ids {
        let job = survivor.wait(id);
        assert_eq!(job["status"], "succeeded", "{job}");
        let events = survivor.events(id);
        assert_whole(&events);
        assert_eq!(text_of(&events), "piece by piece ".repeat(60));
        assert_eq!(
            events.iter().filter(|event| event.data["type"] == "tool_result").count(),
            1,
            "the tool ran once"
        );
        assert_eq!(events.iter().filter(|event| event.name == "done").count(), 1, "it ended once");
        resumed += usize::from(job["attempt"] == 2);
    }
    assert!(resumed > 0, "none of the jobs was the killed node's");
    assert!(killed.elapsed() < Duration::from_secs(60));
    assert_eq!(cluster.schema.sql("SELECT count(*) FROM nodes"), "1");
    let again = Server::start_with(&cluster.config);
    assert_eq!(again.wait(&ids[0])["status"], "succeeded");
}

#[test]
fn a_token_that_one_node_revokes_is_refused_by_the_other_at_once() {
    let Some(cluster) = Cluster::start(2, "auth_mode: multi\n") else { return };
    let (one, two) = cluster.pair();
    let body = json!({"username": "ann", "password": "correct horse"});
    let registered = one.register(&body);
    assert_eq!(registered.status, 200, "{}", registered.body);
    let session = registered.json()["data"]["token"].as_str().expect("a token").to_owned();
    let with = |node: &Server, token: &str, method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        node.request((method, path), &headers, body)
    };
    // The session key is the cluster's.
    assert_eq!(with(two, &session, "GET", "/v1/jobs", "").status, 200);
    let made = with(one, &session, "POST", "/api/tokens", r#"{"name": "ci"}"#).json()["data"].clone();
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    assert_eq!(with(two, key, "GET", "/v1/jobs", "").status, 200);
    let bearer = format!("Bearer {key}");
    let slow = json!({"input": "stream: 600 words, 100 ms"});
    let (_, mut stream) = two.open("/v1/jobs?stream=true", &[("authorization", &bearer)], &slow);
    assert!(stream.next().is_some(), "it has begun");
    assert!(with(one, &session, "DELETE", &format!("/api/tokens/{id}"), "").status < 300);
    assert_eq!(with(two, key, "GET", "/v1/jobs", "").status, 401);
    assert!(stream.all(|event| event.name != "done"), "the stream at the other node ends before its job");
}
