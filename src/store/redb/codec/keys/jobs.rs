//! Keys of jobs, their logs, queues and lists, and of idempotency keys.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a job's key.
pub(crate) type JobBytes = [u8; 16];
/// Bytes of a [`LogKey`].
pub(crate) type LogBytes = [u8; 28];
/// Bytes of a [`ReadyKey`].
pub(crate) type ReadyBytes = [u8; 17];
/// Bytes of a [`Waiting`].
pub(crate) type ReadyEntryBytes = [u8; 24];
/// Bytes of an [`EndedKey`].
pub(crate) type EndedBytes = [u8; 25];
/// Bytes of a [`DelayedKey`].
pub(crate) type DelayedBytes = [u8; 16];
/// Bytes of an [`JobOwnerKey`].
pub(crate) type JobOwnerBytes = [u8; 13];
/// Bytes of a [`FairKey`].
pub(crate) type FairBytes = [u8; 5];
/// Bytes of a [`IdempotencyRef`].
pub(crate) type IdempotencyBytes = [u8; 36];
/// Bytes of a [`IdempotencyExpiryKey`].
pub(crate) type IdempotencyExpiryBytes = [u8; 44];

/// A record of a job's log: an event has `sub` 0, the marks after it 1, 2, 3 ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogKey {
    pub(crate) job: JobId,
    pub(crate) seq: u64,
    pub(crate) sub: u32,
}

impl LogKey {
    /// The last key that a job's log can have.
    pub(crate) fn last(job: JobId) -> Self {
        Self { job, seq: u64::MAX, sub: u32::MAX }
    }

    pub(crate) fn encode(self) -> LogBytes {
        join(&[&self.job.to_bytes(), &self.seq.to_be_bytes(), &self.sub.to_be_bytes()])
    }

    pub(crate) fn decode(bytes: &LogBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { job: JobId::from_bytes(cut.take()), seq: cut.u64(), sub: cut.u32() }
    }
}

/// A place in the ready queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadyKey {
    pub(crate) priority: u8,
    pub(crate) fair: u64,
    pub(crate) accept: u64,
}

impl ReadyKey {
    pub(crate) fn encode(self) -> ReadyBytes {
        join(&[&[self.priority], &self.fair.to_be_bytes(), &self.accept.to_be_bytes()])
    }

    pub(crate) fn decode(bytes: &ReadyBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { priority: cut.u8(), fair: cut.u64(), accept: cut.u64() }
    }
}

/// A job in the ready queue, and since when it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadyEntry {
    pub(crate) job: JobId,
    pub(crate) since_ms: u64,
}

impl ReadyEntry {
    pub(crate) fn encode(self) -> ReadyEntryBytes {
        join(&[&self.job.to_bytes(), &self.since_ms.to_be_bytes()])
    }

    pub(crate) fn decode(bytes: &ReadyEntryBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { job: JobId::from_bytes(cut.take()), since_ms: cut.u64() }
    }
}

/// An ended job, by what is left of it and by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndedKey {
    /// How much retention has taken: see [`crate::store::redb::retention::sweep`].
    pub(crate) stage: u8,
    pub(crate) finished_at_ms: u64,
    pub(crate) job: JobId,
}

impl EndedKey {
    pub(crate) fn encode(self) -> EndedBytes {
        join(&[&[self.stage], &self.finished_at_ms.to_be_bytes(), &self.job.to_bytes()])
    }

    pub(crate) fn decode(bytes: &EndedBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { stage: cut.u8(), finished_at_ms: cut.u64(), job: JobId::from_bytes(cut.take()) }
    }
}

/// A job that waits for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DelayedKey {
    pub(crate) run_at_ms: u64,
    pub(crate) accept: u64,
}

impl DelayedKey {
    pub(crate) fn encode(self) -> DelayedBytes {
        join(&[&self.run_at_ms.to_be_bytes(), &self.accept.to_be_bytes()])
    }

    pub(crate) fn decode(bytes: &DelayedBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { run_at_ms: cut.u64(), accept: cut.u64() }
    }
}

/// A job in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobOwnerKey {
    pub(crate) user: UserId,
    pub(crate) status: JobStatus,
    pub(crate) accept: u64,
}

impl JobOwnerKey {
    pub(crate) fn encode(self) -> JobOwnerBytes {
        join(&[&self.user.0.to_be_bytes(), &[status_byte(self.status)], &self.accept.to_be_bytes()])
    }

    /// The user inside an encoded key.
    pub(crate) fn user(bytes: &JobOwnerBytes) -> UserId {
        UserId(KeyReader(bytes).u32())
    }

    /// The acceptance number inside an encoded key.
    pub(crate) fn accept(bytes: &JobOwnerBytes) -> u64 {
        let mut cut = KeyReader(bytes);
        let (_user, _status) = (cut.u32(), cut.u8());
        cut.u64()
    }
}

/// What a user has had of a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FairKey {
    pub(crate) priority: u8,
    pub(crate) user: UserId,
}

impl FairKey {
    pub(crate) fn encode(self) -> FairBytes {
        join(&[&[self.priority], &self.user.0.to_be_bytes()])
    }
}

/// These bytes are on disk: a new state gets a new number, none is ever given out twice.
fn status_byte(status: JobStatus) -> u8 {
    match status {
        JobStatus::Queued => 1,
        JobStatus::Running => 2,
        JobStatus::Succeeded => 3,
        JobStatus::Failed => 4,
        JobStatus::Cancelled => 5,
        JobStatus::Waiting => 6,
    }
}

/// A user's idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyRef {
    pub(crate) user: UserId,
    pub(crate) key: [u8; 32],
}

impl IdempotencyRef {
    pub(crate) fn encode(self) -> IdempotencyBytes {
        join(&[&self.user.0.to_be_bytes(), &self.key])
    }
}

/// When an idempotency key may be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyExpiryKey {
    pub(crate) until_ms: u64,
    pub(crate) enter_queue: IdempotencyRef,
}

impl IdempotencyExpiryKey {
    pub(crate) fn encode(self) -> IdempotencyExpiryBytes {
        join(&[&self.until_ms.to_be_bytes(), &self.enter_queue.encode()])
    }

    pub(crate) fn decode(bytes: &IdempotencyExpiryBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { until_ms: cut.u64(), enter_queue: IdempotencyRef { user: UserId(cut.u32()), key: cut.take() } }
    }
}

/// Bytes of a [`BackgroundJobKey`].
pub(crate) type BackgroundJobBytes = [u8; 20];

/// An unfinished job in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BackgroundJobKey {
    pub(crate) user: UserId,
    pub(crate) job: JobId,
}

impl BackgroundJobKey {
    /// Before and behind all of a user's.
    pub(crate) fn ends(user: UserId) -> (BackgroundJobBytes, BackgroundJobBytes) {
        let key = |bits| Self { user, job: JobId::from_bits(bits) }.encode();
        (key(u128::MIN), key(u128::MAX))
    }

    pub(crate) fn encode(self) -> BackgroundJobBytes {
        join(&[&self.user.0.to_be_bytes(), &self.job.to_bytes()])
    }

    pub(crate) fn decode(bytes: &BackgroundJobBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { user: UserId(cut.u32()), job: JobId::from_bytes(cut.take()) }
    }
}
