//! Event streams.

use super::Goal::{AtLeast, AtMost};
use super::{Figure, ours, peer};
use crate::unit::Unit;

pub(super) static FIGURES: &[Figure] = &[
    ours(
        "streams.committed",
        "events committed, 64 jobs of 1,000 tokens/s",
        Unit::PerSecond,
        &[],
        "64 jobs stream for 8 s as fast as the store accepts it; committed events divided by time",
    ),
    ours(
        "streams.cpu",
        "200 jobs × 50 tokens/s, one reader each: processor",
        Unit::Cores,
        &[AtMost(0.5)],
        "user and system time of the server during 8 s of that load, divided by time; provider and readers run in the measuring process",
    ),
    ours(
        "streams.memory",
        "200 jobs × 50 tokens/s, one reader each: peak memory",
        Unit::Mib,
        &[AtMost(64.0)],
        "VmHWM of the server after that load",
    ),
    ours(
        "streams.frames",
        "200 jobs × 50 tokens/s, one reader each: frames delivered",
        Unit::Count,
        &[],
        "frames that the 200 readers read",
    ),
    ours(
        "streams.idle",
        "memory of an idle SSE connection",
        Unit::Kib,
        &[AtMost(10.0)],
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
        &[AtLeast(400_000.0)],
        "the job streams 1,000 words at 500 words/s; frames of all readers, divided by the time until the last reader has finished",
    ),
    ours(
        "streams.fan_out_core",
        "one job to 10,000 readers: frames a second of processor time",
        Unit::PerSecond,
        &[],
        "those frames, divided by user and system time of the server",
    ),
    ours(
        "streams.fan_out_memory",
        "one job to 10,000 readers: peak memory",
        Unit::Mib,
        &[],
        "VmHWM of the server",
    ),
];
