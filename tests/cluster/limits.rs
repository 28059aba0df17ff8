//! What holds once for all nodes: throttles, rate limits and quotas of users, limits of providers, the audit
//! log, and the directories of deleted jobs.

use super::{Cluster, paced};
use crate::accounts::{ask, with};
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Reply, Server, against, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const PASSWORD: &str = "correct horse";

fn register(server: &Server, name: &str) -> String {
    let reply = server.register(&json!({"username": name, "password": PASSWORD}));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["data"]["token"].as_str().expect("a token").to_owned()
}

fn login(server: &Server, (name, address): (&str, &str), password: &str) -> u16 {
    let body = json!({"username": name, "password": password});
    ask(server, "POST /api/auth/login", &[("x-forwarded-for", address)], &body).status
}

#[test]
fn p9_failed_logins_at_all_nodes_count_together() {
    let config = "auth_mode: multi\nlimits: {login_failures: 3}\n";
    let Some(cluster) = Cluster::start(2, config) else { return };
    let (one, two) = cluster.pair();
    for name in ["ann", "bob", "carl"] {
        register(one, name);
    }
    let home = ("ann", "203.0.113.9");
    assert_eq!(login(one, home, PASSWORD), 200);
    for (node, address) in [(one, "203.0.113.1"), (two, "203.0.113.2"), (one, "203.0.113.3")] {
        assert_eq!(login(node, ("ann", address), "incorrect"), 401);
    }
    for node in [one, two] {
        assert_eq!(login(node, ("ann", "203.0.113.4"), PASSWORD), 429, "the account is locked everywhere");
    }
    for node in [two, one] {
        assert_eq!(login(node, home, PASSWORD), 200, "failures of others do not lock its owner out");
    }
    for (node, name) in [(one, "b1"), (two, "c1"), (one, "d1")] {
        assert_eq!(login(node, (name, "203.0.113.8"), PASSWORD), 401);
    }
    assert_eq!(login(two, ("e1", "203.0.113.8"), PASSWORD), 429, "the address is locked everywhere");
    // A right password forgets the wrong ones before it, wherever they were.
    for n in 0..2 {
        for node in [one, two] {
            assert_eq!(login(node, ("bob", &format!("203.0.113.2{n}")), "incorrect"), 401);
        }
        assert_eq!(login(two, ("bob", &format!("203.0.113.3{n}")), PASSWORD), 200);
    }
}

#[test]
fn p8_requests_of_a_user_at_all_nodes_count_together() {
    let config = "auth_mode: multi\nlimits: {user_requests_per_minute: 64}\n";
    let Some(cluster) = Cluster::start(2, config) else { return };
    let (one, two) = cluster.pair();
    let (ann, bob) = (register(one, "ann"), register(two, "bob"));
    let mut replies = Vec::new();
    for n in 0..100 {
        replies.push(with(&cluster.nodes[n % 2], &ann, "GET /v1/jobs", &Value::Null));
    }
    let admitted = replies.iter().filter(|reply| reply.status == 200).count();
    // Each node counts a sixteenth in advance.
    assert!((60..=64).contains(&admitted), "{admitted}");
    let last = replies.last().expect("a reply");
    assert_eq!(last.status, 429);
    let wait_s: u64 = last.header("retry-after").expect("when").parse().expect("seconds");
    assert!((1..=60).contains(&wait_s), "{wait_s}");
    let lefts: Vec<u64> = replies.iter().take(8).map(left).collect();
    assert_eq!(lefts, [63, 59, 62, 58, 61, 57, 60, 56]);
    assert_eq!(with(one, &bob, "GET /v1/jobs", &Value::Null).status, 200, "others are others");
}

/// The rest of the window, from the header `ratelimit`.
fn left(reply: &Reply) -> u64 {
    let header = reply.header("ratelimit").expect("a rate limit");
    let left = header.split(';').find_map(|part| part.strip_prefix("r=")).expect("the rest");
    left.parse().expect("a number")
}

#[test]
fn p8_the_nodes_share_the_requests_per_minute_of_a_provider() {
    let upstream = Upstream::start(|_, _| Answer::text("an answer"));
    let url = &upstream.url;
    let config = format!(
        "default_model: a\nmodels:\n  - {{id: a, api_url: \"{url}/v1\", rate: {{requests_per_minute: 6}}}}\nworkers: 4"
    );
    let Some(cluster) = Cluster::start(2, &config) else { return };
    // Each node knows of the other after a heartbeat.
    std::thread::sleep(Duration::from_secs(2));
    for n in 0..24 {
        cluster.nodes[n % 2].submit(&json!({"input": format!("job {n}")}));
    }
    wait_until("each node makes calls", || upstream.requests().len() >= 6);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(upstream.requests().len(), 6);
}

#[test]
fn a_pause_that_a_provider_asks_one_node_for_holds_for_the_others() {
    let upstream = Upstream::start(|_, _| Answer::error(429, "slow down").with_header("retry-after", "120"));
    let Some(cluster) = Cluster::start(3, &against(&upstream, "workers: 2")) else { return };
    cluster.nodes[0].submit(&json!({"input": "first"}));
    wait_until("the provider has refused a call", || !upstream.requests().is_empty());
    std::thread::sleep(Duration::from_secs(3));
    let refused = upstream.requests().len();
    for n in 0..12 {
        cluster.nodes[n % 3].submit(&json!({"input": "more"}));
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(upstream.requests().len(), refused, "no node asks again during the pause");
}

#[test]
fn the_audit_log_of_a_job_is_the_same_at_every_node() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("calculator", json!({"expression": "17*23"}))]),
        _ => Answer::text("done"),
    });
    let Some(cluster) = Cluster::start(2, &against(&upstream, "workers: 1")) else { return };
    let (one, two) = cluster.pair();
    let ids: Vec<String> = (0..6).map(|n| cluster.nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    for id in &ids {
        assert_eq!(one.wait(id)["status"], "succeeded");
        let audit = |node: &Server| node.get(&format!("/v1/jobs/{id}/audit")).json()["data"].clone();
        let entries = audit(one);
        assert_eq!(entries, audit(two));
        assert_eq!(entries.as_array().map(Vec::len), Some(1), "{entries}");
        assert_eq!((&entries[0]["tool"], &entries[0]["job"]), (&json!("calculator"), &json!(id)));
    }
}

#[test]
fn p8_two_nodes_that_submit_at_once_do_not_exceed_a_quota_together() {
    let upstream = paced("slow ", 2_000, 50);
    let config = against(&upstream, "auth_mode: multi\nlimits: {user_requests_per_minute: 0}");
    let Some(cluster) = Cluster::start(2, &config) else { return };
    let root = register(&cluster.nodes[0], "root");
    for round in 0..5 {
        let (name, path) = (format!("user{round}"), format!("PATCH /api/users/{}", round + 3));
        let user = register(&cluster.nodes[1], &name);
        let quota = json!({"quota": {"unfinished_jobs": 5}});
        let bounded = with(&cluster.nodes[0], &root, &path, &quota);
        assert_eq!((bounded.status, bounded.json()["data"]["username"].as_str()), (200, Some(&*name)));
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let racing: Vec<_> = (0..16)
                .map(|n| {
                    let (node, user) = (&cluster.nodes[n % 2], &user);
                    scope.spawn(move || with(node, user, "POST /v1/jobs", &json!({"input": "go"})).status)
                })
                .collect();
            racing.into_iter().map(|racer| racer.join().expect("a reply")).collect()
        });
        let accepted = statuses.iter().filter(|status| **status < 300).count();
        assert!(
            accepted == 5 && statuses.iter().all(|status| *status < 300 || *status == 429),
            "{statuses:?}"
        );
    }
}
