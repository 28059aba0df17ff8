//! The figures of other products that run agents, queues and sandboxes.

use super::{Figure, peer};

pub(super) static FIGURES: &[Figure] = &[
    peer(
        "start.ready.zeroclaw",
        "start.ready",
        "zeroclaw gateway",
        "from the start of the process to 200 from /health, requested every 5 ms; median of 3",
    ),
    peer(
        "start.ready.langgraph",
        "start.ready",
        "LangGraph server in memory",
        "from the start of the process to 200 from /ok, requested every 5 ms; median of 3",
    ),
    peer(
        "start.ready.restate",
        "start.ready",
        "Restate with a service in node",
        "from the start of the process to the answer of the service's first call, tried every 5 ms; median of 3",
    ),
    peer(
        "start.idle_all.zeroclaw",
        "start.idle_all",
        "zeroclaw gateway",
        "Pss of the process and its descendants 2 s after it was ready; /health was the only request",
    ),
    peer("start.idle_all.langgraph", "start.idle_all", "LangGraph server in memory", "the same after /ok"),
    peer(
        "start.idle_all.restate",
        "start.idle_all",
        "Restate with a service in node",
        "the same with the service's process, after its first call",
    ),
    peer(
        "enqueue.64.restate",
        "enqueue.64",
        "Restate, delayed one-way calls",
        "the same clients: POST /bench/agent/send?delay=86400s, answered after its log is synced; best of 3 rounds of 2 s over one store",
    ),
    peer(
        "enqueue.64.langgraph",
        "enqueue.64",
        "LangGraph server, in memory",
        "the same clients: POST /runs with after_seconds of a day; nothing is synced; best of 3 rounds of 2 s in one process",
    ),
    peer(
        "turns.jobs.zeroclaw",
        "turns.jobs",
        "zeroclaw, a plain turn: no tool, nothing stored",
        "64 clients send POST /webhook for 4 s; the model answers at once, without a call; the agent has no tools, no memory and no record of costs",
    ),
    peer(
        "turns.jobs.restate",
        "turns.jobs",
        "Restate, a handler with journaled steps",
        "64 clients send POST /bench/agent for 8 s; the handler in node asks the same model, journals a calculator's result and asks again",
    ),
    peer(
        "turns.jobs.langgraph",
        "turns.jobs",
        "LangGraph server, in memory",
        "64 clients send POST /runs/wait for 8 s, 64 workers; the graph asks the same model, calls a calculator and asks again; the run is kept",
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
    peer(
        "sandbox.python.codex",
        "sandbox.python",
        "codex sandbox + python3 -I -S",
        "40 runs of the same: `codex sandbox --` without configuration, that is bubblewrap and seccomp, files read-only, no network",
    ),
    peer(
        "sandbox.shell.codex",
        "sandbox.shell",
        "codex sandbox + echo",
        "40 runs of `codex sandbox -- echo 1`",
    ),
    peer(
        "sandbox.shell.bwrap",
        "sandbox.shell",
        "bubblewrap + sh -c",
        "40 runs of `sh -c 'echo 1'`: --unshare-all, /usr read-only",
    ),
];
