//! All figures: key, name, unit, goal, peer and method. The terminal, BENCHMARKS.md and the JSON are written
//! from this list.

use crate::unit::Unit;
use Goal::{AtLeast, AtMost, AtMostAndFsync, None as NoGoal, Times};

/// The goal of a figure (DESIGN §10).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
    /// At most this many milliseconds plus one `fdatasync` of this disk ([`FSYNC`]).
    AtMostAndFsync(f64),
    /// At least this factor times the figure of each key; the text is the peer's short name.
    Times(&'static [(f64, &'static str, &'static str)]),
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    /// `group.figure`; a peer's is `group.figure.peer`.
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) goal: Goal,
    /// For a peer: the key of our own figure to compare it with.
    pub(crate) peer_of: Option<&'static str>,
    /// How it is measured, in one line.
    pub(crate) method: &'static str,
}

/// The key of the disk's figure. Two goals add its value.
pub(crate) const FSYNC: &str = "disk.fdatasync";

const fn ours(key: &'static str, name: &'static str, unit: Unit, goal: Goal, method: &'static str) -> Figure {
    Figure { key, name, unit, goal, peer_of: None, method }
}

const fn peer(key: &'static str, peer_of: &'static str, name: &'static str, method: &'static str) -> Figure {
    Figure { key, name, unit: Unit::Count, goal: Goal::None, peer_of: Some(peer_of), method }
}

impl Figure {
    /// The unit. A peer has the unit of our own figure.
    pub(crate) fn unit(&self) -> Unit {
        self.peer_of.and_then(find).map_or(self.unit, |figure| figure.unit)
    }

    /// The first part of the key.
    pub(crate) fn group(&self) -> &'static str {
        self.key.split('.').next().unwrap_or(self.key)
    }

    /// Whether it needs `--peers`. The bare program does not.
    pub(crate) fn needs_peers(&self) -> bool {
        self.peer_of.is_some() && self.key.rsplit('.').next() != Some("bare")
    }
}

pub(crate) fn find(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.key == key)
}

/// Every figure, in the order of the table.
pub(crate) static FIGURES: &[Figure] = &[
    ours(
        FSYNC,
        "fdatasync of 4 KiB, p50",
        Unit::Ms,
        NoGoal,
        "200 appends of 4 KiB to a file on the disk that holds the stores, each followed by fdatasync",
    ),
    ours(
        "size.binary",
        "release binary, static",
        Unit::Mib,
        AtMost(26e6 / 1_048_576.0), // 26 MB
        "length of dist/nanoclaw, stripped, with the C library",
    ),
    ours(
        "start.ready",
        "ready after start, empty store, p50 of 9",
        Unit::Ms,
        AtMost(40.0),
        "from the start of the process to 200 from /readyz; the first request follows the printed address",
    ),
    peer(
        "start.ready.nanobot",
        "start.ready",
        "nanobot serve",
        "from the start of the process to 200 from /health, requested every 5 ms; median of 3",
    ),
    peer(
        "start.ready.litellm",
        "start.ready",
        "LiteLLM proxy",
        "from the start of the process to 200 from /health/liveliness, requested every 5 ms; median of 3",
    ),
    ours(
        "start.idle",
        "idle memory of the server, no Python zygote",
        Unit::Mib,
        AtMost(12.0),
        "VmRSS of the server's process 2 s after it was ready; /readyz was the only request",
    ),
    ours(
        "start.idle_all",
        "idle memory of all processes, with the Python zygote",
        Unit::Mib,
        NoGoal,
        "Pss of server, sandbox broker and zygote 2 s after the server was ready; shared pages count once",
    ),
    peer(
        "start.idle_all.nanobot",
        "start.idle_all",
        "nanobot serve",
        "Pss of the process and its descendants 2 s after it was ready; /health was the only request",
    ),
    peer(
        "start.idle_all.litellm",
        "start.idle_all",
        "LiteLLM proxy, one worker",
        "Pss of the process and its descendants 2 s after it was ready; /health/liveliness was the only request",
    ),
    ours(
        "enqueue.1",
        "durable enqueue, 1 client",
        Unit::PerSecond,
        NoGoal,
        "POST /v1/jobs over one kept connection; 202 follows the commit on disk; best of 3 rounds of 2 s, alternating with the bare program",
    ),
    peer(
        "enqueue.1.bare",
        "enqueue.1",
        "bare hyper + redb",
        "the same client against a minimal program: hyper and one redb thread that commits in groups",
    ),
    ours(
        "enqueue.64",
        "durable enqueue, 64 clients",
        Unit::PerSecond,
        Times(&[(0.5, "bare", "enqueue.64.bare"), (2.0, "BullMQ", "enqueue.64.bullmq")]),
        "the same with 64 clients, each with its own connection",
    ),
    peer("enqueue.64.bare", "enqueue.64", "bare hyper + redb", "the same with 64 clients"),
    peer(
        "enqueue.64.bullmq",
        "enqueue.64",
        "BullMQ on Redis, appendfsync always",
        "queue.add of a delayed job, 64 at the same time in one node process over a Unix socket; best of 3 rounds of 2 s",
    ),
    ours("enqueue.512", "durable enqueue, 512 clients", Unit::PerSecond, NoGoal, "the same with 512 clients"),
    peer("enqueue.512.bare", "enqueue.512", "bare hyper + redb", "the same with 512 clients"),
    ours(
        "turns.jobs",
        "durable agent jobs with one tool call, 64 clients",
        Unit::PerSecond,
        AtLeast(1_000.0),
        "64 clients send POST /v1/jobs?wait=30 for 4 s; a scripted model on loopback answers at once: one call of the calculator, then an answer",
    ),
    peer(
        "turns.jobs.nanobot",
        "turns.jobs",
        "nanobot serve",
        "the same clients and model: POST /v1/chat/completions for 8 s, one session each; one call of list_dir on an empty workspace, then an answer; default configuration",
    ),
    ours(
        "first.event",
        "submit to first event, idle server, p50",
        Unit::Ms,
        AtMostAndFsync(5.0),
        "50 times on a new connection: from POST /v1/jobs?stream=true to the first `event: status`; 60 ms of rest between two",
    ),
    ours(
        "first.direct",
        "first token straight from the provider, p50",
        Unit::Ms,
        NoGoal,
        "100 streamed completions from the scripted model over a kept connection, until the first `data:`",
    ),
    ours(
        "first.added",
        "added to the first token by the durable job, p50",
        Unit::Ms,
        AtMostAndFsync(5.0),
        "from POST /v1/jobs?stream=true on a new connection to the first text; 10 warm-up rounds, then 100 rounds that alternate with direct requests; difference of the medians",
    ),
    peer(
        "first.added.litellm",
        "first.added",
        "LiteLLM proxy, which stores nothing",
        "the same client and model through /v1/chat/completions of the proxy, alternating with direct requests; difference of the medians",
    ),
    ours(
        "streams.committed",
        "events committed, 64 jobs of 1,000 tokens/s",
        Unit::PerSecond,
        NoGoal,
        "64 jobs stream for 8 s as fast as the store accepts it; committed events divided by time",
    ),
    ours(
        "streams.cpu",
        "200 jobs × 50 tokens/s, one reader each: processor",
        Unit::Cores,
        AtMost(1.0),
        "user and system time of the server during 8 s of that load, divided by time; provider and readers run in the measuring process",
    ),
    ours(
        "streams.memory",
        "200 jobs × 50 tokens/s, one reader each: peak memory",
        Unit::Mib,
        AtMost(64.0),
        "VmHWM of the server after that load",
    ),
    ours(
        "streams.frames",
        "200 jobs × 50 tokens/s, one reader each: frames delivered",
        Unit::Count,
        NoGoal,
        "frames that the 200 readers read",
    ),
    ours(
        "streams.idle",
        "memory of an idle SSE connection",
        Unit::Kib,
        AtMost(16.0),
        "growth of the server's VmRSS with 10,000 readers of a waiting job, divided by 10,000; without the kernel's socket buffers",
    ),
    peer(
        "streams.idle.bare",
        "streams.idle",
        "bare hyper",
        "the same readers of the minimal program, which sends one comment and waits",
    ),
    ours(
        "streams.fan_out",
        "one job to 10,000 readers: frames",
        Unit::PerSecond,
        AtLeast(100_000.0),
        "the job streams 1,000 words at 500 words/s; frames of all readers, divided by the time until the last reader has finished",
    ),
    ours(
        "streams.fan_out_core",
        "one job to 10,000 readers: frames a second of processor time",
        Unit::PerSecond,
        NoGoal,
        "those frames, divided by user and system time of the server",
    ),
    ours(
        "streams.fan_out_memory",
        "one job to 10,000 readers: peak memory",
        Unit::Mib,
        NoGoal,
        "VmHWM of the server",
    ),
    ours(
        "sandbox.python",
        "sandboxed Python, p50",
        Unit::Ms,
        AtMost(3.5),
        "400 runs of print(1), one after the other, with a warm zygote",
    ),
    peer(
        "sandbox.python.bwrap",
        "sandbox.python",
        "bubblewrap + python3 -I -S",
        "40 runs of the same: --unshare-all, /usr read-only",
    ),
    peer("sandbox.python.plain", "sandbox.python", "python3 -I -S, no sandbox", "40 runs of the same"),
    ours(
        "sandbox.javascript",
        "sandboxed JavaScript, p50",
        Unit::Ms,
        AtMost(1.0),
        "400 runs of 1 + 1, one after the other",
    ),
    peer(
        "sandbox.javascript.bwrap",
        "sandbox.javascript",
        "bubblewrap + node -e",
        "40 runs of console.log(1): --unshare-all, /usr read-only",
    ),
    peer("sandbox.javascript.node", "sandbox.javascript", "node -e, no sandbox", "40 runs of console.log(1)"),
    peer(
        "sandbox.javascript.vm",
        "sandbox.javascript",
        "node's vm.runInNewContext in one process, no sandbox",
        "400 runs of 1 + 1, each in a new context of one warm process; node's manual says that this is not a security mechanism",
    ),
    ours(
        "sandbox.lenient",
        "sandboxed Python, lenient, p50",
        Unit::Ms,
        NoGoal,
        "400 runs of print(1) at the lenient level",
    ),
    ours("sandbox.shell", "sandboxed shell command, p50", Unit::Ms, NoGoal, "400 runs of echo 1"),
    ours(
        "sandbox.javascript_rate",
        "sandboxed JavaScript, 4 threads",
        Unit::PerSecond,
        AtLeast(600.0),
        "4 threads run programs for 4 s",
    ),
    ours(
        "sandbox.python_rate",
        "sandboxed Python, 4 threads",
        Unit::PerSecond,
        AtLeast(250.0),
        "4 threads run programs for 4 s",
    ),
    ours(
        "sandbox.javascript_memory",
        "private memory of a JavaScript child",
        Unit::Mib,
        AtMost(2.0),
        "Private_* in smaps_rollup of a waiting child, without pages shared with broker or zygote",
    ),
    ours("sandbox.python_memory", "private memory of a Python child", Unit::Mib, AtMost(2.0), "the same"),
    ours(
        "tools.javascript",
        "JavaScript as a tool call in a job, p50",
        Unit::Ms,
        NoGoal,
        "60 jobs through the whole server; the execution_time in the tool's result",
    ),
    ours("tools.python", "Python as a tool call in a job, p50", Unit::Ms, NoGoal, "the same"),
    ours(
        "restart.store",
        "size of the store with 100,000 queued jobs",
        Unit::Mib,
        NoGoal,
        "files in the data directory after 64 clients have enqueued 100,000 jobs of 7 KiB",
    ),
    ours(
        "restart.clean",
        "ready after a clean stop, p50 of 5",
        Unit::Ms,
        AtMost(40.0),
        "after SIGTERM and the end of the process: from the next start to 200 from /readyz",
    ),
    ours(
        "restart.killed",
        "ready after kill -9 under load, p50 of 5",
        Unit::Ms,
        AtMost(40.0),
        "after kill -9 while 64 clients enqueue: from the next start to 200 from /readyz",
    ),
    ours(
        "restart.enqueue",
        "durable enqueue into that store, 64 clients",
        Unit::PerSecond,
        NoGoal,
        "64 clients enqueue for 4 s",
    ),
    peer(
        "restart.enqueue.bare",
        "restart.enqueue",
        "bare hyper + redb, equally full (--long)",
        "the same clients after the same filling",
    ),
];
