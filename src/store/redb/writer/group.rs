//! Gathers writes into groups: how long a group waits for more writes, and how large it grows.

use crate::ports::Urgency;
use crate::store::redb::writer::shared::StoreShared;
use crate::store::redb::writer::write::QueuedWrite;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Weight at which a group without urgent writes stops waiting, bytes.
const LINGER_BYTES: usize = 64 * 1024;
/// Maximum weight of a group, bytes.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Maximum writes of a group.
const GROUP_WRITES: usize = 1_024;

/// A message to the writer thread.
pub(crate) enum WriterRequest {
    /// A write.
    Write(Box<dyn QueuedWrite>),
    /// Serve the waiting claims.
    Claims,
    /// Finish the earlier writes, then end.
    Close,
}

/// A group of writes for one commit.
pub(crate) struct WriteGroup {
    pub(crate) writes: Vec<Box<dyn QueuedWrite>>,
    /// The channel was empty when the group was closed.
    pub(crate) is_last: bool,
    /// The store closes after this group.
    pub(crate) closes: bool,
    weight: usize,
    has_urgent: bool,
}

impl WriteGroup {
    /// Starts with one request and adds those that wait in the channel. If no write is urgent, waits for more
    /// until the last commit is `linger_ms` old, so that streams share commits and an idle server is prompt.
    pub(crate) fn gather(
        first: WriterRequest,
        channel: &Receiver<WriterRequest>,
        shared: &StoreShared,
        committed_at_ms: u64,
    ) -> Self {
        let mut group =
            Self { writes: Vec::new(), is_last: false, closes: false, weight: 0, has_urgent: false };
        group.push(first, shared);
        let clock = shared.clock.as_ref();
        let deadline = committed_at_ms.saturating_add(shared.options.linger_ms);
        let mut has_waited = false;
        while !group.is_full() {
            if let Ok(request) = channel.try_recv() {
                group.push(request, shared);
                continue;
            }
            let left = Duration::from_millis(deadline.saturating_sub(clock.monotonic_ms()));
            if has_waited || group.is_due() || left.is_zero() {
                group.is_last = true;
                break;
            }
            let missing = LINGER_BYTES.saturating_sub(group.weight);
            let finds_request = || channel.try_recv().map(|request| group.push(request, shared)).is_ok();
            has_waited = shared.linger.wait(left, missing, finds_request);
        }
        group
    }

    fn push(&mut self, request: WriterRequest, shared: &StoreShared) {
        let write = match request {
            WriterRequest::Write(write) => write,
            WriterRequest::Claims => return self.has_urgent = true,
            WriterRequest::Close => return self.closes = true,
        };
        let options = write.options();
        shared.backlog.leave(options.weight);
        self.weight = self.weight.saturating_add(options.weight);
        self.has_urgent |= options.urgency == Urgency::Now;
        self.writes.push(write);
    }

    fn is_due(&self) -> bool {
        self.has_urgent || self.weight >= LINGER_BYTES
    }

    fn is_full(&self) -> bool {
        self.closes || self.weight >= GROUP_BYTES || self.writes.len() >= GROUP_WRITES
    }
}
