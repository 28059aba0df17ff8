//! P7 and P8 as one question: whatever one user does with an operation of the `OpenAPI` document, are list,
//! submission and login of another user answered in time? The provider of the one user's models does not
//! answer, its data are large, its answers are not read and its bodies do not arrive.

mod attack;
mod fillers;
mod possessions;

use crate::support::Server;
use crate::support::tenants::{PASSWORD, Tenants};
use crate::support::upstream::{Act, Answer, Upstream, content};
use attack::Attack;
use fillers::{FILLERS, REFUSED, SELECTED};
use possessions::{Amounts, Owner};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Attempts for an operation: another program of the machine may take the time of one.
const ATTEMPTS: usize = 3;
/// Rounds of an attempt.
const ROUNDS: usize = 6;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(100);
/// In each attempt one of the rounds may be slower.
const SLOW_ROUNDS: usize = 1;
/// No request of the neighbour is waited for any longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the neighbour does in a round.
const NEIGHBOURS_REQUESTS: [(&str, &str); 3] =
    [("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("POST", "/api/auth/login")];

/// A provider that answers `endless` with much, and everything else never.
fn provider() -> Upstream {
    let words = format!("data: {}\n\n", content(&"word ".repeat(10_000)));
    Upstream::start(move |request, _| match request["model"].as_str() {
        Some("endless") => Answer::stream(vec![Act::Raw(words.clone()); 200]),
        _ => Answer::stream(vec![Act::Hang]),
    })
}

fn configuration(upstream: &Upstream) -> String {
    let url = &upstream.url;
    format!(
        "default_model: demo\nmodels:\n  - {{id: demo, provider: demo}}\n  - {{id: silent, api_url: \"{url}/v1\"}}\n  \
         - {{id: endless, api_url: \"{url}/v1\"}}\nmemory: {{enabled: true}}\n\
         webhooks: {{allow_private_addresses: [127.0.0.1]}}\nlimits: {{user_requests_per_minute: 0}}\n"
    )
}

/// All operations of the document, as `GET /v1/jobs`.
fn operations(server: &Server) -> BTreeSet<String> {
    let document = server.get("/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths").iter();
    let methods = |path: &String, item: &Value| -> Vec<String> {
        let names = item.as_object().expect("operations").keys();
        names.map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    paths.flat_map(|(path, item)| methods(path, item)).collect()
}

/// The other user.
struct Neighbour<'t> {
    tenants: &'t Tenants,
    token: String,
    name: &'t str,
}

impl Neighbour<'_> {
    /// The time until a request is answered, or why it is not.
    fn time_of(&self, (method, path): (&str, &str)) -> Result<Duration, String> {
        let body = match (method, path) {
            ("GET", _) => String::new(),
            (_, "/v1/jobs") => json!({"input": "hello", "model": "demo"}).to_string(),
            _ => json!({"username": self.name, "password": PASSWORD}).to_string(),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             x-forwarded-for: 198.51.100.2\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let began = Instant::now();
        let mut connection = self.tenants.connect();
        connection.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        connection.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut head = [0; 12];
        connection.read_exact(&mut head).map_err(|error| format!("{error} after {:?}", began.elapsed()))?;
        let took = began.elapsed();
        match head.get(9..10) {
            Some(b"2") => Ok(took),
            _ => Err(String::from_utf8_lossy(&head).into_owned()),
        }
    }

    /// Each request that is not answered within the bound, with its times in milliseconds.
    fn attempt(&self, bound: Duration) -> Vec<String> {
        let mut times = NEIGHBOURS_REQUESTS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            std::thread::sleep(PAUSE);
            for (request, times) in NEIGHBOURS_REQUESTS.into_iter().zip(&mut times) {
                times.push(self.time_of(request));
            }
        }
        let slow = NEIGHBOURS_REQUESTS.into_iter().zip(times).filter_map(|((method, path), times)| {
            let is_slow = |time: &&Result<Duration, String>| !matches!(time, Ok(took) if *took <= bound);
            let count = times.iter().filter(is_slow).count();
            let shown = times.iter().map(|time| match time {
                Ok(took) => took.as_millis().to_string(),
                Err(error) => error.clone(),
            });
            (count > SLOW_ROUNDS)
                .then(|| format!("{method} {path}: {} ms", shown.collect::<Vec<_>>().join(", ")))
        });
        slow.collect()
    }
}

/// Fills an operation of a server of its own; returns what the neighbour has to wait for.
fn slow_beside(operation: &str, upstream: &Upstream, amounts: Amounts, bound: Duration) -> Vec<String> {
    let tenants = Tenants::start(&configuration(upstream), &["eve", "bob"]);
    let neighbour = Neighbour { tenants: &tenants, token: tenants.token("bob"), name: "bob" };
    let owner = Owner::new(&tenants, "eve", amounts);
    let mut slow = Vec::new();
    for _ in 0..ATTEMPTS {
        slow = Attack::on(operation, &owner).beside(|| neighbour.attempt(bound));
        if slow.is_empty() {
            break;
        }
        // What has begun may take a while.
        std::thread::sleep(Duration::from_secs(1));
    }
    slow
}

/// Fills each of these operations; returns those beside which the neighbour waits longer than the bound.
fn failures<'o>(operations: impl Iterator<Item = &'o str>, amounts: Amounts, bound: Duration) -> Vec<String> {
    let upstream = provider();
    let mut failures = Vec::new();
    for operation in operations {
        let slow = slow_beside(operation, &upstream, amounts, bound);
        println!("{operation}: {}", if slow.is_empty() { "good".to_owned() } else { slow.join("; ") });
        if !slow.is_empty() {
            failures.push(format!("{operation}\n    {}", slow.join("\n    ")));
        }
    }
    failures
}

#[test]
fn every_operation_has_a_filler() {
    let served = operations(&Server::start());
    let known: BTreeSet<String> = FILLERS.iter().map(|(operation, ..)| (*operation).to_owned()).collect();
    let missing: Vec<_> = served.difference(&known).collect();
    let gone: Vec<_> = known.difference(&served).collect();
    assert!(missing.is_empty() && gone.is_empty(), "without a filler: {missing:?}; not served: {gone:?}");
    assert!(SELECTED.iter().all(|operation| known.contains(*operation)));
}

#[test]
fn every_filler_is_a_request_that_the_server_works_on() {
    let upstream = provider();
    let tenants = Tenants::start(&configuration(&upstream), &["eve"]);
    let owner = Owner::new(&tenants, "eve", Amounts { words: 10, uploads: 1, lines: 2 });
    let mut operations: Vec<_> = operations(&tenants.server).into_iter().collect();
    operations.retain(|operation| !REFUSED.contains(&operation.as_str()));
    // What needs a worker comes before what holds all workers.
    operations.sort_by_key(|operation| (operation.contains("/v1/batches"), !operation.starts_with("DELETE")));
    let malformed: Vec<_> =
        operations.iter().flat_map(|operation| Attack::on(operation, &owner).malformed()).collect();
    assert!(malformed.is_empty(), "{}", malformed.join("\n\n"));
}

#[test]
fn p7_one_user_does_not_keep_another_waiting() {
    let amounts = Amounts { words: 2_000, uploads: 1, lines: 200 };
    // A machine that runs other tests at the same time is slower.
    let failures = failures(SELECTED.iter().copied(), amounts, Duration::from_secs(1));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "fills every operation, for minutes: scripts/test --long runs it"]
fn p7_no_operation_lets_one_user_keep_another_waiting() {
    let only = std::env::var("TEST_OPERATIONS").unwrap_or_default();
    let all = operations(&Server::start());
    let chosen = all.iter().map(String::as_str).filter(|operation| operation.contains(&only));
    let amounts = Amounts { words: 50_000, uploads: 20, lines: 5_000 };
    let failures = failures(chosen, amounts, Duration::from_millis(250));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
