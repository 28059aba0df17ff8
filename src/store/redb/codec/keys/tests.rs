//! Properties of the key codecs: order and round trips.

use super::accounts::*;
use super::conversations::*;
use super::jobs::*;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::JobStatus;
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
    fn ready_entries_round_trip(job: u128, since_ms: u64) {
        let waiting = ReadyEntry { job: JobId::from_bits(job), since_ms };
        prop_assert_eq!(ReadyEntry::decode(&waiting.encode()), waiting);
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
    fn p7_turn_keys_sort_by_user_conversation_and_acceptance(
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
    fn job_owner_keys_sort_by_acceptance_within_user_and_status(user: u32, a: u64, b: u64) {
        let key = |accept| JobOwnerKey { user: UserId(user), status: JobStatus::Failed, accept }.encode();
        prop_assert_eq!(JobOwnerKey::accept(&key(a)), a);
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
    fn fair_keys_are_unique_per_priority_and_user(a: (u8, u32), b: (u8, u32)) {
        let key = |(priority, user)| FairKey { priority, user: UserId(user) };
        prop_assert_eq!(key(a).encode() == key(b).encode(), a == b);
    }
}

#[test]
fn turns_of_a_conversation_sort_before_those_of_a_longer_name() {
    let name = |text: &str| ConversationId::try_from(text.to_owned()).unwrap();
    let key = |n, accept| TurnKey { user: UserId(1), conversation: n, accept }.encode();
    assert!(key(&name("a"), u64::MAX) < key(&name("a-"), 0));
}
