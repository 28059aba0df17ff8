//! Keys of schedules.

use crate::domain::id::{ScheduleId, UserId};
use crate::store::redb::codec::keys::reader::{KeyPart, KeyReader, id_ends, join, key};

/// Bytes of a schedule's key.
pub(crate) type ScheduleBytes = [u8; 16];
key! {
    /// A schedule in its user's list.
    ScheduleOwnerKey, ScheduleOwnerBytes = 20 {
        user: UserId,
        id: ScheduleId,
    }
}

impl ScheduleOwnerKey {
    /// The first and the last key that a user's can have.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        id_ends(|bits| Self { user, id: ScheduleId::from_bits(bits) })
    }
}

key! {
    /// A schedule at its next occurrence.
    ScheduleDueKey, ScheduleDueBytes = 24 {
        due_ms: u64,
        id: ScheduleId,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn schedule_due_keys_round_trip_and_sort(a: (u64, u128), b: (u64, u128), same: bool) {
            let key = |(due_ms, bits)| ScheduleDueKey { due_ms, id: ScheduleId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(ScheduleDueKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }

        #[test]
        fn p7_schedule_owner_keys_round_trip_and_sort_by_user(a: (u32, u128), b: (u32, u128), same: bool) {
            let key = |(user, bits)| ScheduleOwnerKey { user: UserId(user), id: ScheduleId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(ScheduleOwnerKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
            let (first, last) = ScheduleOwnerKey::ends(a.user);
            prop_assert_eq!((first..=last).contains(&b), a.user == b.user);
        }
    }
}
