//! The sandbox, alone and as a tool of a job.

use super::Goal::{AtLeast, AtMost};
use super::{Figure, ours, peer, times};
use crate::unit::Unit;

pub(super) static FIGURES: &[Figure] = &[
    ours(
        "sandbox.python",
        "sandboxed Python, p50",
        Unit::Ms,
        &[times(0.25, "python3", "sandbox.python.plain")],
        "400 runs of print(1), one after the other, with a warm zygote; they alternate with python3",
    ),
    peer(
        "sandbox.python.bwrap",
        "sandbox.python",
        "bubblewrap + python3 -I -S",
        "40 runs of the same: --unshare-all, /usr read-only",
    ),
    peer(
        "sandbox.python.plain",
        "sandbox.python",
        "python3 -I -S, no sandbox",
        "100 runs of the same, four runs in the sandbox after each",
    ),
    ours(
        "sandbox.javascript",
        "sandboxed JavaScript, p50",
        Unit::Ms,
        &[AtMost(1.0)],
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
        &[],
        "400 runs of print(1) at the lenient level",
    ),
    ours("sandbox.shell", "sandboxed shell command, p50", Unit::Ms, &[], "400 runs of echo 1"),
    ours(
        "sandbox.javascript_rate",
        "sandboxed JavaScript, 4 threads",
        Unit::PerSecond,
        &[AtLeast(600.0)],
        "4 threads run programs for 4 s",
    ),
    ours(
        "sandbox.python_rate",
        "sandboxed Python, 4 threads",
        Unit::PerSecond,
        &[AtLeast(250.0)],
        "4 threads run programs for 4 s",
    ),
    ours(
        "sandbox.javascript_memory",
        "private memory of a JavaScript child",
        Unit::Mib,
        &[AtMost(2.0)],
        "Private_* in smaps_rollup of a waiting child, without pages shared with broker or zygote",
    ),
    ours("sandbox.python_memory", "private memory of a Python child", Unit::Mib, &[AtMost(2.0)], "the same"),
    ours(
        "tools.javascript",
        "JavaScript as a tool call in a job, p50",
        Unit::Ms,
        &[],
        "60 jobs through the whole server; the execution_time in the tool's result",
    ),
    ours("tools.python", "Python as a tool call in a job, p50", Unit::Ms, &[], "the same"),
];
