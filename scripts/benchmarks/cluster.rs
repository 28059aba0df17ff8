//! Nodes that share a `PostgreSQL` database, beside one node on redb: jobs a second, times from node to node,
//! and what idle nodes cost the database. Nodes, database, clients and models share the cores.

use crate::connection::Connection;
use crate::database::{Database, DatabaseServer};
use crate::latency::{calculator_call, record};
use crate::load::calls_per_second;
use crate::provider::Provider;
use crate::server::Server;
use crate::upstream::{Act, Answer};
use crate::work::Work;
use crate::{Benchmark, agent_peers, enqueue, figures, peers, turns};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Alternating rounds of both stores. The best of each counts.
const ROUNDS: usize = 3;
/// Time of one round of durable enqueue, and its clients.
const ENQUEUE_ROUND: Duration = Duration::from_secs(2);
const ENQUEUE_CLIENTS: usize = 64;
/// Jobs that a node runs at the same time where each waits for the model, and its clients.
const WAITING_WORKERS: usize = 16;
const WAITING_CLIENTS: usize = 48;
/// Numbers of nodes, with the keys of their figures.
const WAITING: [(usize, &str); 3] =
    [(1, "cluster.waiting_1"), (2, "cluster.waiting_2"), (4, "cluster.waiting_4")];
/// Alternating rounds of these numbers. The best of each counts.
const WAITING_ROUNDS: usize = 2;
/// Time of the model.
const MODEL_TIME: Duration = Duration::from_millis(200);
/// Duration of the figures with that model.
const WAITING_SPAN: Duration = Duration::from_secs(8);
/// Jobs that start at another node, those before them to warm up, and the pause after each.
const STARTS: usize = 500;
const WARM_UP_STARTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);
/// Longest wait for a start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Jobs that are read at two nodes, the words of each, and the time between two words.
const READ_JOBS: usize = 4;
const WORDS: usize = 120;
const PACE: Duration = Duration::from_millis(50);
const WORD: &str = "word ";
/// First words of each job that do not count: the readers are only connecting.
const WARM_UP_WORDS: usize = 20;
/// Idle nodes, the time until they are at rest, and the time of the measurement.
const IDLE_NODES: usize = 4;
const IDLE_AFTER: Duration = Duration::from_secs(5);
const IDLE_SPAN: Duration = Duration::from_secs(20);
/// The most frequent statements of idle nodes, which are printed.
const SHOWN_STATEMENTS: usize = 12;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    let server = match DatabaseServer::start(&[]) {
        Ok(server) => server,
        Err(reason) => return skip_all(run, &reason),
    };
    run.results.record_version("PostgreSQL", &format!("{}, default settings", server.version()));
    measure_jobs(run, &server);
    measure_enqueue(run, &server);
    measure_waiting_jobs(run, &server);
    measure_other_node(run, &server);
    drop(server);
    measure_idle(run);
}

/// Skips each figure of the group.
fn skip_all(run: &mut Benchmark, reason: &str) {
    let is_wanted = |figure: &figures::Figure| run.with_peers || !figure.needs_peers();
    let wanted: Vec<_> = figures::all()
        .filter(|figure| figure.group() == "cluster")
        .filter(|figure| is_wanted(figure))
        .collect();
    for figure in wanted {
        run.results.skip(figure.key, reason);
    }
}

/// Starts a node on this database.
fn start_node(database: &Database, number: usize, config: &str) -> Server {
    let store = format!("store: {{url: \"{}\", node_name: node-{number}}}\n", database.url());
    Server::start(&format!("{config}{store}"))
}

/// The best rounds on `PostgreSQL` and on redb. A round returns the rate of the server at an address.
fn on_both_stores(server: &DatabaseServer, config: &str, rate: impl Fn(&str) -> f64) -> (Work, Work) {
    let (mut postgres, mut redb) = (Work::default(), Work::default());
    for _ in 0..ROUNDS {
        let database = server.database();
        let node = start_node(&database, 1, config);
        let processes = [node.process.0.id(), server.pid()];
        postgres = postgres.max(Work::measure_all(&processes, || rate(&node.address)));
        drop(node);
        drop(database);
        let node = Server::start(config);
        redb = redb.max(Work::measure(node.process.0.id(), || rate(&node.address)));
    }
    (postgres, redb)
}

fn measure_jobs(run: &mut Benchmark, server: &DatabaseServer) {
    let provider = Provider::start(&calculator_call(), &Answer::text("391"));
    let config = format!("workers: {}\n{}", turns::CLIENTS, provider.config());
    let (postgres, redb) = on_both_stores(server, &config, turns::jobs_per_second);
    run.results.record_rate("cluster.jobs", postgres);
    run.results.record_rate("cluster.jobs.redb", redb);
    if run.with_peers {
        let database = server.database();
        let (model, pid) = (agent_peers::model_with_call(), server.pid().to_string());
        let worker =
            peers::rate_of_script(&mut run.results, "python-worker", &[&model.url, &database.url(), &pid]);
        run.results.record_rate_or_skip("cluster.jobs.python", worker);
        agent_peers::measure_graph_runs(run, "cluster.jobs.langgraph");
    }
}

fn measure_enqueue(run: &mut Benchmark, server: &DatabaseServer) {
    let rate = |address: &str| enqueue::jobs_per_second(address, ENQUEUE_CLIENTS, ENQUEUE_ROUND);
    let (postgres, redb) = on_both_stores(server, "", rate);
    run.results.record_rate("cluster.enqueue", postgres);
    run.results.record_rate("cluster.enqueue.redb", redb);
}

/// Jobs whose model takes its time: the workers bound a node, so more nodes must do more.
fn measure_waiting_jobs(run: &mut Benchmark, server: &DatabaseServer) {
    let mut answer = Answer::text("391");
    answer.acts.insert(0, Act::Pause(MODEL_TIME));
    let provider = Provider::start(&answer, &answer);
    let config = format!("workers: {WAITING_WORKERS}\n{}", provider.config());
    let mut best = WAITING.map(|_| Work::default());
    for _ in 0..WAITING_ROUNDS {
        for (best, (count, _)) in best.iter_mut().zip(WAITING) {
            let database = server.database();
            let nodes: Vec<Server> =
                (0..count).map(|number| start_node(&database, number, &config)).collect();
            *best = best.max(waiting_jobs(server, &nodes));
        }
    }
    for (work, (_, key)) in best.into_iter().zip(WAITING) {
        run.results.record_rate(key, work);
    }
}

/// Jobs a second that these nodes end together. Each has as many clients.
fn waiting_jobs(server: &DatabaseServer, nodes: &[Server]) -> Work {
    let processes: Vec<u32> = nodes.iter().map(|node| node.process.0.id()).chain([server.pid()]).collect();
    let (clients, body) = (AtomicUsize::new(0), json!({"input": "What is 17*23?"}).to_string());
    let connect = || Connection::open(&nodes[clients.fetch_add(1, Ordering::Relaxed) % nodes.len()].address);
    let call = |connection: &mut Connection, _| {
        Some(connection.post("/v1/jobs?wait=30", &body).body.contains("\"succeeded\""))
    };
    let rate = || calls_per_second(WAITING_CLIENTS * nodes.len(), WAITING_SPAN, connect, call);
    Work::measure_all(&processes, rate)
}

/// Two nodes, the first of which is busy with one job, so that only the second runs others.
struct BusyAndFree {
    busy: Server,
    free: Server,
}

impl BusyAndFree {
    fn start(database: &Database, provider: &Provider) -> Self {
        let url = &provider.url;
        let config = format!(
            "workers: 1\ndefault_model: m\nmodels: [{{id: m, api_url: \"{url}/v1\"}}, {{id: demo, provider: demo}}]\n"
        );
        let busy = start_node(database, 1, &config);
        let job = json!({"input": "stream: 100000 words, 60000 ms", "model": "demo", "timeout_s": 3600});
        let id = submit(&mut Connection::open(&busy.address), &job);
        let path = format!("/v1/jobs/{id}");
        let began = Instant::now();
        while !Connection::open(&busy.address).get(&path).body.contains("\"running\"") {
            assert!(began.elapsed() < START_TIMEOUT, "the first node does not take its job");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { busy, free: start_node(database, 2, &config) }
    }
}

fn submit(connection: &mut Connection, job: &Value) -> String {
    let reply = connection.post("/v1/jobs", &job.to_string());
    let accepted: Value = serde_json::from_str(&reply.body).expect("JSON");
    accepted["id"].as_str().unwrap_or_else(|| panic!("{} {}", reply.status, reply.body)).to_owned()
}

/// Times between two nodes: from a submission to the start, and from a commit to a reader.
fn measure_other_node(run: &mut Benchmark, server: &DatabaseServer) {
    let database = server.database();
    let mut answer = Answer::text("391");
    // The provider remembers the times of pauses.
    answer.acts.insert(0, Act::Pause(Duration::from_millis(1)));
    let provider = Provider::start(&answer, &answer);
    let nodes = BusyAndFree::start(&database, &provider);
    record(&mut run.results, "cluster.start", "", start_times_ms(&nodes.busy.address, &provider));
    drop(nodes);
    let answer = Answer::paced_text(&WORD.repeat(WORDS), PACE);
    let provider = Provider::start(&answer, &answer);
    let database = server.database();
    let nodes = BusyAndFree::start(&database, &provider);
    let (mut after_own_ms, mut after_word_ms) = (Vec::new(), Vec::new());
    for _ in 0..READ_JOBS {
        let earlier_words = provider.sent().len();
        let id = submit(&mut Connection::open(&nodes.busy.address), &json!({"input": "go"}));
        let (own, other) = std::thread::scope(|scope| {
            let own = scope.spawn(|| frames(&nodes.free.address, &id));
            (scope.spawn(|| frames(&nodes.busy.address, &id)).join(), own.join())
        });
        let (other, own) = (own.expect("a reader"), other.expect("a reader"));
        let sent = provider.sent().split_off(earlier_words);
        for frame in other.iter().filter(|frame| frame.word >= WARM_UP_WORDS) {
            // Before the reader at the own node, it is 0.
            let own = own.iter().find(|own| own.id == frame.id).expect("the same events at both nodes");
            after_own_ms.push(frame.at.saturating_duration_since(own.at).as_secs_f64() * 1e3);
            let word = sent.get(frame.word).expect("a word that was sent");
            after_word_ms.push(frame.at.saturating_duration_since(*word).as_secs_f64() * 1e3);
        }
    }
    record(&mut run.results, "cluster.event", "", after_own_ms);
    record(&mut run.results, "cluster.word", "", after_word_ms);
}

/// Times from a submission at this address until the model is asked, by whichever node runs the job.
fn start_times_ms(address: &str, provider: &Provider) -> Vec<f64> {
    let mut connection = Connection::open(address);
    let mut start = |number: usize| {
        let began = Instant::now();
        submit(&mut connection, &json!({"input": "x"}));
        loop {
            if let Some(at) = provider.sent().get(number) {
                break at.duration_since(began).as_secs_f64() * 1e3;
            }
            assert!(began.elapsed() < START_TIMEOUT, "the other node does not start the job");
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    let times_ms = (0..WARM_UP_STARTS + STARTS).map(|number| {
        let time_ms = start(number);
        std::thread::sleep(PAUSE);
        time_ms
    });
    times_ms.collect::<Vec<f64>>().split_off(WARM_UP_STARTS)
}

/// A frame with text, as a reader saw it.
struct Frame {
    id: u64,
    /// The number of its first word.
    word: usize,
    at: Instant,
}

/// The frames with text of a job, read to its end.
fn frames(address: &str, job: &str) -> Vec<Frame> {
    let mut connection = Connection::open(address);
    connection.send("GET", &format!("/v1/jobs/{job}/events?format=delta"), "");
    let (mut frames, mut id) = (Vec::new(), 0);
    loop {
        let line = connection.read_line();
        if let Some(number) = line.strip_prefix("id: ") {
            id = number.trim().parse().expect("a number");
        } else if let Some((_, offset)) = line.split_once("\"offset\":") {
            let offset: usize = offset.trim_end().trim_end_matches('}').parse().expect("an offset");
            frames.push(Frame { id, word: offset / WORD.len(), at: Instant::now() });
        } else if line.starts_with("event: done") {
            return frames;
        }
        assert!(!line.is_empty(), "the stream ended early");
    }
}

/// Statements a second of idle nodes.
fn measure_idle(run: &mut Benchmark) {
    let server = match DatabaseServer::start(&["shared_preload_libraries=pg_stat_statements"]) {
        Ok(server) => server,
        Err(reason) => return run.results.skip("cluster.idle", &reason),
    };
    let database = server.database();
    database.sql("CREATE EXTENSION pg_stat_statements");
    let _nodes: Vec<Server> = (0..IDLE_NODES).map(|number| start_node(&database, number, "")).collect();
    std::thread::sleep(IDLE_AFTER);
    database.sql("SELECT pg_stat_statements_reset()");
    let transactions = || {
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        database.sql(sql).parse::<f64>().expect("a number")
    };
    let (began, earlier) = (Instant::now(), transactions());
    std::thread::sleep(IDLE_SPAN);
    // The statements of this function and of the extension's views are not the nodes'.
    let calls = database.sql(
        "SELECT calls, regexp_replace(left(query, 80), '\\s+', ' ', 'g') FROM pg_stat_statements \
         WHERE query !~ 'pg_stat_' ORDER BY calls DESC",
    );
    let elapsed_s = began.elapsed().as_secs_f64();
    let count = |line: &str| line.split('|').next().and_then(|calls| calls.parse::<f64>().ok());
    let statements: f64 = calls.lines().filter_map(count).sum();
    eprintln!("  calls in {elapsed_s:.0} s and their statements:");
    for line in calls.lines().take(SHOWN_STATEMENTS) {
        eprintln!("    {line}");
    }
    let note = format!("{:.1} transactions a second", (transactions() - earlier) / elapsed_s);
    run.results.record_with_note("cluster.idle", statements / elapsed_s, &note);
}
