//! A store with 100,000 queued jobs.

use super::Goal::AtMost;
use super::{Figure, ours, peer};
use crate::unit::Unit;

pub(super) static FIGURES: &[Figure] = &[
    ours(
        "restart.store",
        "size of the store with 100,000 queued jobs",
        Unit::Mib,
        &[],
        "files in the data directory after 64 clients have enqueued 100,000 jobs of 7 KiB",
    ),
    ours(
        "restart.clean",
        "ready after a clean stop, p50 of 5",
        Unit::Ms,
        &[AtMost(20.0)],
        "after SIGTERM and the end of the process: from the next start to 200 from /readyz",
    ),
    ours(
        "restart.killed",
        "ready after kill -9 under load, p50 of 5",
        Unit::Ms,
        &[AtMost(20.0)],
        "after kill -9 while 64 clients enqueue: from the next start to 200 from /readyz",
    ),
    ours(
        "restart.enqueue",
        "durable enqueue into that store, 64 clients",
        Unit::PerSecond,
        &[],
        "64 clients enqueue for 4 s",
    ),
    peer(
        "restart.enqueue.bare",
        "restart.enqueue",
        "bare hyper + redb, equally full (--long)",
        "the same clients after the same filling",
    ),
];
