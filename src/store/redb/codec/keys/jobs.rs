//! Keys of jobs, their logs, queues and lists, and of idempotency keys.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::store::redb::codec::keys::reader::{KeyPart, KeyReader, id_ends, join, key};

/// Bytes of a job's key.
pub(crate) type JobBytes = [u8; 16];
/// Bytes of an [`JobOwnerKey`].
pub(crate) type JobOwnerBytes = [u8; 13];
/// Bytes of a [`FairKey`].
pub(crate) type FairBytes = [u8; 5];
/// Bytes of a [`IdempotencyRef`].
pub(crate) type IdempotencyBytes = [u8; 36];
/// Bytes of a [`IdempotencyExpiryKey`].
pub(crate) type IdempotencyExpiryBytes = [u8; 44];

key! {
    /// A record of a job's log: an event has `sub` 0, the marks after it 1, 2, 3 ….
    LogKey, LogBytes = 28 {
        job: JobId,
        seq: u64,
        sub: u32,
    }
}

impl LogKey {
    /// The last key that a job's log can have.
    pub(crate) fn last(job: JobId) -> Self {
        Self { job, seq: u64::MAX, sub: u32::MAX }
    }
}

key! {
    /// A stored chat completion of a user.
    OwnedCompletionKey, OwnedCompletionBytes = 20 {
        user: UserId,
        job: JobId,
    }
}

impl OwnedCompletionKey {
    /// The first and the last key that a user's completions can have.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        id_ends(|bits| Self { user, job: JobId::from_bits(bits) })
    }
}

/// Bytes of the key of an answered request for an approval.
pub(crate) type AnsweredApprovalBytes = [u8; 24];

/// The key of an answered request for an approval: the job that asked, and the place of the request.
pub(crate) fn answered_approval_key(job: JobId, place: u64) -> AnsweredApprovalBytes {
    join(&[&job.to_bytes(), &place.to_be_bytes()])
}

key! {
    /// A position in the ready queue.
    ReadyKey, ReadyBytes = 17 {
        priority: u8,
        fair: u64,
        accept: u64,
    }
}

key! {
    /// A job in the ready queue, and the time since when it is ready.
    ReadyEntry, ReadyEntryBytes = 24 {
        job: JobId,
        since_ms: u64,
    }
}

key! {
    /// A position in the ready queue, user by user.
    UserReadyKey, UserReadyBytes = 21 {
        user: UserId,
        priority: u8,
        fair: u64,
        accept: u64,
    }
}

impl UserReadyKey {
    /// The position of this user's job.
    pub(crate) fn of(user: UserId, ReadyKey { priority, fair, accept }: ReadyKey) -> Self {
        Self { user, priority, fair, accept }
    }

    /// The position in the ready queue.
    pub(crate) fn ready(self) -> ReadyKey {
        ReadyKey { priority: self.priority, fair: self.fair, accept: self.accept }
    }

    /// The first key that the user's next priority can have.
    pub(crate) fn next_priority(self) -> Option<Self> {
        Some(Self { priority: self.priority.checked_add(1)?, fair: 0, accept: 0, ..self })
    }
}

key! {
    /// An ended job by retention stage and end.
    EndedKey, EndedBytes = 25 {
        /// Retention stage: see [`crate::store::redb::retention::sweep`].
        stage: u8,
        finished_at_ms: u64,
        job: JobId,
    }
}

key! {
    /// A job that waits for its time.
    DelayedKey, DelayedBytes = 16 {
        run_at_ms: u64,
        accept: u64,
    }
}

key! {
    /// A job that waits for the end of another.
    JobDependentKey, JobDependentBytes = 32 {
        predecessor: JobId,
        dependent: JobId,
    }
}

impl JobDependentKey {
    /// The first and the last key that the dependents of a job can have.
    pub(crate) fn ends(predecessor: JobId) -> (JobDependentBytes, JobDependentBytes) {
        id_ends(|bits| Self { predecessor, dependent: JobId::from_bits(bits) }.encode())
    }
}

key! {
    /// The end of a job whose spans wait for the export.
    SpanExportKey, SpanExportBytes = 28 {
        finished_at_ms: u64,
        job: JobId,
        user: UserId,
    }
}

key! {
    /// When the store looks whether a job has to end.
    JobEndKey, JobEndBytes = 24 {
        at_ms: u64,
        job: JobId,
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
        KeyReader(bytes).part()
    }

    /// Whether the job of an encoded key has not ended.
    pub(crate) fn is_unfinished(bytes: &JobOwnerBytes) -> bool {
        let mut reader = KeyReader(bytes);
        let (_, status): (UserId, u8) = (reader.part(), reader.part());
        JobStatus::ALL.iter().any(|of| status_byte(*of) == status && !of.is_terminal())
    }

    /// The acceptance number inside an encoded key.
    pub(crate) fn accept(bytes: &JobOwnerBytes) -> u64 {
        let mut reader = KeyReader(bytes);
        let _user_and_status: [u8; 5] = reader.take();
        reader.part()
    }
}

/// A user's share of a priority.
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

    pub(crate) fn decode(bytes: &IdempotencyBytes) -> Self {
        let mut reader = KeyReader(bytes);
        Self { user: reader.part(), key: reader.part() }
    }
}

/// Expiry of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyExpiryKey {
    pub(crate) until_ms: u64,
    pub(crate) of: IdempotencyRef,
}

impl IdempotencyExpiryKey {
    pub(crate) fn encode(self) -> IdempotencyExpiryBytes {
        join(&[&self.until_ms.to_be_bytes(), &self.of.encode()])
    }

    pub(crate) fn decode(bytes: &IdempotencyExpiryBytes) -> Self {
        let mut reader = KeyReader(bytes);
        let (until_ms, user, key) = (reader.part(), reader.part(), reader.part());
        Self { until_ms, of: IdempotencyRef { user, key } }
    }
}

key! {
    /// An unfinished background job in its user's list.
    BackgroundJobKey, BackgroundJobBytes = 20 {
        user: UserId,
        job: JobId,
    }
}

impl BackgroundJobKey {
    /// The first and the last key that a user's can have.
    pub(crate) fn ends(user: UserId) -> (BackgroundJobBytes, BackgroundJobBytes) {
        id_ends(|bits| Self { user, job: JobId::from_bits(bits) }.encode())
    }
}

/// Bytes of the key of a checkpoint: its number.
pub(crate) type CheckpointBytes = [u8; 8];

/// The key of the checkpoint with this number.
pub(crate) fn checkpoint_key(number: u64) -> CheckpointBytes {
    number.to_be_bytes()
}
