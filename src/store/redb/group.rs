//! Gathering writes into groups. Owns how long a group waits for company and how large it grows; refuses to look into
//! a write.

use super::act::Pending;
use super::writer::Shared;
use crate::ports::Urgency;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Writes that do not hurry wait no longer once they weigh so much, bytes.
const LINGER_BYTES: usize = 64 * 1024;
/// A group grows no heavier, bytes.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// A group grows no longer.
const GROUP_WRITES: usize = 1_024;

/// Writes of clients that wait for the writer weigh no more together, bytes.
const BACKLOG_BYTES: usize = 64 * 1024 * 1024;

/// What waits for the writer, by weight: the channel bounds only its number.
#[derive(Debug, Default)]
pub(super) struct Backlog(AtomicUsize);

impl Backlog {
    /// Whether a client's write has room. A single one always has.
    pub(super) fn has_room(&self, weight: usize) -> bool {
        let waiting = self.0.load(Ordering::Relaxed);
        waiting == 0 || waiting.saturating_add(weight) <= BACKLOG_BYTES
    }

    /// A write goes into the channel.
    pub(super) fn enter(&self, weight: usize) {
        self.0.fetch_add(weight, Ordering::Relaxed);
    }

    /// A write has come out of the channel, or did not get in.
    pub(super) fn leave(&self, weight: usize) {
        self.0.fetch_sub(weight, Ordering::Relaxed);
    }
}

/// What comes through the channel.
pub(super) enum Request {
    /// A write.
    Write(Box<dyn Pending>),
    /// Write what came before, then end.
    Close,
}

/// A group of writes for one commit.
pub(super) struct Group {
    pub(super) writes: Vec<Box<dyn Pending>>,
    /// The channel was empty when the group was closed.
    pub(super) is_last: bool,
    /// The store closes after this group.
    pub(super) closes: bool,
    weight: usize,
    hurries: bool,
}

impl Group {
    /// Starts with one write, takes in what waits in the channel, and lingers if nothing hurries.
    pub(super) fn gather(first: Box<dyn Pending>, channel: &Receiver<Request>, shared: &Shared) -> Self {
        let mut group = Self { writes: Vec::new(), is_last: false, closes: false, weight: 0, hurries: false };
        group.push(first, shared);
        let clock = shared.clock.as_ref();
        let deadline = clock.monotonic_ms().saturating_add(shared.options.linger_ms);
        while !group.is_full() {
            let left = || Duration::from_millis(deadline.saturating_sub(clock.monotonic_ms()));
            match group.next(channel, left) {
                Some(Request::Write(write)) => group.push(write, shared),
                Some(Request::Close) => group.closes = true,
                None => {
                    group.is_last = true;
                    break;
                }
            }
        }
        group
    }

    fn next(&self, channel: &Receiver<Request>, left: impl FnOnce() -> Duration) -> Option<Request> {
        match channel.try_recv() {
            Ok(next) => Some(next),
            Err(_) if self.is_ripe() => None,
            Err(_) => channel.recv_timeout(left()).ok(),
        }
    }

    fn push(&mut self, write: Box<dyn Pending>, shared: &Shared) {
        shared.backlog.leave(write.weight());
        self.weight = self.weight.saturating_add(write.weight());
        self.hurries |= write.urgency() == Urgency::Now;
        self.writes.push(write);
    }

    fn is_ripe(&self) -> bool {
        self.hurries || self.weight >= LINGER_BYTES
    }

    fn is_full(&self) -> bool {
        self.closes || self.weight >= GROUP_BYTES || self.writes.len() >= GROUP_WRITES
    }
}
