//! Keys of schedules.

use crate::domain::id::{ScheduleId, UserId};
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a schedule's key.
pub(crate) type ScheduleBytes = [u8; 16];
/// Bytes of a [`ScheduleOwnerKey`].
pub(crate) type ScheduleOwnerBytes = [u8; 20];
/// Bytes of a [`ScheduleDueKey`].
pub(crate) type ScheduleDueBytes = [u8; 24];

/// A schedule in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScheduleOwnerKey {
    pub(crate) user: UserId,
    pub(crate) id: ScheduleId,
}

impl ScheduleOwnerKey {
    /// Before and behind all of a user's.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        let key = |bits| Self { user, id: ScheduleId::from_bits(bits) };
        (key(u128::MIN), key(u128::MAX))
    }

    pub(crate) fn encode(self) -> ScheduleOwnerBytes {
        join(&[&self.user.0.to_be_bytes(), &self.id.to_bytes()])
    }

    pub(crate) fn decode(bytes: &ScheduleOwnerBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { user: UserId(cut.u32()), id: ScheduleId::from_bytes(cut.take()) }
    }
}

/// A schedule at its next occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScheduleDueKey {
    pub(crate) due_ms: u64,
    pub(crate) id: ScheduleId,
}

impl ScheduleDueKey {
    pub(crate) fn encode(self) -> ScheduleDueBytes {
        join(&[&self.due_ms.to_be_bytes(), &self.id.to_bytes()])
    }

    pub(crate) fn decode(bytes: &ScheduleDueBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { due_ms: cut.u64(), id: ScheduleId::from_bytes(cut.take()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn due_keys_round_trip_and_sort(a: (u64, u128), b: (u64, u128), same: bool) {
            let key = |(due_ms, bits)| ScheduleDueKey { due_ms, id: ScheduleId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(ScheduleDueKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn p7_owner_keys_round_trip_sort_and_keep_users_apart(a: (u32, u128), b: (u32, u128), same: bool) {
            let key = |(user, bits)| ScheduleOwnerKey { user: UserId(user), id: ScheduleId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(ScheduleOwnerKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
            let (first, last) = ScheduleOwnerKey::ends(a.user);
            prop_assert_eq!((first..=last).contains(&b), a.user == b.user);
        }
    }
}
