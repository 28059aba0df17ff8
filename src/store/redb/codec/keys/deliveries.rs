//! Keys of webhook deliveries.

use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::DeliveryState;
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a delivery's key.
pub(crate) type DeliveryBytes = [u8; 16];
/// A time in unix milliseconds, then an id.
pub(crate) type DeliveryTimeBytes = [u8; 24];
/// A user, a state, an id.
pub(crate) type DeliveryOwnerBytes = [u8; 21];

/// The key of an id at a time.
pub(crate) fn time_key(at_ms: u64, id: DeliveryId) -> DeliveryTimeBytes {
    join(&[&at_ms.to_be_bytes(), &id.to_bytes()])
}

/// The time and the id inside an encoded key.
pub(crate) fn time_of(key: &DeliveryTimeBytes) -> (u64, DeliveryId) {
    let mut reader = KeyReader(key);
    (reader.part(), reader.part())
}

/// The value of a due delivery: its owner and its receiver.
pub(crate) fn due_value(user: UserId, receiver: &str) -> String {
    format!("{} {receiver}", user.0)
}

/// Owner and receiver inside such a value. Earlier builds wrote no owner.
pub(crate) fn owner_and_receiver(value: &str) -> (Option<UserId>, &str) {
    let parts = value.split_once(' ').and_then(|(user, receiver)| Some((user.parse().ok()?, receiver)));
    parts.map_or((None, value), |(user, receiver)| (Some(UserId(user)), receiver))
}

/// The key of a delivery in its owner's list.
pub(crate) fn owned_key(user: UserId, state: DeliveryState, id: DeliveryId) -> DeliveryOwnerBytes {
    join(&[&user.0.to_be_bytes(), &[state_byte(state)], &id.to_bytes()])
}

/// The id inside an encoded key.
pub(crate) fn owned_id(key: &DeliveryOwnerBytes) -> DeliveryId {
    let mut reader = KeyReader(key);
    let _user_and_state: [u8; 5] = reader.take();
    reader.part()
}

/// These bytes are on disk: a new state gets a new number, none is ever given out twice.
fn state_byte(state: DeliveryState) -> u8 {
    match state {
        DeliveryState::Pending => 1,
        DeliveryState::Delivered => 2,
        DeliveryState::Dead => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_owner_of_a_due_delivery_is_read_from_its_value_if_it_is_there() {
        assert_eq!(owner_and_receiver(&due_value(UserId(7), "a.test:81")), (Some(UserId(7)), "a.test:81"));
        assert_eq!(owner_and_receiver("[::1]:81"), (None, "[::1]:81"));
    }

    proptest! {
        #[test]
        fn delivery_time_keys_round_trip_and_sort(a: (u64, u128), b: (u64, u128)) {
            let key = |(at, bits)| time_key(at, DeliveryId::from_bits(bits));
            prop_assert_eq!(time_of(&key(a)), (a.0, DeliveryId::from_bits(a.1)));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn owned_delivery_keys_sort_by_age_within_user_and_state(user: u32, a: u128, b: u128) {
            let key = |bits| owned_key(UserId(user), DeliveryState::Dead, DeliveryId::from_bits(bits));
            prop_assert_eq!(owned_id(&key(a)), DeliveryId::from_bits(a));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }
    }
}
