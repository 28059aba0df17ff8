//! The figures of other products that run agents.

use super::{Figure, peer};

pub(super) static FIGURES: &[Figure] = &[
    peer(
        "start.ready.zeroclaw",
        "start.ready",
        "zeroclaw gateway",
        "from the start of the process to 200 from /health, requested every 5 ms; median of 3",
    ),
    peer(
        "start.idle_all.zeroclaw",
        "start.idle_all",
        "zeroclaw gateway",
        "Pss of the process and its descendants 2 s after it was ready; /health was the only request",
    ),
    peer(
        "turns.jobs.zeroclaw",
        "turns.jobs",
        "zeroclaw, a plain turn: no tool, nothing stored",
        "64 clients send POST /webhook for 4 s; the model answers at once, without a call; the agent has no tools, no memory and no record of costs",
    ),
    peer(
        "latency.plain.zeroclaw",
        "latency.plain",
        "zeroclaw, a plain turn, nothing stored",
        "as many times POST /webhook in the same way",
    ),
    peer(
        "latency.plain_p99.zeroclaw",
        "latency.plain_p99",
        "zeroclaw, a plain turn, nothing stored",
        "the 99th percentile of the same turns",
    ),
];
