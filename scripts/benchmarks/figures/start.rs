//! Size, start and memory.

use super::Goal::AtMost;
use super::{Figure, ours, peer};
use crate::unit::Unit;

pub(super) static FIGURES: &[Figure] = &[
    ours(
        "size.binary",
        "release binary, static",
        Unit::Mib,
        &[AtMost(48e6 / 1_048_576.0)], // 48 MB
        "length of dist/nanoclaw, stripped, with the C library",
    ),
    ours(
        "start.ready",
        "ready after start, empty store, p50 of 9",
        Unit::Ms,
        &[AtMost(20.0)],
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
        "idle memory of the server's process",
        Unit::Mib,
        &[AtMost(12.0)],
        "VmRSS of the server's process 2 s after it was ready; /readyz was the only request",
    ),
    ours(
        "start.idle_all",
        "idle memory of all processes",
        Unit::Mib,
        &[AtMost(20.0)],
        "Pss of the server and its descendants 2 s after it was ready; shared pages count once",
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
        "start.first_python",
        "first use of Python after the start, p50 of 5",
        Unit::Ms,
        &[AtMost(60.0)],
        "from POST /v1/jobs?wait=30 to its answer: a whole job of the demo model whose call of execute_python is the server's first; print(1)",
    ),
];
