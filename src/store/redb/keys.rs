//! How keys become bytes. Owns one codec for each key; every codec keeps order (bytes sort as values do) and width.
//! Refuses to know what stands behind a key.

use crate::domain::id::{BatchId, ConversationId, JobId, UserId};
use crate::domain::job::JobStatus;

/// Bytes of a job's key.
pub(super) type JobBytes = [u8; 16];
/// Bytes of a [`LogKey`].
pub(super) type LogBytes = [u8; 28];
/// Bytes of a [`ReadyKey`].
pub(super) type ReadyBytes = [u8; 17];
/// Bytes of a [`Waiting`].
pub(super) type WaitingBytes = [u8; 24];
/// Bytes of an [`EndedKey`].
pub(super) type EndedBytes = [u8; 25];
/// Bytes of a [`DelayedKey`].
pub(super) type DelayedBytes = [u8; 16];
/// Bytes of a [`TurnKey`].
pub(super) type TurnBytes = [u8; 76];
/// Bytes of a [`UsageKey`].
pub(super) type UsageBytes = [u8; 40];
/// Bytes of an [`OwnerKey`].
pub(super) type OwnerBytes = [u8; 13];
/// Bytes of a [`FairKey`].
pub(super) type FairBytes = [u8; 5];
/// Bytes of a batch's key.
pub(super) type BatchBytes = [u8; 16];
/// Bytes of a [`LineKey`].
pub(super) type LineBytes = [u8; 20];
/// Bytes of an [`OwnedBatchKey`].
pub(super) type OwnedBatchBytes = [u8; 20];
/// Bytes of a [`OnceRef`].
pub(super) type OnceBytes = [u8; 36];
/// Bytes of a [`OnceDueKey`].
pub(super) type OnceDueBytes = [u8; 44];

/// A record of a job's log: an event has `sub` 0, the marks after it 1, 2, 3 ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogKey {
    pub(super) job: JobId,
    pub(super) seq: u64,
    pub(super) sub: u32,
}

impl LogKey {
    /// The last key that a job's log can have.
    pub(super) fn last(job: JobId) -> Self {
        Self { job, seq: u64::MAX, sub: u32::MAX }
    }

    pub(super) fn encode(self) -> LogBytes {
        join(&[&self.job.to_bytes(), &self.seq.to_be_bytes(), &self.sub.to_be_bytes()])
    }

    pub(super) fn decode(bytes: &LogBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { job: JobId::from_bytes(cut.take()), seq: cut.u64(), sub: cut.u32() }
    }
}

/// A place in the ready queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyKey {
    pub(super) priority: u8,
    pub(super) fair: u64,
    pub(super) accept: u64,
}

impl ReadyKey {
    pub(super) fn encode(self) -> ReadyBytes {
        join(&[&[self.priority], &self.fair.to_be_bytes(), &self.accept.to_be_bytes()])
    }

    pub(super) fn decode(bytes: &ReadyBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { priority: cut.u8(), fair: cut.u64(), accept: cut.u64() }
    }
}

/// Who stands in the ready queue, and since when: the only value here, because it is as bare as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) job: JobId,
    pub(super) since_ms: u64,
}

impl Waiting {
    pub(super) fn encode(self) -> WaitingBytes {
        join(&[&self.job.to_bytes(), &self.since_ms.to_be_bytes()])
    }

    pub(super) fn decode(bytes: &WaitingBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { job: JobId::from_bytes(cut.take()), since_ms: cut.u64() }
    }
}

/// An ended job, by what is left of it and by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndedKey {
    /// How much retention has taken: see [`super::retention`].
    pub(super) stage: u8,
    pub(super) finished_at_ms: u64,
    pub(super) job: JobId,
}

impl EndedKey {
    pub(super) fn encode(self) -> EndedBytes {
        join(&[&[self.stage], &self.finished_at_ms.to_be_bytes(), &self.job.to_bytes()])
    }

    pub(super) fn decode(bytes: &EndedBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { stage: cut.u8(), finished_at_ms: cut.u64(), job: JobId::from_bytes(cut.take()) }
    }
}

/// A job that waits for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DelayedKey {
    pub(super) run_at_ms: u64,
    pub(super) accept: u64,
}

impl DelayedKey {
    pub(super) fn encode(self) -> DelayedBytes {
        join(&[&self.run_at_ms.to_be_bytes(), &self.accept.to_be_bytes()])
    }

    pub(super) fn decode(bytes: &DelayedBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { run_at_ms: cut.u64(), accept: cut.u64() }
    }
}

/// A job's place in a conversation of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnKey<'a> {
    pub(super) user: UserId,
    pub(super) conversation: &'a ConversationId,
    pub(super) accept: u64,
}

impl TurnKey<'_> {
    /// A name never holds a zero byte, so padding with zeros keeps names apart and in order.
    pub(super) fn encode(self) -> TurnBytes {
        let mut name = [0; ConversationId::MAX_BYTES];
        for (slot, byte) in name.iter_mut().zip(self.conversation.as_str().bytes()) {
            *slot = byte;
        }
        join(&[&self.user.0.to_be_bytes(), &name, &self.accept.to_be_bytes()])
    }

    /// The acceptance number inside an encoded key.
    pub(super) fn accept(bytes: &TurnBytes) -> u64 {
        bytes.last_chunk::<8>().map_or(0, |accept| u64::from_be_bytes(*accept))
    }

    /// The first and the last key that the conversation of an encoded key can have.
    pub(super) fn line_of(member: &TurnBytes) -> (TurnBytes, TurnBytes) {
        let name = member.split_last_chunk::<8>().map_or(&[][..], |(name, _accept)| name);
        (join(&[name, &u64::MIN.to_be_bytes()]), join(&[name, &u64::MAX.to_be_bytes()]))
    }
}

/// What a user has spent on a model in a day, or in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsageKey {
    pub(super) user: UserId,
    /// Days since 1970 in UTC; in the table of hours, hours.
    pub(super) at: u32,
    /// A digest of the model's name, which may be of any length; the value holds the name.
    pub(super) model: [u8; 32],
}

impl UsageKey {
    pub(super) fn encode(self) -> UsageBytes {
        join(&[&self.user.0.to_be_bytes(), &self.at.to_be_bytes(), &self.model])
    }

    pub(super) fn decode(bytes: &UsageBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { user: UserId(cut.u32()), at: cut.u32(), model: cut.take() }
    }
}

/// A job in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnerKey {
    pub(super) user: UserId,
    pub(super) status: JobStatus,
    pub(super) accept: u64,
}

impl OwnerKey {
    pub(super) fn encode(self) -> OwnerBytes {
        join(&[&self.user.0.to_be_bytes(), &[status_byte(self.status)], &self.accept.to_be_bytes()])
    }

    /// The user inside an encoded key.
    pub(super) fn user(bytes: &OwnerBytes) -> UserId {
        UserId(Cut(bytes).u32())
    }

    /// The acceptance number inside an encoded key.
    pub(super) fn accept(bytes: &OwnerBytes) -> u64 {
        let mut cut = Cut(bytes);
        let (_user, _status) = (cut.u32(), cut.u8());
        cut.u64()
    }
}

/// What a user has had of a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FairKey {
    pub(super) priority: u8,
    pub(super) user: UserId,
}

impl FairKey {
    pub(super) fn encode(self) -> FairBytes {
        join(&[&[self.priority], &self.user.0.to_be_bytes()])
    }
}

/// A line of a batch, or a number in the order of its lines' ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineKey {
    pub(super) batch: BatchId,
    pub(super) line: u32,
}

impl LineKey {
    /// The first and the last key that a batch's lines can have.
    pub(super) fn all_of(batch: BatchId) -> (LineBytes, LineBytes) {
        (Self { batch, line: 0 }.encode(), Self { batch, line: u32::MAX }.encode())
    }

    pub(super) fn encode(self) -> LineBytes {
        join(&[&self.batch.to_bytes(), &self.line.to_be_bytes()])
    }

    pub(super) fn decode(bytes: &LineBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { batch: BatchId::from_bytes(cut.take()), line: cut.u32() }
    }
}

/// A batch in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnedBatchKey {
    pub(super) user: UserId,
    pub(super) batch: BatchId,
}

impl OwnedBatchKey {
    pub(super) fn encode(self) -> OwnedBatchBytes {
        join(&[&self.user.0.to_be_bytes(), &self.batch.to_bytes()])
    }

    pub(super) fn decode(bytes: &OwnedBatchBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { user: UserId(cut.u32()), batch: BatchId::from_bytes(cut.take()) }
    }
}

/// A user's idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnceRef {
    pub(super) user: UserId,
    pub(super) key: [u8; 32],
}

impl OnceRef {
    pub(super) fn encode(self) -> OnceBytes {
        join(&[&self.user.0.to_be_bytes(), &self.key])
    }
}

/// When an idempotency key may be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnceDueKey {
    pub(super) until_ms: u64,
    pub(super) place: OnceRef,
}

impl OnceDueKey {
    pub(super) fn encode(self) -> OnceDueBytes {
        join(&[&self.until_ms.to_be_bytes(), &self.place.encode()])
    }

    pub(super) fn decode(bytes: &OnceDueBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { until_ms: cut.u64(), place: OnceRef { user: UserId(cut.u32()), key: cut.take() } }
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

pub(super) fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    debug_assert_eq!(parts.iter().map(|p| p.len()).sum::<usize>(), N, "parts fill the key");
    let mut out = [0; N];
    for (slot, byte) in out.iter_mut().zip(parts.iter().copied().flatten()) {
        *slot = *byte;
    }
    out
}

/// Reads a key from the front. Widths are fixed by the types above, so it never runs short.
pub(super) struct Cut<'a>(pub(super) &'a [u8]);

impl Cut<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *head
    }

    fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.take())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn conversation() -> impl Strategy<Value = ConversationId> {
        proptest::collection::vec(proptest::sample::select(b"-09AZ_az".to_vec()), 1..=64)
            .prop_map(|bytes| ConversationId::try_from(String::from_utf8(bytes).unwrap()).unwrap())
    }

    proptest! {
        #[test]
        fn log_keys_round_trip_and_sort(a: (u128, u64, u32), b: (u128, u64, u32), same: bool) {
            let key = |(job, seq, sub)| LogKey { job: JobId::from_bits(job), seq, sub };
            let (a, b) = (key(a), key(if same { (a.0, b.1, b.2) } else { b }));
            prop_assert_eq!(LogKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn ready_keys_round_trip_and_sort(a: (u8, u64, u64), b: (u8, u64, u64), same: bool) {
            let key = |(priority, fair, accept)| ReadyKey { priority, fair, accept };
            let (a, b) = (key(a), key(if same { (a.0, a.1, b.2) } else { b }));
            prop_assert_eq!(ReadyKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn waiting_jobs_round_trip(job: u128, since_ms: u64) {
            let waiting = Waiting { job: JobId::from_bits(job), since_ms };
            prop_assert_eq!(Waiting::decode(&waiting.encode()), waiting);
        }

        #[test]
        fn ended_keys_round_trip_and_sort(a: (u8, u64, u128), b: (u8, u64, u128), same: bool) {
            let key = |(stage, finished_at_ms, job)| {
                EndedKey { stage, finished_at_ms, job: JobId::from_bits(job) }
            };
            let (a, b) = (key(a), key(if same { (a.0, a.1, b.2) } else { b }));
            prop_assert_eq!(EndedKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn delayed_keys_round_trip_and_sort(a: (u64, u64), b: (u64, u64)) {
            let key = |(run_at_ms, accept)| DelayedKey { run_at_ms, accept };
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(DelayedKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn p7_turn_keys_sort_and_keep_users_and_conversations_apart(
            a in (any::<u32>(), conversation(), any::<u64>()),
            b in (any::<u32>(), conversation(), any::<u64>()),
            same_user: bool,
            same_name: bool,
        ) {
            let name = if same_name { &a.1 } else { &b.1 };
            let one = TurnKey { user: UserId(a.0), conversation: &a.1, accept: a.2 };
            let two = TurnKey { user: UserId(if same_user { a.0 } else { b.0 }), conversation: name, accept: b.2 };
            prop_assert_eq!(one.encode().cmp(&two.encode()), one.cmp(&two));
        }

        #[test]
        fn owner_keys_sort_by_acceptance_inside_a_user_and_status(user: u32, a: u64, b: u64) {
            let key = |accept| OwnerKey { user: UserId(user), status: JobStatus::Failed, accept }.encode();
            prop_assert_eq!(OwnerKey::accept(&key(a)), a);
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn p7_usage_keys_round_trip_and_sort_by_user_then_day(a: (u32, u32, [u8; 32]), b: (u32, u32, [u8; 32]), same: bool) {
            let key = |(user, at, model)| UsageKey { user: UserId(user), at, model };
            let (a, b) = (a, if same { (a.0, b.1, b.2) } else { b });
            prop_assert_eq!(UsageKey::decode(&key(a).encode()), key(a));
            prop_assert_eq!(key(a).encode().cmp(&key(b).encode()), a.cmp(&b));
        }

        #[test]
        fn fair_keys_are_one_to_one(a: (u8, u32), b: (u8, u32)) {
            let key = |(priority, user)| FairKey { priority, user: UserId(user) };
            prop_assert_eq!(key(a).encode() == key(b).encode(), a == b);
        }
    }

    #[test]
    fn a_name_and_its_extension_are_neighbours_not_mixed() {
        let name = |text: &str| ConversationId::try_from(text.to_owned()).unwrap();
        let key = |n, accept| TurnKey { user: UserId(1), conversation: n, accept }.encode();
        assert!(key(&name("a"), u64::MAX) < key(&name("a-"), 0));
    }
}
