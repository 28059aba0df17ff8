//! Gathering writes into groups. Owns how long a group waits for company and how large it grows; refuses to look into
//! a write.

use super::act::Pending;
use crate::ports::{Clock, Urgency};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Writes that do not hurry wait no longer once they weigh so much, bytes.
const LINGER_BYTES: usize = 64 * 1024;
/// A group grows no heavier, bytes.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// A group grows no longer.
const GROUP_WRITES: usize = 1_024;

/// What comes through the channel.
pub(super) enum Request {
    /// A write.
    Write(Box<dyn Pending>),
    /// Write what came before, then end.
    Close,
}

/// A group of writes for one commit.
pub(super) struct Batch {
    pub(super) writes: Vec<Box<dyn Pending>>,
    /// The channel was empty when the group was closed.
    pub(super) is_last: bool,
    /// The store closes after this group.
    pub(super) closes: bool,
    weight: usize,
    hurries: bool,
}

impl Batch {
    /// Starts with one write, takes in what waits in the channel, and lingers if nothing hurries.
    pub(super) fn gather(
        first: Box<dyn Pending>,
        channel: &Receiver<Request>,
        linger: Duration,
        clock: &dyn Clock,
    ) -> Self {
        let mut batch = Self { writes: Vec::new(), is_last: false, closes: false, weight: 0, hurries: false };
        batch.push(first);
        let deadline =
            clock.monotonic_ms().saturating_add(u64::try_from(linger.as_millis()).unwrap_or(u64::MAX));
        while !batch.is_full() {
            let next = match channel.try_recv() {
                Ok(next) => next,
                Err(_) if batch.is_ripe() => {
                    batch.is_last = true;
                    break;
                }
                Err(_) => {
                    let left = deadline.saturating_sub(clock.monotonic_ms());
                    match channel.recv_timeout(Duration::from_millis(left)) {
                        Ok(next) => next,
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                            batch.is_last = true;
                            break;
                        }
                    }
                }
            };
            match next {
                Request::Write(write) => batch.push(write),
                Request::Close => {
                    batch.closes = true;
                    break;
                }
            }
        }
        batch
    }

    fn push(&mut self, write: Box<dyn Pending>) {
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
