//! The queue against the number of users who share it.

use super::curve::{Curve, Measure, Point, whole};
use super::queue::{id_of, submit};
use crate::connection::Connection;
use crate::load::make_calls;
use crate::provider::Provider;
use crate::server::Server;
use crate::unit::Unit;
use crate::upstream::Answer;
use serde_json::json;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const USERS: Curve = Curve {
    key: "users",
    title: "Users who share the queue",
    x: "users",
    points: &[1.0, 1e1, 1e2, 1e3],
    long_points: &[],
    measures: &[
        Measure { name: "jobs started", unit: Unit::PerSecond },
        Measure { name: "memory of the server", unit: Unit::Mib },
    ],
    method: "`auth_mode: multi`, `workers: 64`. 10,000 jobs, the same number of each user, become due at the same \
        moment; a scripted model answers at once. Started: model calls a second, from the first tenth of the \
        jobs to the last job. Memory: VmRSS at the end.",
    measure,
};

/// Jobs of all users.
const JOBS: usize = 10_000;
const CLIENTS: usize = 32;
/// Seconds until the jobs are due. They are all stored by then.
const DUE_S: u64 = 8;
/// Longest time for all jobs to start.
const PATIENCE: Duration = Duration::from_secs(120);
const CONFIG: &str = "auth_mode: multi\nworkers: 64\n\
    limits: {user_requests_per_minute: 0, queue_jobs: 100000000}\n";

fn measure(users: f64) -> Point {
    let answer = Answer::text("391");
    let provider = Provider::start(&answer, &answer);
    let server = Server::start(&format!("{CONFIG}{}", provider.config()));
    let keys = create_users(&server, whole(users));
    let due_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() + DUE_S;
    submit_all(&server.address, &keys, due_s);
    assert_eq!(provider.calls(), 0, "the jobs were due before all of them were stored");
    wait_for_calls(&provider, JOBS / 10);
    let began = Instant::now();
    wait_for_calls(&provider, JOBS);
    let rate = (JOBS - JOBS / 10) as f64 / began.elapsed().as_secs_f64();
    Point { x: users, values: vec![rate, server.process.resident_mib()] }
}

fn wait_for_calls(provider: &Provider, calls: usize) {
    let began = Instant::now();
    while provider.calls() < calls {
        assert!(began.elapsed() < PATIENCE, "only {} of {calls} jobs have started", provider.calls());
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Creates accounts and returns an API key of each.
fn create_users(server: &Server, count: usize) -> Vec<String> {
    let account = |name: &str| json!({"username": name, "password": "correct horse battery"}).to_string();
    let mut connection = Connection::open(&server.address);
    connection.set_key(&server.control_key());
    // The first account is an administrator.
    connection.post("/api/users", &account("admin"));
    let key_of = |number: usize| {
        let reply = connection.post("/api/users", &account(&format!("user-{number}"))).body;
        let path = format!("/api/users/{}/tokens", id_of(&reply, "/data/id"));
        id_of(&connection.post(&path, "{}").body, "/data/key")
    };
    (0..count).map(key_of).collect()
}

/// Submits the same number of jobs for each user, in turn.
fn submit_all(address: &str, keys: &[String], due_s: u64) {
    let body = json!({"input": "x", "run_at": due_s}).to_string();
    make_calls(
        CLIENTS,
        JOBS,
        || Connection::open(address),
        |connection, call| {
            connection.set_key(&keys[call % keys.len()]);
            submit(connection, &body);
        },
    );
}
