//! Nodes that share a `PostgreSQL` database.

use super::Goal::{AnyOf, AtMost};
use super::{Figure, Goal, ours, peer, times};
use crate::unit::Unit;

const WORKERS: &[Goal] =
    &[times(5.0, "LangGraph", "cluster.jobs.langgraph"), times(2.0, "Python worker", "cluster.jobs.python")];
const REDB: &str = "NanoClaw on redb";
const ONE_NODE: &str = "cluster.waiting_1";

pub(super) static FIGURES: &[Figure] = &[
    ours(
        "cluster.jobs",
        "one node on PostgreSQL: durable agent jobs with one tool call, 64 clients",
        Unit::PerSecond,
        &[times(0.3, "redb", "cluster.jobs.redb"), AnyOf(WORKERS)],
        "64 clients send POST /v1/jobs?wait=30, `workers: 64`, else the default configuration; PostgreSQL with its default settings and fsync on the same disk and cores, over a Unix socket, a new database each round; a scripted model on loopback answers at once: one call of the calculator, then an answer; best of 3 rounds of 4 s that alternate with redb",
    ),
    peer(
        "cluster.jobs.redb",
        "cluster.jobs",
        REDB,
        "the same clients, model and configuration, without `store.url`",
    ),
    peer(
        "cluster.jobs.python",
        "cluster.jobs",
        "a Python worker on the same PostgreSQL",
        "asyncio in one process a core, 64 jobs at the same time, psycopg and aiohttp: SELECT … FOR UPDATE SKIP LOCKED, then the same model; a commit for the claim, the model's call, the calculator's result and the end, each one statement that stores its event; no client waits, the jobs are in the table beforehand; 8 s",
    ),
    peer(
        "cluster.jobs.langgraph",
        "cluster.jobs",
        "LangGraph server, in memory",
        "64 clients send POST /runs/wait for 8 s, 64 workers; the graph asks the same model, calls a calculator and asks again; the run is kept in memory, not in PostgreSQL",
    ),
    ours(
        "cluster.enqueue",
        "one node on PostgreSQL: durable enqueue, 64 clients",
        Unit::PerSecond,
        &[times(0.3, "redb", "cluster.enqueue.redb")],
        "64 clients send POST /v1/jobs, each over its own kept connection; 202 follows the commit; best of 3 rounds of 2 s that alternate with redb",
    ),
    peer("cluster.enqueue.redb", "cluster.enqueue", REDB, "the same clients, without `store.url`"),
    ours(
        "cluster.waiting_1",
        "jobs that wait 200 ms on a model: 1 node of 16 workers",
        Unit::PerSecond,
        &[],
        "48 clients a node send POST /v1/jobs?wait=30 for 8 s, `workers: 16`; a scripted model on loopback answers after 200 ms, so 80/s are the most that a node can do; best of 2 rounds that alternate with the other numbers of nodes",
    ),
    ours(
        "cluster.waiting_2",
        "jobs that wait 200 ms on a model: 2 nodes",
        Unit::PerSecond,
        &[times(1.9, "1 node", ONE_NODE)],
        "the same with 96 clients",
    ),
    ours(
        "cluster.waiting_4",
        "jobs that wait 200 ms on a model: 4 nodes",
        Unit::PerSecond,
        &[times(3.6, "1 node", ONE_NODE)],
        "the same with 192 clients",
    ),
    ours(
        "cluster.start",
        "enqueue to start on another node, p50",
        Unit::Ms,
        &[],
        "500 jobs, one after the other, 20 ms of rest between two; the only worker of the node that accepts them is busy; from the first byte of POST /v1/jobs until the other node asks the model, so the commit and the start of the job are part of it",
    ),
    ours(
        "cluster.start_p99",
        "enqueue to start on another node, p99",
        Unit::Ms,
        &[AtMost(50.0)],
        "the same jobs",
    ),
    ours(
        "cluster.event",
        "commit to an event at a reader of another node, p50",
        Unit::Ms,
        &[],
        "4 jobs, one after the other, of 120 words every 50 ms, each with a reader at the node that runs it and one at another node; from the arrival at the former, which follows the commit, to that at the latter; without the first 20 words",
    ),
    ours(
        "cluster.event_p99",
        "commit to an event at a reader of another node, p99",
        Unit::Ms,
        &[AtMost(50.0)],
        "the same events",
    ),
    ours(
        "cluster.word",
        "model to an event at a reader of another node, p50",
        Unit::Ms,
        &[],
        "the same events at the reader of the other node, from the model's write of the word; the linger of `store.linger_ms` (25) and the commit are part of it",
    ),
    ours(
        "cluster.word_p99",
        "model to an event at a reader of another node, p99",
        Unit::Ms,
        &[],
        "the same events",
    ),
    ours(
        "cluster.idle",
        "statements of 4 idle nodes at PostgreSQL",
        Unit::StatementsPerSecond,
        &[AtMost(20.0)],
        "calls in pg_stat_statements, with BEGIN and COMMIT, in 20 s that begin 5 s after the start of the last node; transactions from pg_stat_database",
    ),
];
