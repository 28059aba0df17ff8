//! The one list of figures: what each is called, its unit, its goal, what it stands beside and how it is taken. The
//! terminal, BENCHMARKS.md and the JSON are drawn from it and from nothing else. Measures nothing.

use Goal::{AtLeast, AtMost, AtMostAndFsync, None as NoGoal, Times};

/// What a value counts, and with it which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Ms,
    Mib,
    Kib,
    Cores,
    PerSecond,
    Count,
}

/// What DESIGN §10 asks of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Shown for what it tells; nothing is asked.
    None,
    AtMost(f64),
    AtLeast(f64),
    /// At most so many milliseconds and one `fdatasync` of this disk ([`FSYNC`]).
    AtMostAndFsync(f64),
    /// At least so many times the figures of these keys, each with its short name.
    Times(&'static [(f64, &'static str, &'static str)]),
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    /// `group.figure`; a peer's is `group.figure.peer`.
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) goal: Goal,
    /// The key of our own figure that this peer's stands beside.
    pub(crate) beside: Option<&'static str>,
    /// One line: how it is taken.
    pub(crate) method: &'static str,
}

/// The disk's own figure, which two goals are added to.
pub(crate) const FSYNC: &str = "disk.fdatasync";

const fn ours(key: &'static str, name: &'static str, unit: Unit, goal: Goal, method: &'static str) -> Figure {
    Figure { key, name, unit, goal, beside: None, method }
}

const fn peer(key: &'static str, beside: &'static str, name: &'static str, method: &'static str) -> Figure {
    Figure { key, name, unit: Unit::Count, goal: Goal::None, beside: Some(beside), method }
}

impl Figure {
    /// A peer has the unit of the figure that it stands beside.
    pub(crate) fn unit(&self) -> Unit {
        self.beside.and_then(find).map_or(self.unit, |figure| figure.unit)
    }

    /// The group that measures it.
    pub(crate) fn group(&self) -> &'static str {
        self.key.split('.').next().unwrap_or(self.key)
    }

    /// Whether it belongs to something that `--peers` installs or finds; the bare program is always there.
    pub(crate) fn is_foreign(&self) -> bool {
        self.beside.is_some() && self.key.rsplit('.').next() != Some("bare")
    }
}

impl Unit {
    /// Whether a larger value is the better one.
    pub(crate) fn grows(self) -> bool {
        matches!(self, Self::PerSecond | Self::Count)
    }

    /// The value as people read it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Ms if value < 10.0 => format!("{value:.2} ms"),
            Self::Ms => format!("{value:.1} ms"),
            Self::Mib => format!("{value:.1} MiB"),
            Self::Kib => format!("{value:.1} KiB"),
            Self::Cores => format!("{value:.2} cores"),
            Self::PerSecond if value < 100.0 => format!("{value:.1}/s"),
            Self::PerSecond => format!("{}/s", grouped(value)),
            Self::Count => grouped(value),
        }
    }
}

/// The figure of this key.
pub(crate) fn find(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.key == key)
}

/// A whole number with a comma between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Every figure, in the order of the table.
pub(crate) static FIGURES: &[Figure] = &[
    ours(
        FSYNC,
        "fdatasync of 4 KiB on this disk, p50",
        Unit::Ms,
        NoGoal,
        "200 appends of 4 KiB, each followed by fdatasync, to a file on the disk that all stores lie on",
    ),
    ours(
        "size.binary",
        "release binary, static, everything in",
        Unit::Mib,
        AtMost(16.0),
        "length of dist/nanoclaw, stripped, C library included",
    ),
    ours(
        "start.ready",
        "ready after start, empty store, p50 of 9",
        Unit::Ms,
        AtMost(40.0),
        "from spawning the process to 200 from /readyz, asked once its address is printed",
    ),
    peer(
        "start.ready.nanobot",
        "start.ready",
        "nanobot serve",
        "from spawning the process to 200 from /health, asked every 5 ms; median of 3",
    ),
    peer(
        "start.ready.litellm",
        "start.ready",
        "LiteLLM proxy",
        "from spawning the process to 200 from /health/liveliness, asked every 5 ms; median of 3",
    ),
    ours(
        "start.idle",
        "idle resident memory, no Python zygote",
        Unit::Mib,
        AtMost(12.0),
        "VmRSS of the server's process 2 s after it was ready; no request but /readyz has come",
    ),
    ours(
        "start.idle_all",
        "idle memory of all its processes, Python zygote included",
        Unit::Mib,
        NoGoal,
        "Pss of the server, the sandbox's broker and the zygote, 2 s after it was ready; shared pages count once",
    ),
    peer(
        "start.idle_all.nanobot",
        "start.idle_all",
        "nanobot serve",
        "Pss of the process and its descendants, 2 s after it was ready; nothing but /health was asked",
    ),
    peer(
        "start.idle_all.litellm",
        "start.idle_all",
        "LiteLLM proxy, one worker",
        "Pss of the process and its descendants, 2 s after it was ready; nothing but /health/liveliness was asked",
    ),
    ours(
        "enqueue.1",
        "durable enqueue, 1 client",
        Unit::PerSecond,
        NoGoal,
        "POST /v1/jobs over a kept connection, 202 only after the commit is on disk; best of 3 rounds of 2 s, ours and bare in turn",
    ),
    peer(
        "enqueue.1.bare",
        "enqueue.1",
        "bare hyper + redb",
        "the same client against the least program that keeps the promise: one group-committing redb thread behind hyper",
    ),
    ours(
        "enqueue.64",
        "durable enqueue, 64 clients",
        Unit::PerSecond,
        Times(&[(0.5, "bare", "enqueue.64.bare"), (2.0, "BullMQ", "enqueue.64.bullmq")]),
        "as above with 64 clients, each with a connection of its own",
    ),
    peer("enqueue.64.bare", "enqueue.64", "bare hyper + redb", "as above with 64 clients"),
    peer(
        "enqueue.64.bullmq",
        "enqueue.64",
        "BullMQ on Redis, appendfsync always",
        "queue.add of a delayed job, 64 at once in one node process over a Unix socket; best of 3 rounds of 2 s",
    ),
    ours("enqueue.512", "durable enqueue, 512 clients", Unit::PerSecond, NoGoal, "as above with 512 clients"),
    peer("enqueue.512.bare", "enqueue.512", "bare hyper + redb", "as above with 512 clients"),
    ours(
        "turns.jobs",
        "durable agent jobs, one tool call each, 64 at once",
        Unit::PerSecond,
        AtLeast(1_000.0),
        "64 clients POST /v1/jobs?wait=30 for 4 s; the model is instant and scripted on loopback: one call of the calculator, then an answer",
    ),
    peer(
        "turns.jobs.nanobot",
        "turns.jobs",
        "nanobot serve, one tool call each, 64 at once",
        "the same 64 clients and the same scripted model: POST /v1/chat/completions, a session each; one call of list_dir on its empty workspace, then an answer; default configuration, for 8 s",
    ),
    ours(
        "first.event",
        "submit → first event of an idle server, p50",
        Unit::Ms,
        AtMostAndFsync(5.0),
        "50 times on a new connection: POST /v1/jobs?stream=true until `event: status` is read; the server rests 60 ms between",
    ),
    ours(
        "first.direct",
        "first token, asking the provider directly, p50",
        Unit::Ms,
        NoGoal,
        "100 streamed completions from the scripted model over a kept connection, until the first `data:`",
    ),
    ours(
        "first.added",
        "added to the first token by the durable job, p50",
        Unit::Ms,
        AtMostAndFsync(5.0),
        "POST /v1/jobs?stream=true on a new connection until the first text; 10 rounds to warm up, then 100 in turn with asking directly; difference of medians",
    ),
    peer(
        "first.added.litellm",
        "first.added",
        "LiteLLM proxy, nothing is stored",
        "the same client and scripted model through /v1/chat/completions of the proxy, in turn with asking directly; difference of medians",
    ),
    ours(
        "streams.committed",
        "events committed, 64 jobs of 1,000 tokens/s",
        Unit::PerSecond,
        NoGoal,
        "64 jobs stream as fast as the store takes it for 8 s; committed events by time",
    ),
    ours(
        "streams.cpu",
        "200 jobs × 50 tokens/s, a reader each: processor",
        Unit::Cores,
        AtMost(1.0),
        "user and system time of the server over 8 s of that load, by time; provider and readers live in the measuring process on the same cores",
    ),
    ours(
        "streams.memory",
        "the same: resident memory, the most",
        Unit::Mib,
        AtMost(64.0),
        "VmHWM of the server after that load",
    ),
    ours(
        "streams.frames",
        "the same: frames delivered in all",
        Unit::Count,
        NoGoal,
        "frames that the 200 readers read",
    ),
    ours(
        "streams.idle",
        "idle SSE connection, resident",
        Unit::Kib,
        AtMost(16.0),
        "growth of the server's VmRSS by 10,000 readers of a job that waits, by reader; socket buffers of the kernel are not in it",
    ),
    peer(
        "streams.idle.bare",
        "streams.idle",
        "bare hyper",
        "the same readers of the bare program, which sends one comment and waits",
    ),
    ours(
        "streams.fan_out",
        "fan-out of one job to 10,000 readers, frames",
        Unit::PerSecond,
        AtLeast(100_000.0),
        "the job streams 1,000 words at 500 a second; frames that all readers read, by the time from its start to the end of the last reader; clients on the same cores",
    ),
    ours(
        "streams.fan_out_core",
        "the same, by second of the server's own processor time",
        Unit::PerSecond,
        NoGoal,
        "those frames by user and system time of the server",
    ),
    ours(
        "streams.fan_out_memory",
        "the same: resident memory, the most",
        Unit::Mib,
        NoGoal,
        "VmHWM of the server",
    ),
    ours(
        "sandbox.python",
        "sandboxed Python, p50",
        Unit::Ms,
        AtMost(3.5),
        "400 runs of print(1), one after the other, on the release binary's broker; the zygote is warm",
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
        "400 runs of 1 + 1, as above",
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
        "node's vm.runInNewContext in one process: no boundary",
        "400 runs of 1 + 1 in a new context each, within one warm process; node's own manual says it is no security mechanism",
    ),
    ours(
        "sandbox.lenient",
        "sandboxed Python, lenient, p50",
        Unit::Ms,
        NoGoal,
        "as above, at the lenient level",
    ),
    ours("sandbox.shell", "sandboxed shell command, p50", Unit::Ms, NoGoal, "400 runs of echo 1"),
    ours(
        "sandbox.javascript_rate",
        "sandboxed JavaScript, 4 at once",
        Unit::PerSecond,
        AtLeast(600.0),
        "4 threads for 4 s",
    ),
    ours(
        "sandbox.python_rate",
        "sandboxed Python, 4 at once",
        Unit::PerSecond,
        AtLeast(250.0),
        "4 threads for 4 s",
    ),
    ours(
        "sandbox.javascript_memory",
        "private memory of a JavaScript child",
        Unit::Mib,
        AtMost(2.0),
        "Private_* of smaps_rollup of a waiting child: neither the broker's nor a zygote's pages",
    ),
    ours("sandbox.python_memory", "private memory of a Python child", Unit::Mib, AtMost(2.0), "the same"),
    ours(
        "tools.javascript",
        "JavaScript as a tool call in a job, p50",
        Unit::Ms,
        NoGoal,
        "60 jobs through the whole server; the tool's own execution_time",
    ),
    ours("tools.python", "Python as a tool call in a job, p50", Unit::Ms, NoGoal, "the same"),
    ours(
        "restart.store",
        "a store with 100,000 queued jobs",
        Unit::Mib,
        NoGoal,
        "files of the data directory after 64 clients have enqueued 100,000 jobs of 7 KiB",
    ),
    ours(
        "restart.clean",
        "ready after a clean stop, that store, p50 of 5",
        Unit::Ms,
        AtMost(40.0),
        "SIGTERM, wait for the end, then from spawning the process to 200 from /readyz",
    ),
    ours(
        "restart.killed",
        "ready after kill -9 under load, that store, p50 of 5",
        Unit::Ms,
        AtMost(40.0),
        "kill -9 while 64 clients enqueue, then from spawning the process to 200 from /readyz",
    ),
    ours(
        "restart.enqueue",
        "durable enqueue into that store, 64 clients",
        Unit::PerSecond,
        NoGoal,
        "64 clients for 4 s",
    ),
    peer(
        "restart.enqueue.bare",
        "restart.enqueue",
        "bare hyper + redb, as full (--long)",
        "the same client after the same filling",
    ),
];
